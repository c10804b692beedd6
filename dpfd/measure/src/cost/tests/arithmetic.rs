//! The formulas, against numbers worked out by hand.

use crate::cost::bandwidth::{exchange, one_direction, packets};
use crate::cost::fit::{Border, Pieces, Room};
use crate::cost::model::{error, Bound, Costs, Linear};
use crate::cost::probe::{Load, Plan};
use crate::stats::Estimate;

const FAST: Costs = Costs { o_s: 7.0, g: 122.0, l: 130.0, o_r: 20.0, u_r: 0.5 };

#[test]
fn a_cost_is_a_start_and_a_rate() {
    assert_eq!(Linear { k: 20.0, t: 0.25 }.at(1000), 270.0);
}

#[test]
fn the_condition_is_the_papers() {
    assert!(FAST.condition());
    // Each of both inequalities, and each overhead, by itself.
    for broken in [
        Costs { g: 130.0, ..FAST },
        Costs { l: 122.0, ..FAST },
        Costs { o_s: 101.5, ..FAST },
        Costs { o_r: 114.5, ..FAST },
        Costs { u_r: 95.0, ..FAST },
    ] {
        assert!(!broken.condition(), "{broken:?}");
    }
}

#[test]
fn the_slowest_stage_decides() {
    assert_eq!(FAST.bound(), Bound::Network);
    // O_r above the gaps, as on the paper's Gigabit Ethernet.
    assert_eq!(Costs { o_r: 19.7, u_r: 0.06, g: 18.76, l: 30.0, o_s: 7.0 }.bound(), Bound::Receiver);
    assert_eq!(Costs { u_r: 122.0, o_r: 0.1, ..FAST }.bound(), Bound::Receiver);
    assert_eq!(Costs { o_s: 123.0, ..FAST }.bound(), Bound::Sender);
    assert_eq!(Costs { o_s: 124.0, u_r: 140.0, ..FAST }.bound(), Bound::Receiver);
    // As long as the gap, as far as that can be told.
    assert_eq!(Costs { o_s: 117.0, ..FAST }.bound(), Bound::Sender);
    // The condition fails, but no processor is slower than the gap.
    assert_eq!(Costs { l: 5.0, ..FAST }.bound(), Bound::Network);
    assert_eq!(Costs { o_s: 70.0, u_r: 70.0, ..FAST }.bound(), Bound::Network);
}

#[test]
fn each_stage_has_its_equation() {
    let sum = 7.0 + 130.0 + 20.0 + 0.5;
    for bound in [Bound::Network, Bound::Receiver, Bound::Sender] {
        assert_eq!(FAST.one_way(bound, 0), 0.0);
        assert_eq!(FAST.one_way(bound, 1), sum);
    }
    assert_eq!(FAST.one_way(Bound::Network, 11), sum + 1220.0);
    assert_eq!(FAST.one_way(Bound::Receiver, 11), 7.0 + 130.0 + 11.0 * 20.5);
    assert_eq!(FAST.one_way(Bound::Sender, 11), 11.0 * 7.0 + 130.0 + 20.5);
}

#[test]
fn an_error_is_part_of_what_was_measured() {
    assert!((error(110.0, 100.0) - 0.1).abs() < 1e-9 && (error(50.0, 100.0) + 0.5).abs() < 1e-9);
}

fn at(m: usize, ns: f64) -> (usize, Estimate) {
    (m, Estimate { ns, half: 0.01 * ns, batches: 5 })
}

const BORDERS: [Border; 3] = [
    Border { name: "line", upto: 56 },
    Border { name: "cache", upto: 1000 },
    Border { name: "far", upto: usize::MAX },
];

#[test]
fn pieces_have_lines_of_their_own() {
    let points: Vec<_> = [8, 24, 56, 57, 100, 1000, 1001, 4000, 9000]
        .map(|m| match m {
            0..=56 => at(m, 20.0),
            57..=1000 => at(m, 40.0 + 0.5 * m as f64),
            _ => at(m, 9000.0 + 2.0 * m as f64),
        })
        .into();
    let found = Pieces::fit(&points, &BORDERS).unwrap();
    let names: Vec<_> = found.0.iter().map(|p| (p.name, p.range)).collect();
    assert_eq!(names, [("line", [1, 56]), ("cache", [57, 1000]), ("far", [1001, usize::MAX])]);
    for (m, ns) in
        [(1, 20.0), (56, 20.0), (200, 140.0), (1000, 540.0), (1001, 11_002.0), (1 << 24, 33_563_432.0)]
    {
        assert!((found.at(m) / ns - 1.0).abs() < 1e-6, "{m}: {}", found.at(m));
    }
    assert!(found.0.iter().all(|p| p.error < 1e-9 && p.worst < 1e-9));
}

#[test]
fn how_far_points_are_from_their_line_is_told() {
    // A slope of 1 from the outer two; the middle one is a fifth of itself away.
    let found = Pieces::fit(&[at(100, 100.0), at(200, 250.0), at(900, 900.0)], &BORDERS[1..]).unwrap();
    let piece = &found.0[0];
    assert!((piece.worst - 0.2).abs() < 0.05 && piece.error <= piece.worst, "{piece:?}");
}

