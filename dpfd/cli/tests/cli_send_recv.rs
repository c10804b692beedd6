//! `dp send` and `dp recv`, as a shell uses them: what goes in comes out, and the exit status tells the truth.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dpfd::{Addr, Endpoint};
use nix::fcntl::{Flock, FlockArg};

/// All tests share one folder: endpoints of this process can have only one. Numbers differ.
fn folder() -> PathBuf {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let path = std::env::temp_dir().join(format!("dp-cli-{}", std::process::id()));
    ONCE.call_once(|| std::env::set_var("DP_RUNTIME_DIR", &path));
    path
}

/// `dp` with these arguments; ended by force if it hangs.
fn dp(line: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_dp")]).args(line.split_whitespace());
    command.env("DP_RUNTIME_DIR", folder()).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Feeds it `input`, and waits for its end.
fn feed(mut child: Child, input: &[u8]) -> Output {
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|s| {
        s.spawn(move || stdin.write_all(input)); // it may end before it has read all
        child.wait_with_output().unwrap()
    })
}

fn run(line: &str, input: &[u8]) -> Output {
    feed(dp(line).spawn().unwrap(), input)
}

fn ended(output: &Output, code: i32, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{words:?} is not in {said:?}");
}

/// Bytes that compress to nothing and differ by `seed`.
fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

/// FNV-1a; long outputs are compared by it.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// Says where they part, not all of what they are.
fn same(left: &[u8], right: &[u8]) {
    if let Some(at) = left.iter().zip(right).position(|(l, r)| l != r) {
        let near = |bytes: &[u8]| {
            let part = &bytes[at.saturating_sub(40)..bytes.len().min(at + 40)];
            String::from_utf8_lossy(part).into_owned()
        };
        panic!("byte {at} of {}: {:?} is not {:?}", left.len(), near(left), near(right));
    }
    assert_eq!((left.len(), sum(left)), (right.len(), sum(right)));
}

#[test]
fn large_data_goes_both_ways_at_once() {
    let (there, back) = (random(48 << 20, 1), random(31_234_567, 2));
    thread::scope(|s| {
        for (data, from, to) in [(&there, 3001, 3002), (&back, 3003, 3004)] {
            // The receiver of one direction comes late.
            let recv = move || {
                thread::sleep(Duration::from_millis(if to == 3002 { 0 } else { 300 }));
                run(&format!("recv {to} --timeout 3"), b"")
            };
            let got = s.spawn(recv);
            s.spawn(move || {
                let sent = run(&format!("send {to} --from {from}"), data);
                ended(&sent, 0, "");
                let got = got.join().unwrap();
                ended(&got, 0, "");
                same(&got.stdout, data);
            });
        }
    });
}

/// Messages of 0 to 16 MiB in one stream, each kept apart.
#[test]
fn messages_of_every_length_keep_their_borders() {
    let lengths = [0, 1, 63, 4096, 65_536, 70_000, 300_000, 5 << 20, 16 << 20, 3, 0, 16 << 20, 1];
    let mut data = Vec::new();
    for (i, len) in lengths.into_iter().enumerate() {
        data.extend((len as u32).to_be_bytes());
        data.extend(random(len, i as u64 + 7));
    }
    thread::scope(|s| {
        let line = format!("recv 3010 --length-prefixed --count {} --timeout 20", lengths.len());
        let got = s.spawn(move || run(&line, b""));
        ended(&run("send 3010 --length-prefixed", &data), 0, "");
        let got = got.join().unwrap();
        ended(&got, 0, "");
        same(&got.stdout, &data);
    });
}

