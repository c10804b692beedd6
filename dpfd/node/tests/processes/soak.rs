//! Everything at once, for two seconds, or as many as `DP_NODE_SOAK` says: messages of all lengths go between three nodes, while gateways
//! and endpoints are killed, cables pulled, and links shaped.

use std::collections::HashMap;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use dpfd::driver::user::gateway::hand_over;
use dpfd::{Addr, Parts};

use crate::account::{Account, Runs};
use crate::kit::{namespaces_are_possible, numbered, open, skip, until, Child, Node};
use crate::namespaces::Cluster;

/// Endpoints that live to the end, and those that are killed.
const STEADY: u16 = 7000;
const KILLED: u16 = 7001;
/// The last message of a sender.
const LAST: u64 = 1 << 58;
/// How long it may take until all of a sender is with its gateway, and how long the sender stays then.
const HANDED_OVER: Duration = Duration::from_secs(60);
const ON_ITS_WAY: Duration = Duration::from_secs(3);
/// The number of a sender's first message is how many were killed before it, times two to this.
const GENERATION: u32 = 40;

/// The node whose gateway is never killed.
const LIVES: usize = 0;
/// Flows and proxies of programs that were killed are kept for a minute, and what was allocated for them for good. In a shorter run
/// nothing is said of growth, which is another test's (`memory.rs`).
const WARM: Duration = Duration::from_secs(120);
/// What a process may have more by the end, bytes for each message, and in any case, KiB: flows of those that were killed, of which
/// there are not always as many, have 100 KiB each.
const GROWTH: u64 = 4;
const SLACK: u64 = 8192;

/// Lengths from nothing to 1 MiB.
fn length(i: u64) -> usize {
    match i % 50 {
        0 => 1 << 20,
        1 => 0,
        2..8 => (i / 50 % 16) as usize,
        _ => 16 + (i.wrapping_mul(7919) % 20_000) as usize,
    }
}

fn there(node: &Node, dpid: u16) -> Addr {
    Addr { nid: node.nid % 3 + 1, dpid }
}

/// Takes what comes until the last one: of each sender once, in order and whole. Their numbers are beside the messages, whose bytes
/// and lengths follow from them.
fn receive(dpid: u16, account: Option<&Account>) -> bool {
    let (e, mut runs) = (open(dpid), HashMap::<Addr, Runs>::new());
    loop {
        let message = e.recv().expect("a message");
        let number = message.immediate().expect("its number");
        assert!(message.to_vec() == numbered(number, length(number)), "message {number}");
        let runs = runs.entry(message.from()).or_default();
        if number == LAST {
            account.iter().for_each(|account| account.came(runs));
            return true;
        }
        runs.add(number);
    }
}

/// Sends from that number on until the time is over, and then the last one, which is on its way for three seconds behind that.
fn send(to: Addr, first: u64, end: Instant, account: Option<&Account>) -> bool {
    let e = open(0);
    let send = |i: u64| {
        let message = numbered(i, length(i));
        let pieces = [IoSlice::new(&message)];
        e.send_parts_to(Parts::new(&pieces).with_immediate(i), to).expect("room");
    };
    for i in first.. {
        if Instant::now() >= end + Duration::from_secs(1) {
            break;
        }
        send(i);
        account.iter().for_each(|account| account.sent(i));
        std::thread::sleep(Duration::from_micros(300));
    }
    send(LAST);
    // A gateway that was killed takes its time to be back on a machine with much else to do, and what it has not taken ends with this
    // process.
    let all_is_there = hand_over(HANDED_OVER);
    std::thread::sleep(ON_ITS_WAY);
    all_is_there
}

