//! Two gateways and a link of 100 Mbit/s that loses frames, by a clock of its own: how much of the link is left to
//! programs, and what it took. `cargo run --release -p dp-flow --example lossy_link [SECONDS]`

#[path = "../tests/sim/mod.rs"]
mod sim;

use sim::{configs, Link, World, S, US};

/// Bytes in a second.
const SPEED: u64 = 12_500_000;
const MESSAGE: usize = 64 << 10;
/// In a frame: what Ethernet carries, less the header and what a first part has beside it.
const PART: u16 = 1500 - 32 - 12;

fn main() {
    let seconds = match std::env::args().nth(1).map(|arg| arg.parse::<u64>()) {
        None => 2,
        Some(Ok(seconds @ 1..=3600)) => seconds,
        Some(_) => {
            eprintln!("lossy_link: SECONDS is a number from 1 to 3600");
            std::process::exit(2);
        }
    };
    // Of a frame on the wire, its part.
    let framing = f64::from(PART) / f64::from(PART + 32 + 38);
    println!("messages of {MESSAGE} bytes over 100 Mbit/s, 40 us one way, a queue of 64 KiB; {seconds} s");
    println!("framing leaves {:.1} % of the link", 100.0 * framing);
    println!();
    println!(
        "{:>8} {:>9} {:>12} {:>9} {:>9} {:>8}",
        "lost", "link", "of framing", "repeats", "time-outs", "rtt"
    );
    for (paced, lost) in [(true, 0), (true, 1), (true, 10), (true, 50), (true, 100), (false, 0), (false, 10)]
    {
        let mut configs = configs(7);
        for config in &mut configs {
            config.part_max = PART;
            config.link = paced.then_some(dp_flow::Link { speed: SPEED, around: 38 });
        }
        let link = Link { lost, delay: 40 * US, speed: Some(SPEED), queue: 64 << 10, ..Link::GOOD };
        let mut world = World::<128>::new(configs, link, 7);
        let begin = world.now;
        while world.now < begin + seconds * S {
            while world.send(0, MESSAGE, None) {}
            world.step();
            // What was looked at is not kept.
            world.sides[1].inbox.messages.clear();
        }
        let side = &world.sides[0];
        let carried = side.delivered.len() as f64 * MESSAGE as f64 / (world.now - begin) as f64 * 1e9;
        let (counts, state) = (side.flow.counts(), side.flow.state());
        println!(
            "{:>6.1} % {:>7.1} % {:>10.1} % {:>7.2} % {:>9} {:>5} us{}",
            f64::from(lost) / 10.0,
            100.0 * carried / SPEED as f64,
            100.0 * carried / SPEED as f64 / framing,
            100.0 * counts.repeats as f64 / counts.frames_out as f64,
            counts.timeouts,
            state.round_trip / 1000,
            if paced { "" } else { ", not paced" },
        );
        assert!(side.lost.is_empty());
    }
}