#[test]
fn lines_are_messages_and_come_out_as_lines() {
    let mut text: Vec<u8> = (0..50_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
    text.extend(b"\n\0binary\xff\r\nlast without newline");
    let lines = text.split(|b| *b == b'\n').count();
    thread::scope(|s| {
        let got = s.spawn(move || run(&format!("recv 3020 --lines --count {lines} --timeout 20"), b""));
        ended(&run("send 3020 --lines", &text), 0, "");
        let got = got.join().unwrap();
        ended(&got, 0, "");
        text.push(b'\n');
        same(&got.stdout, &text);
    });
}

#[test]
fn both_ends_talk_to_programs_that_use_the_library() {
    folder();
    let mine = Endpoint::open(3030).unwrap();
    let child = dp("send 3030 --lines --from 3031").spawn().unwrap();
    let sent = thread::spawn(|| feed(child, b"one\ntwo"));
    // The first plainly, the second in place.
    let mut file = File::from(mine.as_fd().try_clone_to_owned().unwrap());
    let mut buf = [0; 16];
    let n = file.read(&mut buf).unwrap();
    assert_eq!(&buf[..n], b"one");
    let two = mine.recv().unwrap();
    assert_eq!((two.to_vec(), two.from()), (b"two".to_vec(), Addr::local(3031)));
    ended(&sent.join().unwrap(), 0, "");

    let got = thread::spawn(|| run("recv 3032 --lines --count 2 --timeout 20", b""));
    mine.target(Addr::local(3032)).unwrap();
    mine.send(b"three").unwrap();
    file.write_all(b"four").unwrap();
    assert_eq!(got.join().unwrap().stdout, b"three\nfour\n");
}

#[test]
fn a_receiver_that_reads_nothing_gets_what_it_has_room_for_and_the_rest_is_counted() {
    folder();
    let lazy = Endpoint::open(3040).unwrap();
    lazy.pool(64 * 1024).unwrap();
    let sent = run("send 3040 --length-prefixed --timeout 0.5", &{
        let mut data = Vec::new();
        (0..200).for_each(|i| {
            data.extend(10_000u32.to_be_bytes());
            data.extend(random(10_000, i));
        });
        data
    });
    ended(&sent, 3, "endpoint 3040 took nothing for 0.5 s");
    let said = String::from_utf8(sent.stderr).unwrap();
    let number = |after: &str| -> usize {
        let at = said.find(after).unwrap() + after.len();
        said[at..].split(' ').next().unwrap().parse().unwrap()
    };
    let (left, read) = (number("took nothing for 0.5 s; "), number(" of "));
    lazy.set_nonblocking(true).unwrap();
    let mut here = 0;
    while let Ok(message) = lazy.recv() {
        same(&message.to_vec(), &random(10_000, here as u64));
        here += 1;
    }
    assert_eq!(here, read - left, "{said}");
    assert!(here > 0 && left > 0, "{said}");
}

#[test]
fn nobody_there_is_told_in_time() {
    let start = Instant::now();
    ended(
        &run("send 3050 --timeout 0.3", b"hello"),
        3,
        "1 of 1 messages read (5 bytes) are not with endpoint 3050",
    );
    assert!(start.elapsed() >= Duration::from_millis(300));
    ended(&run("recv 3051 --timeout 0.2", b""), 3, "no message came to endpoint 3051");
    ended(&run("send 3051 --timeout 5", b""), 0, "");
    // Nothing was left behind.
    let left =
        std::fs::read_dir(folder()).unwrap().flatten().any(|f| f.file_name().to_string_lossy() == "3051");
    assert!(!left);
}

/// The service and the end of the process both take an endpoint out of the folder, whose lock somebody else has.
#[test]
fn nothing_is_left_of_a_process_that_ends_while_the_folder_is_busy() {
    // A folder of its own: the others' tests would wait.
    let busy = folder().join("busy");
    std::fs::create_dir_all(&busy).unwrap();
    std::fs::set_permissions(&busy, std::fs::Permissions::from_mode(0o700)).unwrap();
    let one = &|number: u32| {
        let mut command = dp(&format!("recv {number} --timeout 0.05"));
        let out = command.env("DP_RUNTIME_DIR", &busy).output().unwrap();
        assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
    };
    thread::scope(|s| {
        let lock = Flock::lock(File::open(&busy).unwrap(), FlockArg::LockExclusive).unwrap();
        let all: Vec<_> = (3100..3120).map(|number| s.spawn(move || one(number))).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        drop(lock);
    });
    let left: Vec<_> = std::fs::read_dir(&busy).unwrap().flatten().map(|file| file.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn too_few_messages_are_status_3_and_those_that_came_are_there() {
    thread::scope(|s| {
        let got = s.spawn(|| run("recv 3060 --lines --count 5 --timeout 1", b""));
        ended(&run("send 3060 --lines", b"a\nb\n"), 0, "");
        let got = got.join().unwrap();
        ended(&got, 3, "2 of 5 messages came to endpoint 3060");
        assert_eq!(got.stdout, b"a\nb\n");
    });
}

#[test]
fn half_a_message_is_an_error_after_the_whole_ones() {
    thread::scope(|s| {
        let got = s.spawn(|| run("recv 3070 --lines --count 1 --timeout 20", b""));
        let sent = run("send 3070 --length-prefixed", b"\0\0\0\x02hi\0\0\0\x09half");
        ended(&sent, 1, "8 bytes of 13 are there");
        assert_eq!(got.join().unwrap().stdout, b"hi\n");
    });
}

#[test]
fn a_reader_that_goes_ends_the_receiver_quietly() {
    // While a message is written, and while none comes.
    for traffic in [true, false] {
        let number = if traffic { 3080 } else { 3081 };
        let mut child = dp(&format!("recv {number}")).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut sent = dp(&format!("send {number} --timeout 5")).spawn().unwrap();
        sent.stdin.take().unwrap().write_all(&[b'x'; 100]).unwrap();
        out.read_exact(&mut [0; 100]).unwrap();
        drop(out);
        assert!(sent.wait().unwrap().success());
        if traffic {
            let _ = feed(dp(&format!("send {number} --timeout 0.2")).spawn().unwrap(), &random(500_000, 3));
        }
        let end = child.wait_with_output().unwrap();
        ended(&end, 0, "");
        assert_eq!(String::from_utf8_lossy(&end.stderr), "");
    }
}

#[test]
fn a_signal_ends_the_sender_which_says_what_is_left() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dp"))
        .args(["send", "3090", "--lines"])
        .env("DP_RUNTIME_DIR", folder())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its input stays open: it is in read(2) when the signal comes.
    child.stdin.as_mut().unwrap().write_all(b"a\nb\n").unwrap();
    thread::sleep(Duration::from_millis(500));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().unwrap().signal(), Some(15), "{said}");
    assert!(
        said.contains("ended by SIGTERM; 2 of 2 messages read (2 bytes) are not with endpoint 3090"),
        "{said}"
    );
}

#[test]
fn errors_name_the_object() {
    ended(&run("send 9/3100", b"x"), 1, "endpoint 9/3100: no route to node 9");
    ended(&run("send 0", b"x"), 2, "is no endpoint");
    ended(&run("recv 3100 --lines --length-prefixed", b""), 2, "cannot be used with");
    ended(&run("recv 3100 --pool 1", b""), 2, "1 is not in 4096..=1073741824");
    ended(&run("send 3100 --timeout soon", b"x"), 2, "Usage: dp send");
    ended(&run("device node 65535", b""), 2, "Usage: dp device node");
    folder();
    let _taken = Endpoint::open(3101).unwrap();
    ended(&run("recv 3101", b""), 1, "endpoint 3101 is open already");
    ended(&run("send 3100 --from 3101", b"x"), 1, "endpoint 3101 is open already");
}

/// Of any free number the one is told that was taken, also when nothing comes to it.
#[test]
fn any_free_number_is_told() {
    for (line, before) in [
        ("recv 0 --timeout 0.1", "no message came to endpoint "),
        ("recv 0 --count 2 --timeout 0.1", "0 of 2 messages came to endpoint "),
    ] {
        let out = run(line, b"");
        let said = String::from_utf8_lossy(&out.stderr);
        let number = said.split_whitespace().nth(3).unwrap();
        assert!(number.parse::<u16>().is_ok_and(|number| number >= 1024), "{said}");
        ended(&out, 3, &format!("{before}{number}"));
    }
}

#[test]
fn help_tells_of_each_verb_what_it_does() {
    let help = |line: &str| {
        let out = run(line, b"");
        ended(&out, 0, "");
        String::from_utf8(out.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (recv, send) = (help("recv --lines --help"), help("send --lines --help"));
    assert!(recv.contains("--lines A newline behind each message"), "{recv}");
    assert!(recv.contains("1 to 65535, below 1024 with CAP_NET_BIND_SERVICE; 0: any free one"), "{recv}");
    assert!(send.contains("--lines One message a line, without its newline"), "{send}");
}

#[test]
fn a_node_that_cannot_be_is_told_and_so_is_a_name_with_a_slip() {
    let with = |line: &str, name: &str, value: &str| {
        let mut command = dp(line);
        feed(command.env(name, value).spawn().unwrap(), b"")
    };
    ended(
        &with("recv 3110 --timeout 0.1", "DP_NID", "one"),
        2,
        "dp recv: DP_NID=one: not a whole number; 1 to 65534",
    );
    ended(&with("send 3110 --timeout 0.1", "DP_NID", "65535"), 2, "dp send: DP_NID=65535: too large");
    ended(
        &with("recv 3110 --timeout 0.1", "DP_RUNTIMEDIR", "/tmp"),
        3,
        "DP_RUNTIMEDIR is not known, and does nothing; is it DP_RUNTIME_DIR?",
    );
}

#[test]
fn a_driver_that_is_not_there_is_named() {
    let with = |driver: &str| {
        let mut command = dp("recv 3090 --count 1 --timeout 0.1");
        feed(command.env("DP_DRIVER", driver).spawn().unwrap(), b"")
    };
    ended(&with("cernel"), 1, "DP_DRIVER=cernel: no such driver; set it to user or kernel, or unset it");
    ended(&with("user"), 3, "0 of 1 messages");
    if !std::path::Path::new("/dev/dp").exists() {
        ended(&with("kernel"), 1, "/dev/dp: No such file or directory");
        ended(&with(""), 3, "0 of 1 messages");
    }
}
