//! What was captured is what was sent, and what is missing is told by its length.

use std::time::Duration;

use compat_tests::tools::{await_that, TempDir};
use nix::sys::signal::{kill, Signal};

use crate::kit::{sent, unhex, Packets, Serves};

/// The bytes that a client sent, as far as they are there, each at its place: from 1 on, as sequence numbers are.
struct Stream {
    pieces: Vec<(usize, Vec<u8>)>,
    /// The number of its FIN.
    end: Option<usize>,
}

impl Stream {
    fn of(packets: &Packets, port: u16) -> Stream {
        let filter = format!("tcp.dstport == {port} && tcp.flags.syn == 0");
        let rows = packets.fields("", &filter, &["tcp.seq_raw", "tcp.flags.fin", "tcp.payload"]);
        let number = |text: &str| text.parse::<usize>().expect("a number");
        let end = rows.iter().find(|row| matches!(row[1].as_str(), "1" | "True")).map(|row| number(&row[0]));
        let pieces =
            rows.iter().filter(|row| !row[2].is_empty()).map(|row| (number(&row[0]), unhex(&row[2])));
        Stream { pieces: pieces.collect(), end }
    }

    /// Compares all of it, and tells how many bytes there are.
    fn compare(&self, size: usize) -> usize {
        let mut next = 1;
        for (at, bytes) in &self.pieces {
            assert!(*at >= next, "{at} comes again");
            for (i, &byte) in bytes.iter().enumerate() {
                assert_eq!(byte, sent(size, at - 1 + i), "at {}", at + i);
            }
            next = at + bytes.len();
        }
        self.pieces.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// On a busy machine something may be missed once, which is told, and what is there is at its place all the same.
#[test]
fn what_was_captured_is_what_was_sent() {
    assert!((0..3).any(|_| is_captured_whole()), "something was missed three times");
}

fn is_captured_whole() -> bool {
    let folder = TempDir::new();
    let serves = Serves::start(&folder);
    let capture = serves.captured(&folder, &["--program", "python3*"]);
    let paced = serves.sent(&folder, [300, 200], 10.0, false);
    let port = paced.port;
    paced.finish();
    let (ended, packets) = capture.end();
    let stream = Stream::of(&packets, port);
    let there = stream.compare(200);
    if !ended.errors.contains("missed nothing") {
        return false;
    }
    assert_eq!(stream.end, Some(1 + 4 + 300 * 200));
    // The first few went over TCP.
    assert!(there > 250 * 200, "{there} of {}: {}", 300 * 200, ended.errors);
    let last = stream.pieces.last().expect("there are some");
    assert_eq!(last.0 + last.1.len(), 1 + 4 + 300 * 200);
    // Their answers, whole as well.
    let answers = packets.field("", &format!("tcp.srcport == {port} && tcp.len > 0"), "tcp.payload");
    let answers: Vec<u8> = answers.iter().flat_map(|text| unhex(text)).collect();
    // The first few went over TCP.
    let all: String = (0..100).map(|n| format!("{n:03}")).collect();
    assert!(answers.len() > 200 && all.as_bytes().ends_with(&answers), "{answers:?}");
    let talk = packets.field("", "tcp.flags.syn == 1", "tcp.flags.ack");
    assert_eq!(talk.len(), 2, "a handshake");
    let lost = packets.field("", "tcp.analysis.retransmission || tcp.analysis.out_of_order", "frame.number");
    assert!(lost.is_empty(), "{lost:?}");
    true
}

#[test]
fn what_nobody_looked_at_in_time_is_a_gap_of_the_right_length() {
    let folder = TempDir::new();
    let serves = Serves::start(&folder);
    let capture = serves.captured(&folder, &[]);
    // Slow enough to stay in the ring, which one that does not look for a while is lapped in; messages that are cut into several
    // tokens.
    let paced = serves.sent(&folder, [1000, 20_000], 4.0, false);
    let port = paced.port;
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        capture.stop_for(Duration::from_millis(150));
    }
    paced.finish();
    let (ended, packets) = capture.end();
    let stream = Stream::of(&packets, port);
    let there = stream.compare(20_000);
    let all = 4 + 1000 * 20_000;
    assert!(there > 0 && there < all, "{there} of {all}");
    assert!(ended.errors.contains(" gaps"), "{}", ended.errors);
    // What it sent last went over TCP, and is not counted.
    assert!(stream.end.is_none_or(|end| end <= 1 + all), "{:?} {}", stream.end, ended.errors);
}

#[test]
fn a_killed_program_ends_its_channel_in_the_capture() {
    let folder = TempDir::new();
    let serves = Serves::start(&folder);
    let capture = serves.captured(&folder, &[]);
    let paced = serves.sent(&folder, [150, 300], 5.0, true);
    let port = paced.port;
    await_that("all was sent", Duration::from_secs(30), || paced.client.transcript().contains("holding"));
    kill(paced.server.pid(), Signal::SIGKILL).expect("it runs");
    await_that("the client ends", Duration::from_secs(20), {
        let mut client = paced.client;
        move || client.ended().is_some()
    });
    // The walk through processes finds that both are gone.
    std::thread::sleep(Duration::from_secs(1));
    let (_, packets) = capture.end();
    let ends = packets.field("", "tcp.flags.fin == 1 || tcp.flags.reset == 1", "tcp.srcport");
    assert!(!ends.is_empty());
    assert!(Stream::of(&packets, port).compare(300) > 50 * 300);
}

#[test]
fn a_capture_that_begins_late_has_the_numbers_of_the_whole_stream() {
    let folder = TempDir::new();
    let paced = Serves::start(&folder).sent(&folder, [6000, 500], 0.5, false);
    std::thread::sleep(Duration::from_millis(4500));
    let (pid, port) = (paced.client.pid().to_string(), paced.port);
    let capture = crate::kit::Capture::start(&folder, &["--pid", &pid]);
    paced.finish();
    let (ended, packets) = capture.end();
    let stream = Stream::of(&packets, port);
    let there = stream.compare(500);
    assert!(there > 500 * 500 && there < 6000 * 500, "{there}: {}", ended.errors);
    assert_eq!(stream.end, Some(1 + 4 + 6000 * 500));
    assert!(packets.field("", "tcp.flags.syn == 1", "frame.number").is_empty());
}

#[test]
fn what_was_sent_before_a_capture_begins_is_not_in_it() {
    let folder = TempDir::new();
    let paced = Serves::start(&folder).sent(&folder, [30, 200], 1.0, true);
    await_that("all was sent", Duration::from_secs(30), || paced.client.transcript().contains("holding"));
    let port = paced.port.to_string();
    // Its last messages are still in the ring.
    let capture = crate::kit::Capture::start(&folder, &["--port", &port, "--duration", "0.5"]);
    let (ended, packets) = capture.end_by_itself();
    assert!(ended.errors.contains("of 1 channels"), "{}", ended.errors);
    assert!(!ended.errors.contains("no such channel"), "{}", ended.errors);
    let bytes = packets.field("", "tcp.len > 0", "tcp.seq_raw");
    assert!(bytes.is_empty(), "{bytes:?}");
}

#[test]
fn packets_are_cut_counted_and_commented() {
    let folder = TempDir::new();
    let serves = Serves::start(&folder);
    let capture = serves.captured(&folder, &["--snaplen", "100", "--count", "20", "--busy"]);
    let paced = serves.sent(&folder, [400, 600], 0.2, false);
    let pids = [paced.client.pid(), paced.server.pid()];
    paced.finish();
    let (_, packets) = capture.end_by_itself();
    let rows =
        packets.fields("", "tcp", &["frame.len", "frame.cap_len", "frame.comment", "frame.interface_name"]);
    assert!((20..40).contains(&rows.len()), "{}", rows.len());
    assert!(rows.iter().any(|row| row[0] == "640" && row[1] == "100"), "{rows:?}");
    let comments: String = rows.iter().map(|row| row[2].as_str()).collect();
    assert!(pids.iter().any(|pid| comments.contains(&format!("pid {pid}"))), "{rows:?}");
    assert!(rows[0][3].contains("python3") && rows[0][3].contains(" > "), "{rows:?}");
}
