//! Protocols that tshark knows, found in channels.

use std::fs;
use std::os::unix::fs::chown;
use std::time::{Duration, Instant};

use compat_tests::tools::{
    await_listener, await_that, free_port, needed, not_as_root, postgresql, somebody, TempDir,
};
use compat_tests::Job;

use crate::kit::{early, input, unhex, Capture};

fn done(job: Job) -> String {
    let ended = job.finish(Instant::now() + Duration::from_secs(60));
    assert!(ended.ok(), "{}", ended.text());
    ended.transcript
}

#[test]
fn http_requests_and_their_answers() {
    let folder = TempDir::new();
    fs::write(folder.file("page"), "What a page says.\n".repeat(10)).expect("a page");
    let port = free_port();
    let mut server = early().server_command(&needed("python3", "python3-minimal"), folder.path());
    server.args(["-m", "http.server", "--bind", "127.0.0.1", "--protocol", "HTTP/1.1"]).arg(port.to_string());
    let _server = Job::start("server", server, folder.path());
    await_listener(port);
    let capture = Capture::start(&folder, &["--port", &port.to_string()]);
    let mut client = early().client_command(&needed("curl", "curl"), folder.path());
    client.args(["-s", "--rate", "20/s", &format!("http://127.0.0.1:{port}/page?[1-60]")]);
    assert_eq!(done(Job::start("client", client, folder.path())).lines().count(), 600);
    let (_, packets) = capture.end();
    let decode = format!("tcp.port=={port},http");
    let asked = packets.field(&decode, "http.request", "http.request.uri");
    // A machine with much else to do may leave gaps.
    assert!(asked.len() >= 20 && asked.last().is_some_and(|uri| uri == "/page?60"), "{asked:?}");
    let codes = packets.field(&decode, "http.response", "http.response.code");
    assert!(codes.len() >= 20 && codes.iter().all(|code| code == "200"), "{codes:?}");
    // Each answer is told as that of its request.
    let answered = packets.field(&decode, "http.response_for.uri || http.request_in", "http.request_in");
    assert!(answered.len() >= 20, "{answered:?}");
}

#[test]
fn redis_commands() {
    let folder = TempDir::new();
    let port = free_port();
    let mut server = early().server_command(&needed("redis-server", "redis-server"), folder.path());
    server.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()]);
    let server = Job::start("redis", server, folder.path());
    await_listener(port);
    let capture = Capture::start(&folder, &["--program", "redis-server"]);
    let commands: String = (0..80).map(|i| format!("SET key:{i} value-{i}\n")).collect();
    let input = input(&folder, "PING", &(commands + "GET key:79\n"));
    let mut client = early().client_command(&needed("redis-cli", "redis-tools"), folder.path());
    client.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    let told = done(Job::start_reading("client", client, folder.path(), input));
    assert!(told.ends_with("value-79\n"), "{told}");
    let (ended, packets) = capture.end();
    drop(server);
    let decode = format!("tcp.port=={port},resp");
    let values = packets.field(&decode, "resp", "resp.bulk_string.value").join(",");
    // tshark has them as bytes.
    let values: Vec<Vec<u8>> = values.split(',').map(unhex).collect();
    let values = values.iter().map(|value| String::from_utf8_lossy(value)).collect::<Vec<_>>().join(",");
    // A machine with much else to do may leave gaps.
    assert!(values.matches("SET,key:").count() >= 40, "{}\n{values}", ended.errors);
    assert!(values.contains("value-79"), "{}\n{values}", ended.errors);
    let replies = packets.field(&decode, "resp.string", "resp.string");
    assert!(replies.iter().filter(|reply| reply.as_str() == "OK").count() >= 40, "{replies:?}");
}

#[test]
fn postgresql_statements() {
    let folder = TempDir::new();
    let port = free_port();
    if let Some(user) = somebody() {
        chown(folder.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("its folder");
    }
    let data = folder.file("data");
    let mut initdb = compat_tests::Combo::native().server_command(&postgresql("initdb"), folder.path());
    initdb.arg("-D").arg(&data).args(["-A", "trust", "-U", "postgres", "-N"]);
    not_as_root(&mut initdb);
    done(Job::start("initdb", initdb, folder.path()));
    let mut server = early().server_command(&postgresql("postgres"), folder.path());
    server
        .arg("-D")
        .arg(&data)
        .args(["-h", "127.0.0.1", "-F", "-p", &port.to_string(), "-k"])
        .arg(folder.path());
    not_as_root(&mut server);
    let server = Job::start("postgres", server, folder.path());
    await_listener(port);
    let ask = |input| {
        let mut psql = early().client_command(&postgresql("psql"), folder.path());
        psql.args(["-h", "127.0.0.1", "-U", "postgres", "-X", "-q", "-A", "-t", "-d", "postgres", "-p"]);
        psql.arg(port.to_string());
        Job::start_reading("psql", psql, folder.path(), input)
    };
    await_that("postgres answers", Duration::from_secs(30), || {
        ask(std::process::Stdio::null()).finish(Instant::now() + Duration::from_secs(20)).ok()
    });
    let capture = Capture::start(&folder, &["--port", &port.to_string()]);
    let statements: String = (0..60).map(|i| format!("select 'row', {i};\n")).collect();
    assert!(done(ask(input(&folder, "select 1;", &statements))).ends_with("row|59\n"));
    let (ended, packets) = capture.end();
    drop(server);
    let decode = format!("tcp.port=={port},pgsql");
    let asked = packets.field(&decode, "pgsql.query", "pgsql.query");
    assert!(asked.iter().any(|query| query == "select 'row', 59;"), "{asked:?} {}", ended.errors);
    assert!(asked.len() >= 20, "{asked:?}");
    let types = packets.field(&decode, "pgsql.type == \"Data row\"", "frame.number");
    assert!(types.len() >= 20, "{types:?}");
}
