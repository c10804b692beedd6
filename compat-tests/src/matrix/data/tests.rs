//! What pgbench, sysbench, memcaslap and redis-benchmark print, and the shim's log.

use super::{mariadb, memcached, postgres, redis, redis_tests};

const PGBENCH: &str = "pgbench (15.12 (Debian 15.12-0+deb12u2))
transaction type: <builtin: select only>
scaling factor: 10
query mode: simple
number of clients: 8
number of threads: 1
maximum number of tries: 1
duration: 3 s
number of transactions actually processed: 181135
number of failed transactions: 0 (0.000%)
latency average = 0.132 ms
initial connection time = 17.040 ms
tps = 60378.375797 (without initial connection time)
";

#[test]
fn pgbench_is_understood() {
    let expected = postgres::Load { transactions: 181_135, rate: 60378.375797 };
    assert_eq!(postgres::parse(PGBENCH).unwrap(), expected);
    let error = postgres::parse(&PGBENCH.replace("transactions: 0 (", "transactions: 3 (")).unwrap_err();
    assert!(error.to_string().contains("3 transactions failed"), "{error}");
    for (known, other) in [("tps = ", "tps: "), ("failed transactions", "failures"), ("181135", "many")] {
        let error = postgres::parse(&PGBENCH.replace(known, other)).unwrap_err().to_string();
        assert!(error.contains("pgbench"), "{error}");
    }
}

const SYSBENCH: &str = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

SQL statistics:
    queries performed:
        read:                            123939
        write:                           0
        other:                           0
        total:                           123939
    transactions:                        123939 (41288.06 per sec.)
    queries:                             123940 (41288.06 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          3.0003s
";

#[test]
fn sysbench_is_understood() {
    assert_eq!(mariadb::parse(SYSBENCH).unwrap(), mariadb::Load { queries: 123_940, rate: 41288.06 });
    let again = SYSBENCH.replace("reconnects:                          0", "reconnects:   2");
    assert!(mariadb::parse(&again).unwrap_err().to_string().contains("again 2"));
    for (known, other) in
        [("transactions:", "events:"), (" per sec.", "/s"), ("reconnects", "new connections")]
    {
        let error = mariadb::parse(&SYSBENCH.replace(known, other)).unwrap_err().to_string();
        assert!(error.contains("sysbench"), "{error}");
    }
}

const MEMCASLAP: &str = "written_bytes: 43654986
read_bytes: 193125864
object_bytes: 21023424
packet_disorder: 0

Run time: 3.1s Ops: 193179 TPS: 63303 Net_rate: 70.8M/s
";

#[test]
fn memcaslap_is_understood() {
    let expected = memcached::Load { requests: 193_179, rate: 63303.0 };
    assert_eq!(memcached::parse(MEMCASLAP).unwrap(), expected);
    let error = memcached::parse(&MEMCASLAP.replace("TPS", "OPS")).unwrap_err().to_string();
    assert!(error.contains("memcaslap"), "{error}");
}

const BENCHMARK: &str =
    "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
\"p99_latency_ms\",\"max_latency_ms\"
\"SET\",\"50251.26\",\"0.503\",\"0.112\",\"0.503\",\"0.551\",\"0.871\",\"1.327\"
\"GET\",\"49019.61\",\"0.520\",\"0.152\",\"0.519\",\"0.583\",\"0.927\",\"1.183\"
";

#[test]
fn redis_benchmark_is_understood() {
    assert_eq!(redis::parse(BENCHMARK).unwrap(), 49019.61);
    let error = redis::parse(&BENCHMARK.replace("\"GET\",\"", "\"GET\",")).unwrap_err().to_string();
    assert!(error.contains("redis-benchmark"), "{error}");
}

const LOG: &str = "\
2026-11-27T10:20:44.123456Z dp-preload[811] redis-server: start version=0.1.0 rules=default
2026-11-27T10:20:44.223456Z dp-preload[811] redis-server: live fd=9 own=127.0.0.1:21111 other=127.0.0.1:40312 layout=5
2026-11-27T10:20:44.323456Z dp-preload[811] redis-server: leave fd=10 own=127.0.0.1:21111 other=127.0.0.1:40314 reason=no-offer
2026-11-27T10:20:44.423456Z dp-preload[811] redis-server: leave fd=11 own=127.0.0.1:21111 other=127.0.0.1:40316 reason=closed
2026-11-27T10:20:44.523456Z dp-preload[811] redis-server: leave fd=9 own=127.0.0.1:21111 other=127.0.0.1:40312 reason=peer-left
2026-11-27T10:20:44.623456Z dp-preload[812] redis-cli: live fd=9 own=127.0.0.1:40400 other=127.0.0.1:21111 layout=5
";

#[test]
fn what_became_of_a_servers_connections_is_counted() {
    let leg = redis_tests::leg(LOG);
    assert_eq!((leg.channels, leg.connections, leg.on_tcp.as_str()), (1, 2, "1 no-offer"));
    assert!(leg.fault().is_some());
    assert!(redis_tests::leg("").fault().is_some(), "nobody connected");
}
