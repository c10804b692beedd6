use dp_channel::family::Reason;

use super::*;
use crate::ls::families::State;
use crate::ls::tests::listing;

#[test]
fn every_reason_has_a_way_out_but_those_that_need_none() {
    for &reason in Reason::ALL {
        let needs_none = matches!(reason, Reason::None | Reason::Closed);
        assert_eq!(advice::of(reason).is_none(), needs_none, "{}", reason.word());
    }
}

#[test]
fn a_process_that_has_not_the_shim_is_told_how_to_get_it() {
    let found = process::examine(std::process::id(), &[]);
    assert_eq!(found.len(), 1);
    assert!(found[0].verdict == Verdict::Bad && found[0].text.contains("without the shim"), "{found:?}");
    assert!(found[0].way_out.as_ref().unwrap().contains("dp run"));
}

#[test]
fn a_forked_process_is_told_of_where_it_has_a_family_of_its_own() {
    let mut families = listing().families;
    let mut of_a_worker = families[0].clone();
    (of_a_worker.memory, of_a_worker.processes[0].pid) = (Some(10), 73);
    of_a_worker.processes.truncate(1);
    families.push(of_a_worker);
    // 71 forked all others. 72 is of its family, 73 has another, 74 has none; of 75 nothing is known that is listed.
    let parent = |pid| if pid == 75 { Some(1) } else { (pid != 71).then_some(71) };
    assert_eq!(firsts(&[71, 72, 73, 74, 75], parent, &families), [71, 73, 75]);
    assert_eq!(firsts(&[72, 74], parent, &families), [72, 74]);
}

#[test]
fn of_connections_on_tcp_the_reason_is_told() {
    let mut listing = listing();
    let me = std::process::id();
    listing.families[0].processes[0].pid = me;
    let found = process::examine(me, &listing.families);
    let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
    assert!(texts.contains(&"1 open, 5 since it began"), "{texts:?}");
    assert!(texts.iter().any(|text| text.starts_with("3 on TCP, no-offer: ")), "{texts:?}");
    assert!(found.iter().all(|f| f.verdict < Verdict::Bad), "{found:?}");
    listing.families[0].connections[0].state = "offered";
    let found = process::examine(me, &listing.families);
    assert!(found.iter().any(|f| f.text.starts_with("1 offered, and not answered")), "{found:?}");
    listing.families[0].lost_wakeups = 1;
    let found = process::examine(me, &listing.families);
    assert!(found.iter().any(|f| f.about == "wake-ups" && f.verdict == Verdict::Bad));
}

#[test]
fn what_the_shim_itself_is_like_is_told() {
    let me = std::process::id();
    for (state, shim, verdict, word) in [
        (State::Disabled, "0.1.0", Verdict::Bad, "DP_DISABLE"),
        (State::Unreadable, "0.0.1", Verdict::Bad, "layout"),
        (State::On, "0.0.1", Verdict::Note, "0.0.1"),
        (State::Idle, env!("CARGO_PKG_VERSION"), Verdict::Fine, env!("CARGO_PKG_VERSION")),
    ] {
        let mut listing = listing();
        let family = &mut listing.families[0];
        family.processes[0].pid = me;
        (family.state, family.shim) = (state, Some(shim.into()));
        let found = process::examine(me, &listing.families);
        assert!(found[0].verdict == verdict && found[0].text.contains(word), "{found:?}");
    }
}

#[test]
fn a_name_that_nobody_has_is_an_error() {
    let nobody = of("no-such-program-here", &listing()).map(|_| ());
    assert!(nobody.unwrap_err().contains("no-such-program-here"));
    assert!(of("4194305", &listing()).is_err(), "above pid_max");
    for no_program in ["/", "/etc/passwd"] {
        let why = of(no_program, &listing()).map(|_| ()).unwrap_err();
        assert!(why.contains("no file that can be executed"), "{why}");
    }
    let sh = of("/bin/sh", &listing()).ok().unwrap();
    assert!(sh[0].pid.is_none() && sh[0].findings[0].verdict == Verdict::Fine);
}

#[test]
fn names_cannot_steer_the_terminal() {
    let findings = vec![Finding::bad("program", "/tmp/\x1b]0;x is static", "\x1b[2J")];
    let text = told(&[Examined { what: "a\x1b[2J".into(), pid: None, findings }]);
    assert!(text.starts_with("a?[2J\n") && !text.contains('\x1b'), "{text:?}");
}
