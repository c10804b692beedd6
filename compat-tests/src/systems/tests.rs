//! What other programs print, as it was printed; and words that are not theirs.

use std::collections::BTreeSet;

use super::*;

fn job(what: What, size: usize) -> Job {
    Job { what, size, time: Duration::from_millis(100) }
}

const UCX_LATENCY: &str = "\
ucx-tests,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
p50,200000,0.119,0.135,0.133,56.51,57.36,7407407,7518797
p99,200000,0.220,1.387,8.610,5.50,0.89,720940,116141
p99.9,200000,5883.569,9.628,3.435,0.79,2.22,103869,291132
";
const UCX_RATE: &str = "\
ucx-tests,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
p50,200000,0.120,1.550,1.550,4.92,4.92,645307,645308
";

#[test]
fn ucx_tells_percentiles_in_microseconds_and_a_rate() {
    let lines = ucx::parse(UCX_LATENCY, &["50", "99", "99.9"]).unwrap();
    let percentiles: Vec<f64> = lines.iter().map(|line| line.percentile_ns.round()).collect();
    assert_eq!(percentiles, [119.0, 220.0, 5_883_569.0]);
    assert_eq!(lines[0].mean_ns, 135.0);
    assert_eq!(ucx::parse(UCX_RATE, &["50"]).unwrap()[0].messages_per_s, 645_308.0);
}

#[test]
fn ucx_with_other_words_is_not_read() {
    let ranks = ["50", "99", "99.9"];
    let spoiled = [
        UCX_LATENCY.replace("avg_bw", "bandwidth"),
        UCX_LATENCY.replace("percentile_lat", "typical_lat"),
        UCX_LATENCY.replace("p99.9,", "p99,"),
        UCX_LATENCY.replace("5883.569", "0.000"),
        UCX_LATENCY.replace(",7407407,7518797", ",7407407"),
        UCX_LATENCY.lines().take(3).collect::<Vec<_>>().join("\n"),
        String::new(),
    ];
    for said in spoiled {
        assert_eq!(ucx::parse(&said, &ranks), None, "{said}");
    }
}

const FABRIC: &str = "\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64k     2k      =2k      250m        0.32s    828.03      79.15       0.01
";

#[test]
fn libfabric_tells_a_mean() {
    assert_eq!(libfabric::parse(FABRIC), Some(79_150.0));
    let spoiled = [
        FABRIC.replace("usec/xfer", "nsec/xfer"),
        FABRIC.replace("79.15", "0.00"),
        FABRIC.replace("79.15", "?"),
        FABRIC.replace("=2k", ""),
        FABRIC.lines().take(1).collect(),
        format!("{FABRIC}64k     2k      =2k      250m        0.32s    828.03      79.15       0.01\n"),
        String::new(),
    ];
    for said in spoiled {
        assert_eq!(libfabric::parse(&said), None, "{said}");
    }
}

#[test]
fn our_own_programs_tell_one_line_each() {
    let lat = "{\"p50_ns\": 435.8, \"p99_ns\": 831.5, \"p999_ns\": 13675.5}\n";
    let flood = "{\"messages\": 1024, \"seconds\": 0.5, \"cpu_s\": 1.0}\n";
    let sample = mpi::parse(lat, &job(What::Latency, 8)).unwrap();
    assert_eq!((sample.p50_ns, sample.p99_ns, sample.p999_ns), (Some(435.8), Some(831.5), Some(13675.5)));
    let sample = mpi::parse(flood, &job(What::Flood, 1 << 20)).unwrap();
    assert_eq!((sample.messages_per_s, sample.cpu_s_per_gib), (Some(2048.0), Some(1.0)));
    assert_eq!(mpi::parse(flood, &job(What::Latency, 8)), None);
    assert_eq!(mpi::parse(lat, &job(What::Flood, 8)), None);
    assert_eq!(mpi::parse("{\"p50_ns\": 435.8}\n", &job(What::Latency, 8)), None);
    let none = "{\"messages\": 0, \"seconds\": 0.5, \"cpu_s\": 1.0}\n";
    assert_eq!(mpi::parse(none, &job(What::Flood, 8)), None);
}

#[test]
fn dp_bench_is_asked_for_one_way_and_length() {
    let json = r#"{ "version": 2, "what": "lat", "results": [
        { "size": 8, "way": "pipe", "p50_ns": 9000.0, "p99_ns": 9900.0, "p999_ns": 9990.0, "cpu_s": [0.5, 0.5] }] }"#;
    let lat = job(What::Latency, 8);
    assert_eq!(ours::parse(json, "pipe", &lat).unwrap().p999_ns, Some(9990.0));
    assert_eq!(ours::parse(json, "tcp", &lat), None);
    assert_eq!(ours::parse(json, "pipe", &job(What::Latency, 9)), None);
    assert_eq!(ours::parse(json, "pipe", &job(What::Flood, 8)), None);
    assert_eq!(ours::parse(&json.replace("\"version\": 2", "\"version\": 1"), "pipe", &lat), None);
    let waiting = job(What::Waiting, 8);
    assert_eq!(ours::parse(json, "pipe", &waiting), None);
    let told = json.replace("\"cpu_s\"", "\"unawaited_p50_ns\": 700.0, \"cpu_s\"");
    assert_eq!(ours::parse(&told, "pipe", &waiting).unwrap().unawaited_ns, Some(700.0));
    let json = r#"{ "version": 2, "results": [{ "size": 1024, "way": "pipe", "messages_per_s": 2097152.0,
        "bytes_per_s": 1.0, "messages": 1048576, "cpu_s": [0.5, 0.25] }] }"#;
    let sample = ours::parse(json, "pipe", &job(What::Flood, 1024)).unwrap();
    assert_eq!((sample.messages_per_s, sample.cpu_s_per_gib), (Some(2_097_152.0), Some(0.75)));
}

#[test]
fn names_of_systems_are_different() {
    let keys: BTreeSet<_> = SYSTEMS.iter().map(|system| system.key).collect();
    let names: BTreeSet<_> = SYSTEMS.iter().map(|system| system.name).collect();
    assert_eq!((keys.len(), names.len()), (SYSTEMS.len(), SYSTEMS.len()));
    assert!(System::named("no such system").is_none());
}

#[test]
fn a_system_has_what_it_can_carry() {
    let has = |key, what, size| System::named(key).unwrap().has(what, size);
    assert!(has("mqueue", What::Flood, 8192) && !has("mqueue", What::Flood, 8193));
    assert!(!has("unix-seqpacket", What::Latency, 1 << 20));
    assert!(has("tcp", What::Flood, 16 << 20));
    assert!(has("floor", What::Latency, 8) && !has("floor", What::Latency, 64));
    assert!(!has("libfabric", What::Flood, 8) && !has("memcpy", What::Latency, 8));
    assert!(has("dp", What::Waiting, 8) && !has("ucx-tag", What::Waiting, 8));
}

#[test]
fn memcpy_is_measured_by_its_bytes() {
    let core = crate::measure::cores::Cores::single().unwrap().client;
    let sample = copying::turn(core, &job(What::Flood, 4096)).unwrap();
    assert!(sample.messages_per_s.unwrap() > 0.0 && sample.cpu_s_per_gib.unwrap() > 0.0);
}
