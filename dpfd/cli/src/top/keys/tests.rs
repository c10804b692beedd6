use super::super::tests::{looked, rows};
use super::*;

fn press(ui: &mut Ui, rows: &[&Row], keys: &str) -> Vec<Do> {
    let code = |c| match c {
        '\n' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\u{1b}' => KeyCode::Esc,
        '\u{8}' => KeyCode::Backspace,
        'v' => KeyCode::Down,
        '^' => KeyCode::Up,
        c => KeyCode::Char(c),
    };
    keys.chars().map(|c| ui.key(KeyEvent::new(code(c), KeyModifiers::NONE), rows)).collect()
}

fn ui() -> Ui {
    Ui::new(Kind::Program, Sort::Rate, false)
}

#[test]
fn a_filter_is_typed_and_taken_back() {
    let mut ui = ui();
    assert_eq!(press(&mut ui, &[], "/qx\u{8}p\n").last(), Some(&Do::Filter("qp".into())));
    assert!(!ui.paused && ui.typed.is_none());
    // Given up: the one that holds stays.
    assert_eq!(press(&mut ui, &[], "/abc\u{1b}"), vec![Do::Nothing; 5]);
    assert_eq!(ui.typed, None);
    ui.filter = "qp".into();
    press(&mut ui, &[], "/");
    assert_eq!(ui.typed.as_deref(), Some("qp"));
    press(&mut ui, &[], "\u{1b}");
    assert_eq!(press(&mut ui, &[], "\u{1b}"), [Do::Filter(String::new())]);
}

#[test]
fn views_turn_and_come_round() {
    let mut ui = ui();
    press(&mut ui, &[], "\t\t");
    assert_eq!(ui.view, Kind::Endpoint);
    press(&mut ui, &[], "6\t");
    assert_eq!(ui.view, Kind::Program);
    ui.key(KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT), &[]);
    assert_eq!(ui.view, Kind::Flow);
}

#[test]
fn who_was_chosen_stays_chosen_when_the_order_changes() {
    let look = looked(10);
    let mut all = rows(&look);
    all[2].to = Some("127.0.0.1:5".into());
    let mut ui = ui();
    press(&mut ui, &[], "2");
    press(&mut ui, &[&all[1], &all[2]], "v");
    assert_eq!(ui.chosen, 1);
    ui.settle(&[&all[2], &all[1]], 10);
    assert_eq!(ui.chosen, 0);
    // Gone: whatever stands there now, and never beyond the end.
    ui.settle(&[&all[1]], 10);
    assert_eq!(ui.chosen, 0);
    ui.settle(&[], 10);
    assert_eq!((ui.chosen, ui.first), (0, 0));
}

#[test]
fn the_chosen_line_is_on_the_screen() {
    let look = looked(10);
    let all = rows(&look);
    let many: Vec<Row> = (0..50).map(|pid| Row { pid: Some(pid), ..all[1].clone() }).collect();
    let many: Vec<&Row> = many.iter().collect();
    let mut ui = ui();
    ui.settle(&many, 10);
    press(&mut ui, &many, &"v".repeat(12));
    ui.settle(&many, 10);
    assert_eq!((ui.chosen, ui.first), (12, 3));
    press(&mut ui, &many, "^^^");
    ui.settle(&many, 10);
    assert_eq!((ui.chosen, ui.first), (9, 3));
    ui.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE), &many);
    ui.settle(&many, 10);
    assert_eq!((ui.chosen, ui.first), (49, 40));
    // A larger screen has no empty lines below.
    ui.settle(&many, 30);
    assert_eq!(ui.first, 20);
    ui.settle(&many, 0);
    assert_eq!(ui.chosen, 49);
}

#[test]
fn only_a_channel_is_followed() {
    let look = looked(10);
    let all = rows(&look);
    let mut ui = ui();
    assert_eq!(press(&mut ui, &[&all[0]], "\n"), [Do::Nothing]);
    assert!(ui.said.is_some());
    let connections = [&all[1], &all[2]];
    assert_eq!(press(&mut ui, &connections, "l"), [Do::Follow(Some("127.0.0.1:7000".into()))]);
    assert_eq!(press(&mut ui, &connections, "vl")[1], Do::Nothing, "it is on TCP");
    ui.follows = true;
    assert_eq!(press(&mut ui, &connections, "\u{1b}"), [Do::Follow(None)]);
}

#[test]
fn control_keys_are_no_letters() {
    let mut ui = ui();
    let control = |ui: &mut Ui, c| ui.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL), &[]);
    assert_eq!(
        ['c', 'z', 'l', 'q'].map(|c| control(&mut ui, c)),
        [Do::Quit, Do::Stop, Do::Redraw, Do::Nothing]
    );
    press(&mut ui, &[], "/abc");
    assert_eq!(control(&mut ui, 'c'), Do::Quit);
    control(&mut ui, 'u');
    assert_eq!(ui.typed.as_deref(), Some(""));
}

#[test]
fn help_goes_with_any_key_which_does_nothing_else() {
    let mut ui = ui();
    press(&mut ui, &[], "h");
    assert!(ui.help);
    assert_eq!(press(&mut ui, &[], "q"), [Do::Nothing]);
    assert!(!ui.help);
    assert_eq!(press(&mut ui, &[], "pp"), [Do::Nothing, Do::Look]);
}
