//! `dp bench`: every way carries messages.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{list, names, page, report};

fn bench(line: &str) -> Value {
    report("bench", line)
}

#[track_caller]
fn told(line: &str, code: i32, words: &[&str]) {
    super::told("bench", line, code, words);
}

fn documented(report: &Value) {
    let told = page::words(include_str!("../../../../man/dp-bench.1"));
    let fields = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let rows = report["results"].as_array().into_iter().flatten().flat_map(fields);
    for field in fields(report).into_iter().chain(fields(&report["origin"])).chain(rows) {
        assert!(told.contains(&field.as_str()), "dp-bench(1) does not tell of {field}");
    }
    assert!(report["origin"]["date"].as_str().unwrap().ends_with('Z'), "{}", report["origin"]);
}

fn result<'a>(report: &'a Value, way: &str, size: usize) -> &'a Value {
    let all = list(&report["results"]);
    let found = all.iter().find(|r| r["way"] == way && r["size"] == size);
    found.unwrap_or_else(|| panic!("{way}, {size} bytes"))
}

#[test]
fn endpoints_are_measured_beside_the_kernels_ways() {
    let lat = bench("lat --seconds 0.05 --rounds 2 --size 8,262144");
    documented(&lat);
    for way in ["endpoint", "plain", "unix-seqpacket", "unix-stream"] {
        assert!(result(&lat, way, 8)["p50_ns"].as_f64().unwrap() > 0.0, "{way}");
    }
    assert!(result(&lat, "endpoint", 262_144)["p50_ns"].as_f64().unwrap() > 0.0);
    let plain = list(&lat["results"]).iter().filter(|r| r["way"] == "plain");
    assert_eq!(plain.count(), 1, "no plain message of 256 KiB");
    let times = result(&lat, "plain", 8)["p50_ns"].as_f64().unwrap()
        / result(&lat, "unix-seqpacket", 8)["p50_ns"].as_f64().unwrap();
    assert!((times - lat["plain_times_unix_seqpacket"].as_f64().unwrap()).abs() < 0.01);
    assert_eq!(result(&lat, "endpoint", 8)["p50_ns"], lat["p50_ns"]);

    let rate = bench("rate --seconds 0.05 --rounds 2");
    documented(&rate);
    for way in ["endpoint", "plain"] {
        assert!(result(&rate, way, 8)["messages_per_s"].as_f64().unwrap() > 0.0, "{way}");
    }
}

/// One turn says nothing of others, so it has no spread.
#[test]
fn several_turns_have_a_spread() {
    for (what, field) in [("lat", "p50_half_ns"), ("rate", "half_messages_per_s")] {
        let of = |rounds| bench(&format!("{what} --seconds 0.04 --rounds {rounds} --ways pipe"));
        let (one, three) = (of(1), of(3));
        assert!(result(&one, "pipe", 8)[field].is_null(), "{one}");
        assert!(result(&three, "pipe", 8)[field].as_f64().unwrap() >= 0.0, "{three}");
    }
}

#[test]
fn every_way_carries_messages() {
    let all = "endpoint,endpoint-in-place,endpoint-asleep,endpoint-default,plain,unix-dgram,unix-seqpacket,\
               unix-stream,tcp,tcp-spin,pipe,mqueue,eventfd,futex";
    let lat = bench(&format!("lat --seconds 0.04 --rounds 2 --ways {all}"));
    documented(&lat);
    for way in all.split(',') {
        let of = result(&lat, way, 8);
        let [p50, p99, p999] = ["p50_ns", "p99_ns", "p999_ns"].map(|field| of[field].as_f64().unwrap());
        assert!(p50 > 0.0 && p99 <= p999, "{of}");
    }
    let carriers = all.replace(",eventfd,futex", "");
    let rate = bench(&format!("rate --size 100 --seconds 0.04 --rounds 2 --ways {carriers}"));
    let waiting = bench(&format!("waiting --size 100 --seconds 0.04 --rounds 2 --ways {carriers}"));
    documented(&waiting);
    for way in carriers.split(',') {
        assert!(result(&rate, way, 100)["messages"].as_u64().unwrap() > 0, "{way}");
        assert!(result(&waiting, way, 100)["p50_ns"].is_f64(), "{way}");
    }
}

/// With the shim of the same build, and not without one, or where the shim is told to stay away.
#[test]
fn a_channel_is_one_or_nothing() {
    if !Path::new(env!("CARGO_BIN_EXE_dp")).with_file_name("libdp_preload.so").exists() {
        told("lat --ways channel", 2, &["channel: libdp_preload.so was not found", "make install"]);
        return;
    }
    for what in ["lat", "rate --size 100", "bw --size 65536", "waiting --size 4096"] {
        let report = bench(&format!("{what} --seconds 0.1 --rounds 2 --ways endpoint,channel,tcp"));
        let size = report["size"].as_u64().unwrap() as usize;
        let field =
            if report["what"] == "lat" || report["what"] == "waiting" { "p50_ns" } else { "bytes_per_s" };
        assert!(result(&report, "channel", size)[field].as_f64().unwrap() > 0.0, "{report}");
    }
    let mut left = Command::new(env!("CARGO_BIN_EXE_dp"));
    left.args(["bench", "rate", "--seconds", "0.1", "--ways", "channel"]).env("DP_DISABLE", "1");
    let out = left.output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && text.contains("channel: the connection stayed on TCP"), "{text}");
}

