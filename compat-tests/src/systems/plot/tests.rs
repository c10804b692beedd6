use super::*;

const AXIS: Axis = Axis { title: "bytes", label: |x| format!("{x:.0} B"), base: 2.0 };

fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
    Curve { name: name.into(), family: Family::Kernel, points: points.to_vec() }
}

#[test]
fn every_curve_has_its_name_and_marks() {
    let curves = [curve("pipe", &[(8.0, 1e3), (4096.0, 5e3)]), curve("a <b>", &[(8.0, 2e3)])];
    let svg = draw("One way", &AXIS, &AXIS, &curves).unwrap();
    for words in ["One way", "pipe", "a &lt;b&gt;", "bytes"] {
        assert!(svg.contains(words), "{words}");
    }
    // Two points and the one beside the name.
    assert_eq!(svg.matches("<circle").count(), 3);
    assert!(svg.trim_end().ends_with("</svg>"));
}

#[test]
fn nothing_is_not_drawn() {
    assert!(draw("One way", &AXIS, &AXIS, &[curve("pipe", &[])]).is_err());
}

#[test]
fn a_family_goes_from_dark_to_light() {
    let curves = [curve("one", &[]), curve("two", &[])];
    let RGBColor(first, ..) = colour(&curves, 0);
    let RGBColor(second, ..) = colour(&curves, 1);
    assert!(first < second);
}
