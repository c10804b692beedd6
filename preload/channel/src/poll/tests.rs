//! Random programs against a plain model of poll(2) and select(2): connections whose bytes come through a ring, of which one may be no
//! channel yet, a copy of a descriptor, one of the kernel's own, an epoll set, a closed one, and numbers that are none.
//!
//! The world beside them is the kernel and the peers as they are under the shim: it knows bells, not bytes. What peers and other
//! threads do happens between any two steps of the machine, or while it sleeps. What is told must have been so at some time in the
//! call; what was so ever since the kernel was asked must be told; and no thread sleeps while there is something.

mod model;

use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDBAND, POLLRDHUP, POLLWRBAND};
use proptest::prelude::*;

use super::*;
use model::{Model, Op, CLOSED, CONNS, COPY, PIPE, SET};

/// POLLMSG: nobody tells it.
const MSG: i16 = 0x400;

/// What a program does, or what happens in between.
#[derive(Debug, Clone)]
enum Step {
    Happens(Op),
    /// Numbers with events; nanoseconds; whether it looks for a while, and sleeps by events; what happens in the call.
    Polls(Vec<(i32, i16)>, i64, [bool; 2], Vec<(Op, u8)>),
    /// Numbers with the sets that they are in.
    Selects(Vec<(i32, u8)>, i64, Vec<(Op, u8)>),
    /// The quick way.
    AtOnce(Vec<(i32, i16)>),
}

fn op() -> impl Strategy<Value = Op> {
    let conn = 0..CONNS;
    let with =
        move |of: fn(usize, bool) -> Op| (conn.clone(), any::<bool>()).prop_map(move |(c, b)| of(c, b));
    let alone = |of: fn(usize) -> Op| (0..CONNS).prop_map(of);
    let pipe = prop_oneof![Just(0), Just(IN), Just(OUT), Just(IN | OUT), Just(POLLHUP), Just(POLLERR | OUT)];
    prop_oneof![
        10 => alone(Op::Sends),
        2 => alone(Op::GoesOut),
        4 => alone(Op::Lands),
        1 => with(Op::Ends),
        1 => with(Op::Dies),
        1 => alone(Op::Resets),
        1 => alone(Op::Urges),
        2 => with(Op::Fills),
        8 => with(Op::Takes),
        1 => alone(Op::Fails),
        1 => with(Op::Shuts),
        2 => alone(Op::Sleeps),
        3 => alone(Op::Wakes),
        2 => alone(Op::Heats),
        1 => alone(Op::Watches),
        2 => alone(Op::GoesLive),
        2 => pipe.prop_map(Op::Pipe),
        1 => any::<bool>().prop_map(Op::Set),
    ]
}

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![
        8 => 0..CONNS as i32,
        1 => Just(COPY),
        1 => Just(PIPE as i32),
        1 => Just(SET as i32),
        1 => prop_oneof![Just(CLOSED), Just(-1), Just(i32::MIN), Just(!0)],
    ]
}

fn events() -> impl Strategy<Value = i16> {
    let more = prop_oneof![
        6 => Just(0),
        1 => Just(POLLRDHUP),
        1 => Just(POLLPRI),
        1 => Just(POLLRDBAND | POLLWRBAND | MSG),
        1 => Just(POLLERR | POLLHUP | POLLNVAL),
    ];
    let usual = prop_oneof![5 => Just(POLLIN), 2 => Just(POLLIN | POLLOUT), 1 => Just(POLLOUT), 1 => Just(IN), 1 => Just(OUT), 1 => Just(0)];
    (usual, more).prop_map(|(usual, more)| usual | more)
}

fn timeout() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(0), 2 => Just(-1), 1 => Just(5_500), 1 => Just(3_000_000_000), 1 => Just(1)]
}

fn script() -> impl Strategy<Value = Vec<(Op, u8)>> {
    prop::collection::vec((op(), prop_oneof![2 => 0..20u8, 1 => Just(200u8)]), 0..6)
}

fn step() -> impl Strategy<Value = Step> {
    let list = || prop::collection::vec((number(), events()), 0..6);
    let sets =
        prop::collection::btree_map(number().prop_filter("select has no such", |fd| *fd >= 0), 1..8u8, 0..6);
    prop_oneof![
        6 => op().prop_map(Step::Happens),
        6 => (list(), timeout(), any::<[bool; 2]>(), script()).prop_map(|(l, t, how, s)| Step::Polls(l, t, how, s)),
        2 => (sets, timeout(), script()).prop_map(|(l, t, s)| Step::Selects(l.into_iter().collect(), t, s)),
        2 => list().prop_map(Step::AtOnce),
    ]
}

fn list_of(of: &[(i32, i16)]) -> Vec<pollfd> {
    // What stands in the answers before is no matter.
    of.iter().map(|&(fd, events)| pollfd { fd, events, revents: 0x7f }).collect()
}

