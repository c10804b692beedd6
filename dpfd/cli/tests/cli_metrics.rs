//! `dp metrics` as Prometheus and node_exporter meet it.

mod kit;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use dpfd::Endpoint;
use kit::Folder;

fn command(folder: &Folder, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.arg("metrics").args(words).env("DP_RUNTIME_DIR", &folder.path);
    command
}

fn run(folder: &Folder, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

/// A server and where it says that it serves.
struct Server(Child, String);

impl Server {
    fn start(folder: &Folder, place: &str) -> Server {
        let mut child = command(folder, &["--listen", place]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        Server(child, said)
    }

    fn address(&self) -> &str {
        let place = self.1.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        place.unwrap_or_else(|| panic!("{}", self.1))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn asked(mut stream: impl Read + Write, request: &str) -> String {
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_endpoint_is_counted_in_each_of_the_three_ways() {
    let folder = Folder::new("three");
    std::env::set_var("DP_RUNTIME_DIR", &folder.path);
    let (from, to) = (Endpoint::open(0).unwrap(), Endpoint::open(0).unwrap());
    for _ in 0..3 {
        from.send_to(b"hello", to.addr()).unwrap();
    }
    (0..3).for_each(|_| drop(to.recv().unwrap()));
    let ours = |text: &str| {
        let line = |name: &str, label: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
            let found =
                lines.find(|line| line.contains(label)).unwrap_or_else(|| panic!("{name} {label}: {text}"));
            found.rsplit_once(' ').unwrap().1.to_owned()
        };
        let edge = format!("from=\"{}\",to=\"{}\"", from.dpid(), to.dpid());
        assert_eq!(line("dp_edge_messages_total", &edge), "3");
        assert_eq!(line("dp_edge_bytes_total", &edge), "15");
        let receiver = format!("direction=\"received\",dpid=\"{}\",driver=\"user\"", to.dpid());
        assert_eq!(line("dp_endpoint_messages_total", &receiver), "3");
    };

    let out = run(&folder, &[]);
    assert!(out.status.success());
    ours(&String::from_utf8(out.stdout).unwrap());

    let file = folder.path.join("dp.prom");
    fs::write(&file, "of before").unwrap();
    assert!(run(&folder, &["--textfile", file.to_str().unwrap()]).status.success());
    ours(&fs::read_to_string(&file).unwrap());
    let beside = fs::read_dir(&folder.path).unwrap().flatten();
    let beside: Vec<_> = beside.filter(|e| e.file_name().to_string_lossy().starts_with("dp.prom")).collect();
    assert_eq!(beside.len(), 1, "{beside:?}");

    let server = Server::start(&folder, "127.0.0.1:0");
    let address = server.address();
    let answer = asked(TcpStream::connect(address).unwrap(), "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("text/plain; version=0.0.4"), "{answer}");
    ours(&answer);
    for (request, status) in [("GET /", "200"), ("GET /else", "404"), ("POST /metrics", "405")] {
        let answer = asked(TcpStream::connect(address).unwrap(), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
}

#[test]
fn a_socket_that_nobody_serves_is_taken_over_and_nothing_else() {
    let folder = Folder::new("socket");
    let path = folder.path.join("socket");
    let place = format!("unix:{}", path.display());
    drop(UnixListener::bind(&path).unwrap());
    let server = Server::start(&folder, &place);
    let answer = asked(UnixStream::connect(&path).unwrap(), "GET /metrics");
    assert!(answer.contains("dp_endpoints_listed 1"), "{answer}");
    let refused = |place: &str, why: &str| {
        let out = run(&folder, &["--listen", place]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(1) && said.contains(why), "{said}");
    };
    refused(&place, "somebody serves there already");
    drop(server);
    let file = folder.path.join("file");
    fs::write(&file, "kept").unwrap();
    refused(&format!("unix:{}", file.display()), "no socket");
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    refused(&busy.local_addr().unwrap().to_string(), "in use");
}

#[test]
fn what_cannot_be_written_is_named() {
    let folder = Folder::new("named");
    let missing = folder.path.join("missing/dp.prom");
    let out = run(&folder, &["--textfile", missing.to_str().unwrap()]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(1) && said.contains("missing/dp.prom"), "{said}");
    let refused = |file: &std::path::Path, why: &str| {
        let out = run(&folder, &["--textfile", file.to_str().unwrap()]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(1) && said.contains(why), "{said}");
    };
    refused(&folder.path, "is a folder; name a file in it");
    let listener = UnixListener::bind(folder.path.join("socket")).unwrap();
    refused(&folder.path.join("socket"), "is no file");
    assert!(UnixStream::connect(folder.path.join("socket")).is_ok(), "it is another one's");
    drop(listener);
    let (link, target) = (folder.path.join("link"), folder.path.join("target"));
    fs::write(&target, "of before").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert!(run(&folder, &["--textfile", link.to_str().unwrap()]).status.success());
    assert!(link.is_symlink() && fs::read_to_string(&target).unwrap().contains("dp_endpoints_listed"));
    let out = run(&folder, &["--listen", "9780"]);
    assert_eq!(out.status.code(), Some(2));
}

/// Asks, and gives up after ten seconds.
fn is_answered(address: &str) -> bool {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = [0; 12];
    let asked = (&stream).write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    asked.and_then(|()| (&stream).read_exact(&mut answer)).is_ok() && answer == *b"HTTP/1.1 200"
}

#[test]
fn who_says_that_it_asks_no_more_is_answered() {
    let folder = Folder::new("half");
    let server = Server::start(&folder, "127.0.0.1:0");
    for question in ["GET /metrics HTTP/1.0\r\n\r\n", "GET /metrics"] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        // Half a question has no answer.
        assert_eq!(answer.starts_with("HTTP/1.1 200 "), question.ends_with('\n'), "{answer}");
        assert_eq!(answer.is_empty(), !question.ends_with('\n'), "{answer}");
    }
}

#[test]
fn who_takes_no_answer_keeps_others_from_nothing() {
    let folder = Folder::new("greedy");
    let server = Server::start(&folder, "127.0.0.1:0");
    let mut greedy = TcpStream::connect(server.address()).unwrap();
    greedy.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let many = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    // Until its answers wait for it, and its questions for those.
    (0..1000).find(|_| greedy.write(&many).is_err());
    assert!(is_answered(server.address()));
    let mut half = TcpStream::connect(server.address()).unwrap();
    half.write_all(b"GET /metrics HT").unwrap();
    assert!(is_answered(server.address()));
    drop((greedy, half));
}

#[test]
fn more_connections_than_it_has_descriptors_do_not_end_it() {
    let folder = Folder::new("crowd");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" metrics --listen 127.0.0.1:0", env!("CARGO_BIN_EXE_dp")]);
    let mut child = command.env("DP_RUNTIME_DIR", &folder.path).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    let mut server = Server(child, said);
    let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    assert!(is_answered(server.address()), "beside those that say nothing");
    drop(idle);
    assert!(is_answered(server.address()));
    assert!(server.0.try_wait().unwrap().is_none(), "it runs");
}