#[test]
fn a_piece_without_points_is_unknown_and_borrows_nothing() {
    let line = |m: usize| at(m, 10.0 + m as f64);
    let known = |points: &[(usize, Estimate)]| {
        let found = Pieces::fit(points, &BORDERS).unwrap();
        let ranges: Vec<_> = found.0.iter().map(|p| (p.name, p.range)).collect();
        assert_eq!(ranges, [("line", [1, 56]), ("cache", [57, 1000]), ("far", [1001, usize::MAX])]);
        [8, 200, 5000].map(|m| found.at(m).is_finite())
    };
    // One point below the first border, one above the last.
    assert_eq!(known(&[line(8), line(100), line(500), line(2000)]), [false, true, false]);
    // None in the middle; none above.
    assert_eq!(known(&[line(8), line(9), line(2000), line(4000)]), [true, false, true]);
    assert_eq!(known(&[line(8), line(9), line(100), line(900)]), [true, true, false]);
    // Nobody knows anything.
    assert_eq!(Pieces::fit(&[line(8)], &BORDERS), None);
    assert_eq!(Pieces::fit(&[line(8), line(2000)], &BORDERS), None);
    assert_eq!(Pieces::fit(&[], &BORDERS), None);
}

/// Borders as they are between two endpoints: a message of the edge's length and one byte has memory of its own.
#[test]
fn each_piece_that_is_predicted_has_three_lengths_at_least() {
    const MOST: usize = 16 << 20;
    for far in [4 << 20, MOST - 5, 24 << 20] {
        let borders = [56, 24 << 10, 512 << 10, 1_048_448, far, usize::MAX];
        let borders = borders.map(|upto| Border { name: "some", upto });
        for (packet, quick) in [(64, true), (16_384, true), (16_384, false), (262_144, true)] {
            for longest in (20..=24).map(|n| 1 << n) {
                let plain = Plan::new(packet, longest, quick);
                let plan = plain.clone().covering(&borders, MOST);
                assert!(plain.sizes.iter().all(|m| plan.sizes.contains(m)), "{plan:?}");
                assert!(plan.sizes.iter().all(|&m| m <= MOST && !m.is_power_of_two()), "{plan:?}");
                assert!(plan.sizes.windows(2).all(|pair| pair[0] < pair[1]), "{plan:?}");
                assert_eq!(plan, plan.clone().covering(&borders, MOST), "once is enough");
                let mut from = 1;
                for border in &borders {
                    let count =
                        |of: &[usize]| of.iter().filter(|&m| (from..=border.upto).contains(m)).count();
                    // Five bytes have no room for three.
                    let three = count(&plan.messages) == 0 || count(&plan.sizes) >= 3 || far == MOST - 5;
                    assert!(three, "{from} to {}: {plan:?}", border.upto);
                    // Of long packets no message lies far before the first of them.
                    let first = |of: &[usize]| of.iter().copied().find(|m| (from..=border.upto).contains(m));
                    let begin = first(&plan.messages).zip(first(&plan.sizes));
                    assert!(
                        from < 1 << 16 || begin.is_none_or(|(m, size)| size <= m.max(from) / 4 * 5 + 5),
                        "{plan:?}"
                    );
                    from = border.upto.saturating_add(1);
                }
                let spreads = &plan.spreads;
                assert!(spreads[0] <= packet && *spreads.last().unwrap() >= longest, "{spreads:?}");
            }
        }
    }
}

#[test]
fn a_queue_has_bytes_for_packets_and_what_goes_with_them() {
    let points: Vec<_> = [100, 1000, 10_000].map(|m| (m, 1e6 / (m as f64 + 50.0))).into();
    let room = Room::fit(&points).unwrap();
    assert!((room.bytes - 1e6).abs() < 1.0 && (room.beside - 50.0).abs() < 0.01, "{room:?}");
    assert!((room.packets(950) - 1000.0).abs() < 0.01 && room.error < 1e-6);
    assert_eq!(Room::fit(&points[..1]), None);
}

#[test]
fn bandwidth_is_ten_megabytes_less_an_acknowledgement() {
    assert_eq!((packets(1000), packets(1500), packets(16 << 20)), (10_000, 6667, 1));
    // 10 MB in 125.8 ms, of which 16.3 us are the acknowledgement's: 79.5 MB/s, as in the paper.
    let rate = one_direction(10_000, 1000, 125.8026e6, 16.3e3);
    assert!((rate / 79.5e6 - 1.0).abs() < 1e-3, "{rate}");
    assert!(one_direction(10_000, 1000, 10.0, 20.0).is_nan());
    assert_eq!(exchange(10_000, 1000, [1e8, 2e8]), 5e7);
    assert_eq!(exchange(10_000, 1000, [2e8, 1e8]), 5e7);
}

#[test]
fn what_is_predicted_was_not_measured_for_a_fit() {
    for quick in [false, true] {
        let plan = Plan::new(16_384, 16 << 20, quick);
        assert!(plan.messages.iter().all(|m| !plan.sizes.contains(m)));
        assert!(plan.cut().all(|load| !plan.spreads.contains(&load.spread)));
        for list in [&plan.sizes, &plan.messages, &plan.spreads] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
        }
        assert!(plan.messages[0] == 1 && *plan.messages.last().unwrap() == 16 << 20);
        assert!(plan.sizes[0] == 3 && *plan.sizes.last().unwrap() > 8 << 20);
        assert!(plan.cut().count() >= 5 && plan.cut().all(|load| load.packets() > 1));
    }
}

#[test]
fn a_message_has_as_many_packets_as_fit() {
    assert_eq!(Load::whole(5000).packets(), 1);
    assert_eq!(Load { packet: 1000, spread: 16_000 }.packets(), 16);
    assert_eq!(Load { packet: 1000, spread: 10 }.packets(), 1);
}
