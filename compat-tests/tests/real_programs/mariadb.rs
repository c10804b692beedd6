//! MariaDB, whose InnoDB reads and writes its files by an io_uring of liburing's.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use compat_tests::tools::{await_listener, await_that, free_port, needed, TempDir};
use compat_tests::{difference, Combo, Job, Side};

const PACKAGE: &str = "mariadb-server-core";
/// Statements, and how long each is at least.
const STATEMENTS: usize = 600;
const LENGTH: usize = 1000;

fn install(folder: &Path) {
    let mut command = Command::new(needed("mariadb-install-db", PACKAGE));
    command.arg("--no-defaults").arg(format!("--datadir={}", folder.join("data").display()));
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    let ended =
        Job::start("install", as_root(command), folder).finish(Instant::now() + Duration::from_secs(60));
    assert!(ended.ok(), "{}", ended.text());
}

/// It refuses to run as root, unless it is told to.
fn as_root(mut command: Command) -> Command {
    let own = fs::metadata("/proc/self").expect("/proc");
    if std::os::unix::fs::MetadataExt::uid(&own) == 0 {
        command.arg("--user=root");
    }
    command
}

fn start(combo: &Combo, folder: &Path, port: u16) -> Job {
    let mut command = combo.server_command(&needed("mariadbd", PACKAGE), folder);
    command.args([
        "--no-defaults",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--innodb-use-native-aio=1",
    ]);
    command.arg(format!("--port={port}"));
    for (option, file) in [("datadir", "data"), ("socket", "socket"), ("pid-file", "pid")] {
        command.arg(format!("--{option}={}", folder.join(file).display()));
    }
    let job = Job::start("mariadbd", as_root(command), folder);
    await_listener(port);
    job
}

/// Statements that write pages, and ask for what was written.
fn script(end: &Path) -> String {
    let mut script = String::from(
        "CREATE DATABASE d; USE d; CREATE TABLE t (i INT PRIMARY KEY, v VARCHAR(1000)) ENGINE=InnoDB;\n\
         SHOW VARIABLES LIKE 'innodb_use_native_aio';\n",
    );
    for i in 0..STATEMENTS {
        writeln!(script, "INSERT INTO t VALUES ({i}, '{}');", "v".repeat(LENGTH - i % 100))
            .expect("a string");
    }
    script += "SELECT COUNT(*), SUM(LENGTH(v)), SUM(CRC32(v) % 1000) FROM t; FLUSH TABLES;\n";
    writeln!(script, "SELECT 1 INTO OUTFILE '{}';", end.display()).expect("a string");
    script + "SELECT SLEEP(1); SELECT MAX(i) FROM t;\n"
}

/// What the client was told, and the bytes that the server had by TCP when all statements were done.
fn run(combo: &Combo) -> (String, u64) {
    let folder = TempDir::new();
    install(folder.path());
    let port = free_port();
    let _server = start(combo, folder.path(), port);
    let (input, end) = (folder.file("script"), folder.file("end"));
    fs::write(&input, script(&end)).expect("the script");
    let mut client = combo.client_command(&needed("mariadb", "mariadb-client-core"), folder.path());
    client.args(["--no-defaults", "--protocol=tcp", "-uroot", "-h127.0.0.1", &format!("-P{port}")]);
    let input = File::open(&input).expect("the script");
    let job = Job::start_reading("mariadb", client, folder.path(), Stdio::from(input));
    await_that("the statements", Duration::from_secs(30), || end.exists());
    let told = Command::new(needed("ss", "iproute2"))
        .args(["-tinOH", "state", "established", "sport", "=", &format!(":{port}")])
        .output()
        .expect("ss runs");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let received = told.split("bytes_received:").nth(1).and_then(|rest| rest.split_whitespace().next());
    let received = received.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no count in {told:?}"));
    let ended = job.finish(Instant::now() + Duration::from_secs(30));
    assert!(ended.ok(), "{}: {}", combo.name, ended.text());
    (ended.transcript, received)
}

#[test]
fn mariadb_keeps_its_channels_beside_its_io_uring() {
    let bytes = (STATEMENTS * (LENGTH - 100)) as u64;
    let (expected, by_tcp) = run(&Combo::native());
    assert!(expected.contains("innodb_use_native_aio\tON"), "no io_uring here: {expected}");
    assert!(by_tcp >= bytes, "natively only {by_tcp} bytes went through TCP");
    for combo in Combo::sides().into_iter().filter(|combo| combo.server == Side::Shim) {
        let (got, by_tcp) = run(&combo);
        assert!(expected == got, "{}\n{}", combo.name, difference(&expected, &got));
        if combo.client == Side::Shim && std::env::var_os("DP_COMPAT_NATIVE_ONLY").is_none() {
            assert!(by_tcp < bytes / 10, "{by_tcp} bytes went through TCP");
        }
    }
}
