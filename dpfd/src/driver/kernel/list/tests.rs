use super::*;

#[test]
fn what_the_kernel_says_is_understood() {
    let text = "pos:\t0\nflags:\t02000002\nmnt_id:\t24\nino:\t91\ndpid:\t5000\nserial:\t7\nuid:\t1000\ntarget:\t5001\n\
                sent:\t3 300\nreceived:\t2 20\nfull:\t0\ncorrupt:\t0\npool:\t131072 130944\nin-place:\t1\n";
    let expected = Seen {
        dpid: 5000,
        serial: 7,
        pid: 71,
        uid: 1000,
        target: Some(Addr::local(5001)),
        sent: (3, 300),
        received: (2, 20),
        pool: (131_072, 130_944),
        in_place: true,
    };
    assert_eq!(Seen::parse(text, 71), Some(expected));
    assert_eq!(Seen::parse("pos:\t0\nflags:\t02000002\ndpid:\t0\n", 71), None);
    assert_eq!(Seen::parse("", 71), None);
}
