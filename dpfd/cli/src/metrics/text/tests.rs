use super::*;
use crate::ls::tests::listing;

fn values(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' ')).collect()
}

#[test]
fn what_is_listed_is_counted() {
    let text = of(&listing(), true);
    let values = values(&text);
    let family = r#"pid="71",program="redis-server""#;
    for (name, value) in [
        ("dp_endpoints_listed", "1"),
        (&*format!("dp_family_processes{{{family}}}"), "2"),
        (&*format!("dp_family_channels_total{{{family}}}"), "5"),
        (&*format!("dp_family_ring_bytes_total{{direction=\"received\",{family}}}"), "34560"),
        (&*format!("dp_family_connections{{{family},state=\"channel\"}}"), "1"),
        (&*format!("dp_family_tcp_connections_total{{{family},reason=\"no-offer\"}}"), "3"),
        (&*format!("dp_family_info{{{family},shim=\"0.1.0\",state=\"on\"}}"), "1"),
    ] {
        assert_eq!(values.get(name), Some(&value), "{name}\n{text}");
    }
}

#[test]
fn each_name_says_what_it_is() {
    let text = of(&listing(), true);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
}

#[test]
fn a_program_cannot_write_lines_of_its_own() {
    let mut listing = listing();
    listing.families[0].processes[0].program = "a\"} 1\nb{x=\"".into();
    let text = of(&listing, true);
    assert!(text.lines().all(|line| line.starts_with('#') || line.starts_with("dp_")), "{text}");
}

#[test]
fn of_a_program_without_connections_nothing_is_counted() {
    let mut listing = listing();
    listing.families[0].state = State::Idle;
    let text = of(&listing, false);
    assert!(text.contains("state=\"idle\"") && !text.contains("dp_family_channels_total{"), "{text}");
    assert!(text.contains("dp_endpoints_listed 0"));
}