#[test]
fn one_is_measured_beside_many() {
    for (count, shown) in [(1, false), (40, false), (1001, true)] {
        let crowd = bench(&format!("crowd --endpoints {count} --seconds 0.04 --rounds 2"));
        documented(&crowd);
        assert_eq!(crowd["endpoints"], count);
        assert_eq!(names(&crowd["results"], "way"), ["endpoint", "plain", "unix-stream", "tcp"]);
        for one in list(&crowd["results"]) {
            assert!(one["p50_ns"].as_f64().unwrap() > 0.0 && one["processes"] == 1, "{one}");
            assert_eq!(one["resident_bytes_each"].is_f64(), shown, "{one}");
        }
    }
}

#[test]
fn a_way_without_a_number_of_ends_has_no_crowd() {
    told("crowd --ways pipe", 1, &["pipe: its number cannot be measured"]);
}

/// The usage printed beside an error is that of the verb which was asked for, whether clap or the verb found the fault.
#[test]
fn a_core_that_is_not_there_is_named_with_the_usage_of_bench() {
    for line in ["--cores 0,99999", "lat --cores 99999,0", "crowd --cores 0,99999"] {
        told(
            line,
            2,
            &["core 99999 is not there", "give two of these: ", "Usage: dp bench [OPTIONS] <WHAT>"],
        );
    }
    told("lat --cores 0", 2, &["two numbers of cores, as in 0,1", "Usage: dp bench"]);
    told("idle --size 64", 2, &["--size is for lat, bw, rate and waiting", "Usage: dp bench"]);
    told("lat --ways pigeon", 2, &["not a way of sending", "Usage: dp bench"]);
}

#[test]
fn a_length_that_no_way_takes_is_an_error() {
    told(
        "lat --ways eventfd,futex --size 9",
        1,
        &["eventfd, futex: not for this, for messages of this length"],
    );
}

#[test]
fn what_a_way_lacks_is_told() {
    told("lat --ways ethernet", 2, &["ethernet: its other end is on another node", "--netns"]);
    told("lat --ways endpoint --netns node2", 2, &["--netns is for ethernet"]);
    told("crowd --netns node2", 2, &["--netns is for ethernet"]);
    told("lat --ways ethernet --netns no-such-node", 2, &["/run/netns/no-such-node", "ip netns"]);
    if !Path::new("/dev/dp").exists() {
        told("lat --ways kernel", 1, &["kernel: the kernel driver cannot be used", "modprobe dp"]);
        told("lat --ways ethernet --netns /proc/self/ns/net", 2, &["no kernel driver", "modprobe dp"]);
    }
}

/// Nobody takes what lies there before all of it lies there.
#[test]
fn what_cannot_keep_its_messages_is_not_measured_with_messages_that_wait() {
    let ways = "endpoint,endpoint-default,plain,unix-dgram,unix-seqpacket,unix-stream,tcp,pipe";
    let waiting =
        bench(&format!("waiting --size 4096,65536,1048576 --seconds 0.04 --rounds 2 --ways {ways}"));
    let all = list(&waiting["results"]);
    let of = |size| -> Vec<&str> {
        all.iter().filter(|r| r["size"] == size).map(|r| r["way"].as_str().unwrap()).collect()
    };
    assert_eq!(of(4096), ways.split(',').collect::<Vec<_>>());
    assert_eq!(of(65_536), ["endpoint"]);
    assert!(of(1_048_576).is_empty());
}

#[test]
fn a_ring_is_as_long_as_it_was_asked_for() {
    let of = |ring: usize| {
        let report = bench(&format!(
            "bw --size 1000,3000,65536 --ring {ring} --ways endpoint --seconds 0.05 --rounds 2"
        ));
        documented(&report);
        assert_eq!(report["ring"], ring);
        let all = list(&report["results"]);
        let sizes: Vec<u64> = all.iter().map(|r| r["size"].as_u64().unwrap()).collect();
        assert_eq!(sizes, [1000, 3000, 65_536], "what is longer has memory of its own");
    };
    of(4096);
    of(1 << 18);
    told("bw --ring 5000", 2, &["--ring", "a power of two from 4096 to 67108864"]);
    told("idle --ring 4096", 2, &["--ring is for lat, bw, rate and waiting"]);
    told("crowd --size 64", 2, &["--size is for lat, bw, rate and waiting"]);
}

#[test]
fn idle_endpoints_cost_little_memory_and_no_time() {
    let idle = bench("idle --endpoints 300 --seconds 0.4 --rounds 2");
    documented(&idle);
    let number = |field: &str| idle[field].as_f64().unwrap();
    assert!((100.0..=16_384.0).contains(&number("bytes_per_endpoint")), "{idle}");
    // At least the page that its senders share.
    assert!((4096.0..=16_384.0).contains(&number("bytes_per_pool_endpoint")), "{idle}");
    assert_eq!(number("idle_context_switches"), 0.0, "{idle}");
    assert!(number("p50_alone_ns") > 0.0 && number("p50_beside_ns") > 0.0);
}
