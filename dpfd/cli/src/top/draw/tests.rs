use ratatui::layout::Rect;

use super::super::rows::Sort;
use super::super::stay::Stay;
use super::super::tests::{looked, rows};
use super::super::watch::{Ends, Told};
use super::*;

fn buffer(look: &Look, ui: &mut Ui, size: (u16, u16), colours: bool) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    let rows = rows(look);
    Picture { ui, look, rows: &rows, every: 2.0, colours: Colours(colours) }.draw(&mut buffer);
    buffer
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line =
        |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
    (0..area.height).map(line).collect()
}

fn ui(view: Kind) -> Ui {
    Ui::new(view, Sort::Rate, false)
}

#[test]
fn a_screen_has_the_sums_the_views_the_lines_and_how_it_is_shown() {
    let look = looked(20_480);
    let lines = lines(&buffer(&look, &mut ui(Kind::Connection), (80, 24), true));
    assert_eq!(lines[0], "dp top  01:02:03 UTC  1 programs, 1 channel ends, 1 on TCP, 10KiB/s sent");
    assert_eq!(lines[1], " 1 Programs 1 2 Connections 2 3 Endpoints 4 Edges 5 Routes 6 Flows");
    assert!(lines[2].starts_with("PROGRAM       PID  LOCAL"), "{}", lines[2]);
    assert!(lines[3].contains("channel") && lines[4].contains("no-offer"), "{lines:?}");
    assert_eq!(lines[23], "by rate  every 2 s  h keys  q end");
}

#[test]
fn without_colours_there_are_none() {
    let look = looked(20_480);
    let coloured = |colours| {
        let buffer = buffer(&look, &mut ui(Kind::Connection), (80, 24), colours);
        buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(coloured(true) && !coloured(false));
}

#[test]
fn any_size_is_drawn() {
    let mut look = looked(20_480);
    let ends = Ends { local: "127.0.0.1:7000".parse().unwrap(), peer: "127.0.0.1:40000".parse().unwrap() };
    let mut stay = Stay::default();
    (0..100u64).for_each(|i| stay.look(200 * i, 10 * (i / 4), 10 * (i / 4).saturating_sub(1), true));
    look.latency = Some((ends, Told { directions: [stay, Stay::default()], over: None }));
    for (width, height) in [(1, 1), (19, 24), (20, 5), (40, 8), (80, 24), (300, 100)] {
        for kind in Kind::ALL {
            let mut ui = ui(kind);
            ui.follows = true;
            let drawn = lines(&buffer(&look, &mut ui, (width, height), true));
            assert_eq!(drawn.len(), usize::from(height));
            ui.help = true;
            buffer(&look, &mut ui, (width, height), true);
        }
    }
    let mut ui = ui(Kind::Connection);
    ui.follows = true;
    let drawn = lines(&buffer(&look, &mut ui, (80, 24), true)).join("\n");
    assert!(
        drawn.contains("-> 127.0.0.1:40000  mean ") && drawn.contains("<- 127.0.0.1:40000  nothing"),
        "{drawn}"
    );
    assert!(drawn.contains("-> 100.0 % ###"), "{drawn}");
}

#[test]
fn what_is_missing_and_what_there_is_to_say_is_said_below() {
    let mut look = looked(0);
    look.said = vec!["the gateway does not\u{1b} answer".into()];
    let mut ui = ui(Kind::Flow);
    let last = |look: &Look, ui: &mut Ui| lines(&buffer(look, ui, (80, 24), false))[22..].to_vec();
    assert_eq!(last(&look, &mut ui), ["the gateway does not? answer", "by rate  every 2 s  h keys  q end"]);
    ui.said = Some("of the key".into());
    assert_eq!(last(&look, &mut ui)[1], "of the key");
    ui.typed = Some("redis".into());
    assert_eq!(last(&look, &mut ui)[1], "filter: redis_");
    // Where there is hardly room.
    for size in [(80, 5), (20, 6)] {
        buffer(&look, &mut ui, size, true);
    }
}
