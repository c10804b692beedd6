use super::*;

fn told() -> (Ends, Told) {
    let ends = Ends { local: "127.0.0.1:7000".parse().unwrap(), peer: "127.0.0.1:40000".parse().unwrap() };
    let mut stays = [Stay::default(), Stay::default()];
    // The one keeps each byte for about 1 us, the other for longer and longer.
    let mut sent = 0;
    for i in 0..2_000u64 {
        stays[0].look(100 * i, i / 10, (i / 10).saturating_sub(1), true);
        sent += u64::from(i.is_power_of_two());
        stays[1].look(100 * i, sent, sent.saturating_sub(1), true);
    }
    (ends, Told { directions: stays, over: None })
}

#[test]
fn both_directions_stand_beside_each_other() {
    let (ends, told) = told();
    let pane = pane(ends, &told, 80, 40);
    assert!(
        pane[0].starts_with("-> 127.0.0.1:40000  mean ") && pane[1].starts_with("<- 127.0.0.1:40000  mean ")
    );
    assert!(pane[2].starts_with("-> 198 portions, 0 unclear, a look every 100 ns"), "{pane:#?}");
    assert!(pane.iter().all(|line| line.chars().count() <= 80), "{pane:#?}");
    assert!(
        pane.iter().any(|line| line.contains("512 ns - 1.0 us") && line.contains("-> 100.0 % ####")),
        "{pane:#?}"
    );
}

#[test]
fn lines_of_json_have_the_documented_fields() {
    let (ends, told) = told();
    let all = objects(ends, &told);
    assert!(all.len() == 2 && all[0]["histogram"][0]["portions"].as_u64().is_some(), "{all:?}");
    crate::page::documents(include_str!("../../../../../man/dp-top.1"), &all.into(), &[]);
}

#[test]
fn where_there_is_little_room_the_ends_are_put_together() {
    let (ends, told) = told();
    let all = pane(ends, &told, 80, 40);
    let less = pane(ends, &told, 80, 8);
    assert!(all.len() > 8 && less.len() == 8, "{all:#?} {less:#?}");
    // Nothing is lost: shares of each direction are a hundred still.
    let sum = |pane: &[String], arrow: &str| {
        let share = |line: &String| {
            line.split(arrow).nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        };
        pane[3..].iter().filter_map(share).sum::<f64>()
    };
    for arrow in ["-> ", "<- "] {
        assert!((sum(&less, arrow) - 100.0).abs() < 0.5, "{less:#?}");
    }
    for (width, height) in [(0, 0), (20, 2), (30, 4), (80, 5)] {
        assert!(pane(ends, &told, width, height).len() <= height);
    }
}
