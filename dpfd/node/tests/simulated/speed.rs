//! Links of which the graph says how quick they are.

use std::time::Duration;

use dp_route::sim::{Link, State};

use crate::world::{numbered, World};
use crate::SOON;

const COUNT: u64 = 100;
const LENGTH: usize = 10_000;
/// Bytes in a second.
const SPEED: u64 = 1_000_000;

/// How long that many messages take by now.
fn takes(world: &mut World) -> Duration {
    let (begin, before) = (world.now(), world.programs(2).count(4000));
    (0..COUNT).for_each(|i| world.send((1, 4000), (2, 4000), numbered(i, LENGTH)));
    world.until(SOON, "all", |world| world.programs(2).count(4000) == before + COUNT as usize);
    Duration::from_nanos(world.now() - begin)
}

/// What the frames of these messages are on such a link, with what is around each of them.
fn busy(world: &mut World) -> Duration {
    let before = *world.node(1).routes()[0].counters();
    let _ = takes(world);
    let counters = world.node(1).routes()[0].counters();
    let bytes = counters.sent_bytes - before.sent_bytes + 38 * (counters.sent - before.sent);
    Duration::from_secs_f64(bytes as f64 / SPEED as f64)
}

#[test]
fn frames_leave_as_fast_as_the_graph_says_that_the_link_is_and_not_faster() {
    for network in ["first", "authenticated"] {
        let mut world = World::new(2, &[network, "second"], 31);
        world.speed = Some((network, SPEED));
        (1..=2).for_each(|nid| world.start(nid));
        let link = |state| Link { delay: Duration::from_micros(50), state, ..Link::default() };
        world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
        world.programs(2).open(4000, usize::MAX);
        let busy = busy(&mut world);
        let took = takes(&mut world);
        let off = took.as_secs_f64() / busy.as_secs_f64() - 1.0;
        assert!(off.abs() < 0.02, "{network}: {took:?} of {busy:?}");
        // Of the other one nobody said anything.
        world.networks[0].1.set_usual(link(State::Silent));
        let _ = takes(&mut world);
        let took = takes(&mut world);
        assert!(took < busy / 10, "{network}: {took:?} by the second");
        world.networks[0].1.set_usual(link(State::Up));
        world.run(Duration::from_secs(12));
        let _ = takes(&mut world);
        let sent = world.node(1).routes()[1].counters().sent;
        let took = takes(&mut world);
        assert_eq!(world.node(1).routes()[1].counters().sent, sent, "{network}: the first is taken back");
        assert!(took > busy * 9 / 10, "{network}: {took:?} by the first again");
    }
}
