use super::*;

#[test]
fn figures_begin_with_a_number_sign() {
    let console = "--- kernel: root 0 s\n# Linux 7.2, 1 CPUs, up 1.2 s\n[    1.0] dp: loaded\n\
                   # 64 bytes there and back, one CPU: TCP 30.10 us, AF_UNIX 9.00 us, endpoints 7.00 us\nGUEST DONE\n";
    let lines = parse(console);
    assert_eq!(lines.len(), 2);
    assert!(lines[1].starts_with("64 bytes there and back"));
}

#[test]
fn a_guest_that_measured_nothing_has_no_figures() {
    assert!(parse("# Linux 7.2, 1 CPUs, up 1.2 s\nkernel panic\n").is_empty());
    assert!(parse("").is_empty());
}