/// How long a soak takes.
pub fn seconds() -> u64 {
    std::env::var("DP_NODE_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// What the kernel says of a process in that line of its state, KiB.
pub fn memory(of: &Child, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", of.pid())).expect("it lives");
    let found = status.lines().find_map(|text| text.strip_prefix(line)).expect("the kernel tells");
    found.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// What those have of memory that live as long as the soak: a gateway, and each steady program.
fn of_those_that_live(gateways: &[Child], programs: [&[Child]; 2]) -> Vec<(&'static str, u64)> {
    let [senders, receivers] = programs.map(|all| all.iter());
    let all = senders.map(|of| ("a sender", of)).chain(receivers.map(|of| ("a receiver", of)));
    let gateway = ("the gateway that is never killed", &gateways[LIVES]);
    [gateway].into_iter().chain(all).map(|(name, of)| (name, memory(of, "RssAnon:"))).collect()
}

/// What was acknowledged comes once and in order, and only what was with a gateway that was killed is missing; a receiver that is
/// killed takes with it what it had.
#[test]
fn soak() {
    if !namespaces_are_possible("soak") {
        return;
    }
    let (begin, end) = (Instant::now(), Instant::now() + Duration::from_secs(seconds()));
    let cluster = Cluster::new(3, "\"udp:10.0.0.N:7411\", \"eth:dp0/02:00:00:00:00:0N\"");
    let nodes = &cluster.nodes;
    let all = |run: &dyn Fn(&Node) -> Child| nodes.iter().map(run).collect::<Vec<Child>>();
    let mut gateways = all(&Node::gateway);
    // Of the senders on each node.
    let mut accounts: Vec<Account> = nodes.iter().map(|_| Account::new()).collect();
    let of = |node: &Node| &accounts[usize::from(node.nid) - 1];
    let steady_receivers = nodes.iter().map(|node| {
        let from = nodes.iter().find(|from| there(from, STEADY).nid == node.nid).expect("its sender");
        node.run(|| receive(STEADY, Some(of(from))))
    });
    let steady_receivers: Vec<Child> = steady_receivers.collect();
    let mut receivers = all(&|node| node.run(|| receive(KILLED, None)));
    let steady_senders = all(&|node| node.run(|| send(there(node, STEADY), 1, end, Some(of(node)))));
    let mut generations = 0u64;
    let mut senders = all(&|node| node.run(|| send(there(node, KILLED), 1, end, None)));
    let (mut seed, mut unshaped, mut warm, mut last) = (4711u64, false, None, None);
    while Instant::now() < end {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if begin.elapsed() > WARM {
            // As long as all of them live: behind the last turn, which can take long on a busy machine, some have ended.
            let messages = accounts.iter().map(Account::sent_yet).sum::<u64>();
            let now = (messages, of_those_that_live(&gateways, [&steady_senders, &steady_receivers]));
            warm.get_or_insert_with(|| now.clone());
            last = Some(now);
        }
        let which = (seed >> 33) as usize % 3;
        let (node, network) = (&nodes[which], &cluster.networks[which]);
        match (seed >> 40) % 6 {
            0 if which == LIVES => {}
            0 => {
                accounts[which].kill(node, there(node, STEADY), gateways.remove(which));
                gateways.insert(which, node.gateway());
            }
            1 => {
                network.ip("link set dp0 down");
                std::thread::sleep(Duration::from_millis(100));
                network.up("dp0");
            }
            2 => {
                receivers.remove(which).kill();
                receivers.insert(which, node.run(|| receive(KILLED, None)));
            }
            3 => {
                generations += 1;
                let first = generations << GENERATION;
                senders.remove(which).kill();
                senders.insert(which, node.run(|| send(there(node, KILLED), first, end, None)));
            }
            4 => {
                let shaped = "qdisc replace dev dp0 root tbf rate 50mbit burst 32kb limit 64kb";
                let (is_shaped, _, why) = network.program("tc", shaped);
                std::thread::sleep(Duration::from_millis((seed >> 50) % 400));
                if is_shaped {
                    network.program("tc", "qdisc del dev dp0 root");
                } else if !std::mem::replace(&mut unshaped, true) {
                    skip(&format!("dp-node soak, shaped links: tc {shaped}: {why}"));
                }
            }
            _ => std::thread::sleep(Duration::from_millis((seed >> 50) % 400)),
        }
    }
    if let Some(((before, had), (messages, has))) = warm.zip(last) {
        let messages = messages - before;
        for ((name, had), (_, has)) in had.into_iter().zip(has) {
            println!("{name}: {had} KiB, and {has} KiB {messages} messages later");
            let most = had + SLACK + GROWTH * messages / 1024;
            assert!(has < most, "{name} had {had} KiB, and has {has} {messages} messages later");
        }
    }
    let programs = [steady_senders, steady_receivers, senders, receivers];
    Child::all_ok(programs.into_iter().flatten().collect());
    until("all is acknowledged", || {
        nodes.iter().all(|node| {
            let status = node.status().expect("it runs");
            // Messages to a number whose program has ended wait for the next one.
            let flows = status.nodes.iter().flat_map(|other| &other.flows);
            flows.filter(|flow| flow.there.ends_with("/7000")).all(|flow| flow.waiting == 0)
        })
    });
    for (node, account) in nodes.iter().zip(&mut accounts) {
        account.settle(node, there(node, STEADY));
    }
    for gateway in &gateways {
        let (most, now) = (memory(gateway, "VmHWM:"), memory(gateway, "VmRSS:"));
        assert!(most < 200 << 10, "a gateway had {most} KiB, and has {now}");
    }
    gateways.into_iter().for_each(Child::kill);
}
