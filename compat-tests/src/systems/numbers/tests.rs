use super::*;

const CROWD: &str = r#"{ "version": 2, "what": "crowd", "cores": [0, 1], "endpoints": 5000, "seconds": 0.3, "rounds": 3,
    "results": [
        { "way": "plain", "p50_ns": 9000.0, "p99_ns": 11000.5, "resident_bytes_each": 719.0,
          "kernel_bytes_each": 8529.0, "processes": 1 },
        { "way": "tcp", "p50_ns": 20000.0, "p99_ns": 30000.0, "processes": 1 }] }"#;
const IDLE: &str = r#"{ "version": 2, "what": "idle", "cores": [0, 1], "endpoints": 5000, "seconds": 2.0, "rounds": 10,
    "bytes_per_endpoint": 741, "bytes_per_pool_endpoint": 9216, "p50_alone_ns": 120.1, "p50_beside_ns": 121.0,
    "slower_percent": 0.7, "idle_cpu_us": 0.0, "idle_context_switches": 0 }"#;

#[test]
fn a_crowd_is_read_by_its_way() {
    let plain = parse(CROWD, "plain").unwrap();
    assert_eq!((plain.p50_ns, plain.kernel_bytes_each), (9000.0, Some(8529.0)));
    assert_eq!(parse(CROWD, "tcp").unwrap().resident_bytes_each, None);
    assert_eq!(parse(CROWD, "unix-stream"), None);
    assert_eq!(parse(&CROWD.replace("\"version\": 2", "\"version\": 1"), "tcp"), None);
    assert_eq!(parse(&CROWD.replace("p50_ns", "p51_ns"), "tcp"), None);
}

#[test]
fn a_row_is_the_median_of_its_rounds() {
    let turn = |p50_ns| Turn { p50_ns, ..parse(CROWD, "plain").unwrap() };
    let row = row("dp-plain", 5000, &[turn(9000.0), turn(30_000.0), turn(8000.0)]).unwrap();
    assert_eq!(
        (row.p50_ns.median, row.p50_ns.high, row.resident_bytes_each),
        (9000.0, 30_000.0, Some(719.0))
    );
    assert_eq!(super::row("dp-plain", 5000, &[]), None);
}

#[test]
fn turns_with_the_usual_distance_are_preferred() {
    let turn = |p50_ns| Turn { p50_ns, ..parse(CROWD, "plain").unwrap() };
    let turns = [(turn(300.0), 260.0), (turn(100.0), 60.0)];
    let medians =
        |usual: fn(f64) -> bool| alike(&turns, usual).iter().map(|turn| turn.p50_ns).collect::<Vec<_>>();
    assert_eq!(medians(|floor| floor < 100.0), [100.0]);
    assert_eq!(medians(|_| false), [300.0, 100.0]);
}

#[test]
fn promises_about_idle_endpoints_are_judged() {
    let numbers = Numbers { crowds: Vec::new(), idle: parse_idle(IDLE) };
    let met: Vec<_> = goals(&numbers).iter().map(|goal| goal.met).collect();
    assert_eq!(met, [Some(true), Some(false)]);
    let none = Numbers { crowds: Vec::new(), idle: parse_idle(&IDLE.replace("slower_percent", "slower")) };
    assert!(goals(&none).iter().all(|goal| goal.met.is_none()));
}

#[test]
fn numbers_of_these_systems_can_be_measured() {
    let keys: Vec<_> = super::super::SYSTEMS.iter().filter(|s| counted(s).is_some()).map(|s| s.key).collect();
    assert_eq!(keys, ["dp", "dp-plain", "tcp", "unix-stream"]);
}
