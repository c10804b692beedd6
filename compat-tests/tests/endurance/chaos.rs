//! Long streams in both directions at once while the shim switches at random, and while threads race.

use compat_tests::{difference, Combo, Pair};

use crate::product;

/// MiB in each direction of one run.
const EACH_WAY: u64 = 16;

#[test]
fn long_streams_survive_random_switching() {
    let _turn = product::alone();
    let runs = if product::long() { 1024 } else { 256 } / (2 * EACH_WAY);
    let pair = Pair::c("threads").arg("duplex").arg(&EACH_WAY.to_string());
    let expected = pair.run(&Combo::native());
    let mut wrong = String::new();
    for run in 0..runs {
        let mut combo = Combo { chaos: Some(100 + run as u32), ..Combo::shimmed() };
        if run % 2 == 1 {
            (combo.warm, combo.after) = (0, Some(1));
        }
        // The ring as it is, as small as it can be, and something odd.
        let ring = ["131072", "4096", "20000"][run as usize % 3];
        for (expected, got) in expected.iter().zip(pair.clone().env("DP_RING", ring).run(&combo)) {
            assert!(expected.ok(), "natively: {}", expected.text());
            if got.status != expected.status || got.transcript != expected.transcript {
                let shown = difference(&expected.transcript, &got.transcript);
                wrong += &format!("DP_CHAOS={:?} DP_AFTER={:?} DP_RING={ring}: ", combo.chaos, combo.after);
                wrong += &format!("{}\n{shown}{}", got.status, got.errors);
            }
        }
        if wrong.contains("timed out") {
            break;
        }
    }
    assert!(wrong.is_empty(), "threads duplex {EACH_WAY}\n{wrong}");
}

/// Where one thread waits and others read and write, each looks at what the others change: how often that goes wrong depends on
/// the machine, one run in hundreds once.
#[test]
fn tasks_and_threads_survive_their_races() {
    let _turn = product::alone();
    let kinds = [("reactor", "4", "8192"), ("reactor", "24", "512"), ("oneshot", "24", "512")];
    for run in 0..if product::long() { 600 } else { 12 } {
        // Every other time with switches in between.
        let chaos = (run % 2 == 1).then_some(run as u32);
        let combo = Combo { warm: 0, chaos, ..Combo::shimmed() };
        let (mode, connections, kib) = kinds[run % kinds.len()];
        let pair = Pair::c("reactor").arg(mode).arg(connections).arg(kib);
        for ended in pair.run(&combo) {
            assert!(ended.ok(), "run {run}, {mode} {connections} {kib}: {}", ended.text());
        }
    }
}

/// Programs of races in every mode, with other choices in each run: threads that poll together, sets beside sets, numbers that
/// are renewed, ends beside receivers, processes that share connections, every kind of receive, storms of signals, jumps out of
/// handlers, connections that go from process to process, cancelled threads, time limits, pools of threads, too few descriptors and too
/// little memory, clients that are killed, processes made beside threads, programs that are connected to themselves.
#[test]
fn races_of_other_kinds_end_well() {
    let _turn = product::alone();
    let kinds: [[&str; 2]; 22] = [
        ["polled", "poll"],
        ["polled", "select"],
        ["sets", "sets"],
        ["numbers", "numbers"],
        ["cut_beside", "cut_beside"],
        ["workers", "accept"],
        ["workers", "shared"],
        ["forking", "forking"],
        ["receives", "receives"],
        ["storm", "restart"],
        ["storm", "interrupt"],
        ["jumps", "waits"],
        ["jumps", "all"],
        ["passed", "passed"],
        ["cancels", "cancels"],
        ["patience", "patience"],
        ["pool", "pool"],
        ["scarce", "numbers"],
        ["scarce", "memory"],
        ["spawning", "spawning"],
        ["itself", "itself"],
        ["short_lives", "short_lives"],
    ];
    // Mostly both sides have the shim; newborn connections as well as such that are channels already.
    let [_, both, server, client] = Combo::sides();
    let sides = [&both, &both, &server, &both, &client];
    let mut random = product::Random::new();
    for run in 0..if product::long() { 2000 } else { 2 * kinds.len() } {
        let seed = random.below(1_000_000);
        let combo = sides[random.below(sides.len() as u64) as usize];
        let warm = [0, 5, 100][random.below(3) as usize];
        let chaos = (random.below(3) == 0).then(|| 1 + random.below(1000) as u32);
        let combo = Combo { warm, after: (warm == 5).then_some(1), chaos, ..combo.clone() };
        let [program, mode] = kinds[run % kinds.len()];
        for ended in Pair::c(program).arg(mode).arg(&seed.to_string()).run(&combo) {
            let how =
                format!("DP_SEED={}, run {run}, {}, warm {warm}, chaos {chaos:?}", random.seed, combo.name);
            assert!(ended.ok(), "{how}: {program} {mode} {seed}: {}", ended.text());
        }
    }
}
