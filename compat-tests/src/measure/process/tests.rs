use super::*;
use crate::measure::cores::Cores;

fn shell(script: &str, scratch: &Scratch) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let core = Cores::single().unwrap().server;
    Process::start("the shell", command, core, scratch).unwrap()
}

fn exists(pid: u32) -> bool {
    kill(Pid::from_raw(pid as i32), None).is_ok()
}

#[test]
fn output_and_cpu_time_of_a_finished_process_are_known() {
    let scratch = Scratch::new().unwrap();
    let busy = shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done", &scratch);
    let finished = busy.finish(Duration::from_secs(20)).unwrap();
    assert_eq!(finished.out, "done\n");
    assert!(finished.cost.cpu > Duration::ZERO);
}

#[test]
fn a_bad_end_is_told_with_the_last_words() {
    let scratch = Scratch::new().unwrap();
    let error = shell("echo no luck >&2; exit 3", &scratch).finish(Duration::from_secs(20)).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("status 3") && text.contains("no luck"), "{text}");
}

#[test]
fn a_process_that_takes_too_long_is_killed() {
    let scratch = Scratch::new().unwrap();
    let stuck = shell("exec sleep 100", &scratch);
    let pid = stuck.pid();
    assert!(matches!(stuck.finish(Duration::from_millis(50)), Err(Error::Slow { .. })));
    assert!(!exists(pid));
}

#[test]
fn who_does_not_listen_to_reason_is_killed() {
    let scratch = Scratch::new().unwrap();
    let deaf = shell("trap '' TERM; echo ready; while :; do sleep 1; done", &scratch);
    let pid = deaf.pid();
    await_answer(Duration::from_secs(5), || Ok((deaf.said() == "ready\n").then_some(()))).unwrap();
    drop(deaf);
    assert!(!exists(pid));
}

#[test]
fn a_running_process_is_told_from_one_that_ended() {
    let scratch = Scratch::new().unwrap();
    let mut runs = shell("exec sleep 100", &scratch);
    runs.still_runs().unwrap();
    assert!(runs.cost().is_ok());
    let mut ends = shell("exit 0", &scratch);
    let end = await_answer(Duration::from_secs(5), || Ok(ends.still_runs().err())).unwrap();
    assert!(matches!(end, Some(Error::Ended { .. })));
}

#[test]
fn switches_of_both_kinds_are_added() {
    let status = "Name:\tx\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n";
    assert_eq!(switches(status), 42);
}
