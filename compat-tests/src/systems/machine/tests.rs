use super::*;

#[test]
fn time_is_shared_out_between_work_idling_and_the_host() {
    let begin = times("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1 1\n");
    let end = times("cpu  160 10 120 890 10 5 5 0 0 0\n");
    assert_eq!(share(begin, end), [50.0, 0.0]);
    let stolen = times("cpu  150 0 100 830 0 0 0 20 0 0\n");
    assert_eq!(share(begin, stolen), [50.0, 20.0]);
}

#[test]
fn what_the_kernel_tells_is_found() {
    assert_eq!(load("0.52 0.58 0.59 1/977 12345\n"), 0.52);
    assert!(load("").is_nan());
    let info = "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu hypervisor sse\n";
    assert_eq!(field(info, "model name"), Some("A Processor"));
    assert_eq!(field(info, "flags"), Some("fpu hypervisor sse"));
    assert_eq!(field(info, "bogus"), None);
}