/// Polls, and whether what is told is what poll(2) would tell.
fn polls(
    w: &mut Model,
    list: &mut [pollfd],
    timeout: i64,
    script: Vec<(Op, u8)>,
) -> Result<Result<i32, i32>, String> {
    w.0.borrow_mut().begin(list, script);
    let start = w.0.borrow().clock;
    let got = poll(list, timeout, false, w);
    let by_rings = got.is_ok() && is_told_by_rings(list, w);
    let s = &mut *w.0.borrow_mut();
    if by_rings {
        s.is_known();
    }
    match got {
        Ok(n) => s.check(list, n, !0)?,
        Err(libc::EINTR) => s.failure.take().map_or(Ok(()), Err)?,
        Err(e) => return Err(format!("errno {e}")),
    }
    if got == Ok(0) && (timeout < 0 || s.clock < start + timeout as u64) {
        return Err(format!("nothing is told before the time is over: {} of {timeout}", s.clock - start));
    }
    Ok(got)
}

/// select(2): the numbers in each of the three sets that are to be there afterwards, at most and at least.
fn selects(w: &mut Model, sets: &[(i32, u8)], timeout: i64, script: Vec<(Op, u8)>) -> Result<(), String> {
    let asked =
        |set: u8| (0..3).filter(|which| set & 1 << which != 0).fold(0, |e, which| e | select::ASKED[which]);
    let mut list: Vec<pollfd> = list_of(&sets.iter().map(|&(fd, set)| (fd, asked(set))).collect::<Vec<_>>());
    let (mut script, mut failure) = (Some(script), None);
    // Each poll is as it is to be; what select makes of its answers is looked at.
    let clock = w.0.clone();
    let got = select::select(
        &mut list,
        timeout,
        || clock.borrow().clock,
        |list, left| {
            polls(w, list, left, script.take().unwrap_or_default()).unwrap_or_else(|e| {
                failure = Some(e);
                Err(libc::EINTR)
            })
        },
    );
    if let Some(failure) = failure {
        return Err(failure);
    }
    let is_closed = sets.iter().any(|&(fd, _)| fd == CLOSED);
    if is_closed != (got == Err(libc::EBADF)) {
        return Err(format!("{got:?} of {sets:?}"));
    }
    let Ok(n) = got else { return Ok(()) };
    let mut ready = 0;
    for (p, &(fd, set)) in list.iter().zip(sets) {
        if select::number(p) as i32 != fd {
            return Err(format!("{p:?} stands for {fd}"));
        }
        for which in 0..3 {
            let is_ready = select::is_ready(p, which);
            if is_ready.is_some() != (set & 1 << which != 0) {
                return Err(format!("{p:?} in {set}"));
            }
            // As the kernel's select has it (POLLIN_SET and its kin, fs/select.c).
            let makes = [IN | POLLRDBAND | POLLHUP | POLLERR, OUT | POLLWRBAND | POLLERR, POLLPRI][which];
            if is_ready.is_some_and(|is| is != (p.fd >= 0 && p.revents & makes != 0)) {
                return Err(format!("{p:?} in {set}"));
            }
            ready += i32::from(is_ready == Some(true));
        }
    }
    if ready != n || n == 0 && timeout < 0 {
        return Err(format!("{n} instead of {ready}"));
    }
    Ok(())
}

fn run(young: bool, steps: &[Step]) -> Result<(), String> {
    let mut w = Model::new(young);
    for step in steps {
        match step {
            Step::Happens(op) => w.0.borrow_mut().happens(*op),
            Step::Polls(list, timeout, [looks, by_events], script) => {
                let how = |s: &mut model::State| (s.looks, s.by_events) = (*looks, *by_events);
                how(&mut w.0.borrow_mut());
                polls(&mut w, &mut list_of(list), *timeout, script.clone()).map(drop)?;
            }
            Step::Selects(sets, timeout, script) => selects(&mut w, sets, *timeout, script.clone())?,
            Step::AtOnce(list) => quick(&w, &mut list_of(list))?,
        }
    }
    Ok(())
}

/// The quick way: what it tells is true; and all, but for ends and errors of a list of one, of which the kernel is asked soon.
fn quick(w: &Model, list: &mut [pollfd]) -> Result<(), String> {
    let knows = w.knows_the_rest(list);
    w.0.borrow_mut().begin(list, Vec::new());
    let Some(n @ 1..) = at_once(list, w) else { return Ok(()) };
    if !knows && list.len() != 1 {
        return Err("the kernel may know more".into());
    }
    w.0.borrow_mut().check(list, n, IN | OUT)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]
    #[test]
    fn random_programs_are_told_what_poll_would_tell_them(
        young in any::<bool>(), steps in prop::collection::vec(step(), 1..20)
    ) {
        if let Err(e) = run(young, &steps) {
            prop_assert!(false, "{e}\n{steps:?}");
        }
    }
}
