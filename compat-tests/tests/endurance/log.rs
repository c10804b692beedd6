//! `DP_LOG`: where lines go, that they are whole, and that the program is as it is without.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, needed, TempDir};
use compat_tests::{programs, Combo, Ended, Pair};
use nix::fcntl::{fcntl, FcntlArg, OFlag};

use crate::{product, users};

/// Words of lines about connections, and about processes.
const STEPS: [&str; 6] = ["offer", "accept", "live", "hand_back", "leave", "reset"];
const OTHERS: [&str; 4] = ["start:", "alone:", "rules:", "warning:"];

/// Time, process, program and what happened; `None`: it is no line of the log's, or not all of one.
fn parts(line: &str) -> Option<(u32, &str, &str)> {
    let (time, rest) = line.split_once(" dp-preload[")?;
    let digits = time.bytes().filter(u8::is_ascii_digit).count();
    let (pid, rest) = rest.split_once("] ")?;
    let (program, said) = rest.split_once(": ")?;
    let word = said.split(' ').next()?;
    let of_connection = STEPS.contains(&word) && said.contains(" fd=") && said.contains(" own=") && {
        let other = said.split_once(" other=")?.1.split(' ').next()?;
        other.parse::<std::net::SocketAddr>().is_ok()
    };
    let sound = time.len() == 27 && digits == 20 && time.ends_with('Z');
    (sound && (of_connection || OTHERS.contains(&word))).then_some((pid.parse().ok()?, program, said))
}

/// What happened, in all lines of a text, each of which must be whole.
fn said(text: &str) -> Vec<&str> {
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let one = |line| parts(line).unwrap_or_else(|| panic!("no line of the log: {line}")).2;
    text.lines().map(one).collect()
}

fn tells_of_a_channel(said: &[&str]) {
    let has = |start: &str| said.iter().any(|said| said.starts_with(start));
    let version = format!("start: version {}, rules: the default rules", env!("CARGO_PKG_VERSION"));
    assert!(has(&version) && has("live fd="), "{said:#?}");
}

fn ok(sides: &[Ended; 2]) {
    assert!(sides.iter().all(Ended::ok), "{}\n{}", sides[0].text(), sides[1].text());
}

/// One connection of many exchanges, under the shim.
fn exchanges() -> Pair {
    Pair::c("ping_pong").arg("").arg("1000")
}

#[test]
fn lines_go_to_standard_error() {
    let _turn = product::alone();
    let sides = exchanges().env("DP_LOG", "stderr").run(&Combo::shimmed());
    ok(&sides);
    sides.iter().for_each(|side| tells_of_a_channel(&said(&side.errors)));
    // More of them, and fewer.
    let [server, client] = exchanges().env("DP_LOG", "stderr:debug").run(&Combo::shimmed());
    let has = |side: &Ended, start: &str| said(&side.errors).iter().any(|said| said.starts_with(start));
    assert!(has(&server, "accept fd=") && has(&client, "offer fd="), "{}{}", server.errors, client.errors);
    let quiet = exchanges().env("DP_LOG", "stderr:warning").run(&Combo::shimmed());
    assert!(quiet.iter().all(|side| side.ok() && side.errors.is_empty()), "{}", quiet[0].errors);
}

#[test]
fn without_the_variable_and_with_a_wrong_one_nothing_is_said() {
    let _turn = product::alone();
    for (name, value) in
        [("DP_LOG", ""), ("DP_LOG", "stdout"), ("DP_LOG", "/nonexistent/log"), ("DP_SPIN", "x")]
    {
        let sides = exchanges().env(name, value).run(&Combo::shimmed());
        ok(&sides);
        assert!(sides.iter().all(|side| side.errors.is_empty()), "{name}={value}: {}", sides[0].errors);
    }
}

#[test]
fn lines_go_to_the_end_of_a_file_for_its_owner() {
    let _turn = product::alone();
    let folder = TempDir::new();
    let path = folder.file("log");
    let name = path.display().to_string();
    for _ in 0..2 {
        ok(&exchanges().env("DP_LOG", &name).run(&Combo::shimmed()));
    }
    let text = fs::read_to_string(&path).expect("the log");
    let said = said(&text);
    tells_of_a_channel(&said);
    assert_eq!(said.iter().filter(|said| said.starts_with("start: ")).count(), 4, "{said:#?}");
    assert_eq!(fs::metadata(&path).expect("the log").permissions().mode() & 0o777, 0o600);
    // A link that somebody else put into the folder does not make the shim write to another file.
    let link = folder.file("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    ok(&exchanges().env("DP_LOG", &link.display().to_string()).run(&Combo::shimmed()));
    assert_eq!(fs::read_to_string(&path).expect("the log"), text);
}

/// The command with a journal's socket in `folder` where systemd-journald has its own.
fn beside_a_journal(command: &Command, folder: &Path) -> Command {
    const INTO: &str = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && \
                        mount --bind \"$0\" /run/systemd/journal && exec \"$@\"";
    let mut inside = Command::new(needed("unshare", "util-linux"));
    inside.args(["--user", "--map-root-user", "--mount"]).args(["sh", "-c", INTO]).arg(folder);
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        inside.env(name, value);
    }
    inside
}

#[test]
fn the_journal_gets_entries_with_fields() {
    let _turn = product::alone();
    let (folder, journal) = (TempDir::new(), TempDir::new());
    let socket = UnixDatagram::bind(journal.file("socket")).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time limit");
    let over = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let over = over.clone();
        move || {
            let (mut entries, mut room) = (Vec::new(), [0; 4096]);
            loop {
                match socket.recv(&mut room) {
                    Ok(n) => entries.push(String::from_utf8(room[..n].to_vec()).expect("text")),
                    Err(_) if over.load(Ordering::SeqCst) => return entries,
                    Err(_) => {}
                }
            }
        }
    });
    let (combo, program) = (Combo::shimmed(), programs::c("ping_pong"));
    let side = |role: &str| {
        let of = if role == "server" { Combo::server_command } else { Combo::client_command };
        let mut command = of(&combo, &program, folder.path());
        command.arg(role).arg(folder.file("port")).args(["", "1000"]).env("DP_LOG", "journal:debug");
        Process::start(beside_a_journal(&command, journal.path()).current_dir(folder.path()))
    };
    let (server, client) = (side("server"), side("client"));
    assert!(client.ends().success() && server.ends().success());
    over.store(true, Ordering::SeqCst);
    let entries = reader.join().expect("the reader");
    let fields = |entry: &String| -> BTreeSet<String> { entry.lines().map(str::to_string).collect() };
    let has = |wanted: &[&str]| entries.iter().map(fields).any(|f| wanted.iter().all(|w| f.contains(*w)));
    assert!(
        has(&["PRIORITY=6", "SYSLOG_IDENTIFIER=dp-preload", "DP_PROGRAM=ping_pong", "DP_EVENT=live"]),
        "{entries:#?}"
    );
    assert!(
        has(&["PRIORITY=7", "DP_EVENT=offer"]) && has(&["PRIORITY=7", "DP_EVENT=accept"]),
        "{entries:#?}"
    );
    for entry in &entries {
        let message = entry.lines().last().and_then(|line| line.strip_prefix("MESSAGE=")).expect("a message");
        let event = entry.lines().find_map(|line| line.strip_prefix("DP_EVENT=")).expect("an event");
        assert!(entry.ends_with('\n') && message.starts_with(event), "{entry}");
    }
}

/// A process of which standard error is whatever it is.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Process {
        Process(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts"))
    }

    /// Waits for its end, fifteen seconds at most.
    fn ends(mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            if let Some(status) = self.0.try_wait().expect("our child") {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end: {}", product::threads(self.0.id() as i32));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pipe() -> (File, OwnedFd) {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    (File::from(reader), writer)
}

/// Both sides of a program with that standard error.
fn with_stderr(
    program: &Path,
    arguments: &[&str],
    folder: &Path,
    log: &str,
    stderr: &OwnedFd,
) -> [Process; 2] {
    let combo = Combo::shimmed();
    ["server", "client"].map(|role| {
        let of = if role == "server" { Combo::server_command } else { Combo::client_command };
        let mut command = of(&combo, program, folder);
        command.arg(role).arg(folder.join("port")).args(arguments).env("DP_LOG", log);
        Process::start(command.stderr(stderr.try_clone().expect("a copy")))
    })
}

#[test]
fn a_pipe_that_nobody_empties_holds_nobody_up() {
    let _turn = product::alone();
    let (folder, (mut reader, writer)) = (TempDir::new(), pipe());
    let how = fcntl(writer.as_fd(), FcntlArg::F_GETFL).expect("our pipe");
    let both = OFlag::from_bits_retain(how) | OFlag::O_NONBLOCK;
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(both)).expect("our pipe");
    while nix::unistd::write(&writer, &[b'x'; 4096]).is_ok() {}
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::from_bits_retain(how))).expect("our pipe");
    let sides = with_stderr(&programs::c("ping_pong"), &["", "1000"], folder.path(), "stderr:debug", &writer);
    drop(writer);
    for side in sides {
        assert!(side.ends().success());
    }
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("all of it");
    assert!(text.bytes().all(|byte| byte == b'x'), "{}", text.trim_start_matches('x'));
}

#[test]
fn a_terminal_that_nobody_reads_holds_nobody_up() {
    let _turn = product::alone();
    let (folder, terminal) = (TempDir::new(), nix::pty::openpty(None, None).expect("a terminal"));
    let sides = with_stderr(
        &programs::c("logged"),
        &["many", "2", "40"],
        folder.path(),
        "stderr:debug",
        &terminal.slave,
    );
    for side in sides {
        assert!(side.ends().success());
    }
    drop(terminal.slave);
    // What there was room for is there, and then the terminal is over.
    let (mut reader, mut bytes) = (File::from(terminal.master), Vec::new());
    let error = reader.read_to_end(&mut bytes).expect_err("nobody else has it");
    assert_eq!(error.raw_os_error(), Some(nix::libc::EIO));
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.lines().next().is_some_and(|line| parts(line).is_some()) && bytes.len() > 2048, "{text}");
}

#[test]
fn what_takes_no_line_ends_nobody() {
    let _turn = product::alone();
    // A pipe without a reader.
    let (folder, (reader, writer)) = (TempDir::new(), pipe());
    drop(reader);
    let sides = with_stderr(&programs::c("ping_pong"), &["", "1000"], folder.path(), "stderr:debug", &writer);
    for side in sides {
        let status = side.ends();
        assert!(status.success(), "signal {:?}", status.signal());
    }
    // A file at its limit, and a device that is full.
    let folder = TempDir::new();
    fs::write(folder.file("log"), [b'x'; 4096]).expect("a file");
    let path = folder.file("log").display().to_string();
    let (combo, program) = (Combo::shimmed(), programs::c("ping_pong"));
    let mut server = combo.server_command(&needed("sh", "dash"), folder.path());
    server.env("DP_LOG", &path).args(["-c", "ulimit -f 8 && exec \"$0\" \"$@\""]).arg(&program);
    server.arg("server").arg(folder.file("port")).args(["", "1000"]).stderr(Stdio::null());
    let mut client = combo.client_command(&program, folder.path());
    client.env("DP_LOG", "/dev/full:debug").arg("client").arg(folder.file("port")).args(["", "1000"]);
    let (server, client) = (Process::start(&mut server), Process::start(client.stderr(Stdio::null())));
    for side in [client, server] {
        let status = side.ends();
        assert!(status.success(), "signal {:?}", status.signal());
    }
    // The shell wrote one, before it set the limit.
    let text = fs::read_to_string(&path).expect("the log");
    assert_eq!(said(text.trim_start_matches('x')).len(), 1, "{text}");
}

/// Many daemons close their standard error, and the next file that they open has its number.
#[test]
fn what_came_to_be_descriptor_two_is_not_written_to_and_its_pipe_is_over() {
    let _turn = product::alone();
    let (folder, (mut reader, writer)) = (TempDir::new(), pipe());
    let sides = with_stderr(&programs::c("logged"), &["reused"], folder.path(), "stderr:debug", &writer);
    drop(writer);
    let through = ["server", "client"].map(|side| folder.file(&format!("port.{side}-through")));
    await_that("their files are still theirs", Duration::from_secs(15), || {
        through.iter().all(|p| p.exists())
    });
    // Nobody has a copy of the pipe: whoever reads it is not kept waiting.
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("its end");
    assert!(said(&text).iter().all(|said| said.starts_with("start: ")), "{text}");
    fs::write(folder.file("port.new"), "1\n").expect("the mark");
    fs::rename(folder.file("port.new"), folder.file("port.seen")).expect("the mark");
    for side in sides {
        assert!(side.ends().success());
    }
}

/// A child that had one would hold up whoever waits for the end of the pipe, as long as it lives.
#[test]
fn a_child_of_a_fork_has_no_descriptor_that_a_line_was_written_by() {
    let _turn = product::alone();
    let (connections, forks) = if product::long() { ("2000", "2000") } else { ("150", "150") };
    let pair = Pair::c("logged").arg("forks").arg("4").arg(connections).arg(forks);
    ok(&pair.env("DP_LOG", "stderr:debug").run(&Combo::shimmed()));
}

#[test]
fn lines_of_threads_and_processes_are_whole() {
    let _turn = product::alone();
    let (folder, count) = (TempDir::new(), if product::long() { "100" } else { "12" });
    let path = folder.file("log");
    let log = format!("{}:debug", path.display());
    let pair = Pair::c("logged").arg("many").arg("6").arg(count).env("DP_LOG", &log);
    let running = [pair.start(&Combo::shimmed()), pair.start(&Combo::shimmed())];
    for pair in running {
        ok(&pair.finish());
    }
    let text = fs::read_to_string(&path).expect("the log");
    let processes: BTreeSet<u32> = text.lines().filter_map(|line| Some(parts(line)?.0)).collect();
    let said = said(&text);
    assert!(!said.iter().any(|said| said.contains(" missed=")), "a file takes all");
    assert!(processes.len() == 8 && said.len() > 200, "{} processes, {} lines", processes.len(), said.len());
}

/// Everything that a program may do in a handler on a small stack; errno; and a filter of system calls.
#[test]
fn a_program_is_as_it_is_without() {
    let _turn = product::alone();
    for pair in [
        Pair::c("small_stack").env("LD_BIND_NOW", "1"),
        Pair::c("handlers").arg("blocking"),
        Pair::c("logged").arg("errno"),
        Pair::c("fork_lives").arg("threads"),
        Pair::c("sandbox").arg("early"),
        Pair::c("sandbox").arg("live").arg("1"),
        Pair::c("sandbox").arg("threads"),
        Pair::c("sandbox").arg("listed"),
    ] {
        let expected = pair.run(&Combo::native());
        ok(&expected);
        let folder = TempDir::new();
        let file = format!("{}:debug", folder.file("log").display());
        for log in [file.as_str(), "stderr:debug"] {
            for combo in [Combo::shimmed(), Combo { after: Some(0), ..Combo::shimmed() }] {
                let got = pair.clone().env("DP_LOG", log).run(&combo);
                for (expected, got) in expected.iter().zip(&got) {
                    let same = (&expected.status, &expected.transcript) == (&got.status, &got.transcript);
                    assert!(same, "{log}, {}: {}", combo.name, got.text());
                }
            }
        }
        said(&fs::read_to_string(folder.file("log")).expect("the log"));
    }
}

#[test]
fn what_is_wrong_and_why_a_process_is_left_alone_is_in_the_log() {
    let _turn = product::alone();
    for (name, value, words) in [
        ("DP_SPIN", "x", "warning: DP_SPIN=x: not a whole number; 0 to 1000000 nanoseconds can stand there"),
        ("DP_AFTR", "1", "warning: DP_AFTR is not known, and does nothing; is it DP_AFTER?"),
        ("DP_RULES", "chanel any *", "warning: DP_RULES:1:1: "),
        ("DP_RULES", "chanel any *", "alone: it has no rules to go by"),
        ("DP_DISABLE", "1", "alone: DP_DISABLE is set"),
        ("DP_RULES", "tcp any *", "start: version "),
    ] {
        let sides = exchanges().env("DP_LOG", "stderr").env(name, value).run(&Combo::shimmed());
        ok(&sides);
        let said = said(&sides[0].errors);
        assert!(said.iter().any(|said| said.starts_with(words)), "{name}={value}: {said:#?}");
    }
}

/// The shim as a library that a program with the rights of its file's owner was linked with: the loader has no choice there.
#[test]
fn a_program_with_more_rights_than_its_caller_writes_nothing() {
    let _turn = product::alone();
    if !users::root() {
        return;
    }
    let folder = TempDir::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("our folder");
    let shim = folder.file("libdp_preload.so");
    let built = std::env::var_os("DP_SHIM").map(PathBuf::from);
    fs::copy(built.unwrap_or_else(|| programs::target_dir().join("release/libdp_preload.so")), &shim)
        .expect("the shim");
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).expect("our file");
    let (sources, program) = (programs::source_dir(), folder.file("linked"));
    let mut compiler = Command::new(needed("cc", "gcc"));
    compiler.args(["-pthread", "-Wl,--no-as-needed", "-o"]).arg(&program);
    compiler.args(["logged.c", "common.c"].map(|name| sources.join(name))).arg(&shim);
    assert!(compiler.status().expect("gcc").success());
    let log = folder.file("log");
    for (mode, expected, writes) in [(0o755, "secure 0\n", true), (0o4755, "secure 1\n", false)] {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("our file");
        assert_eq!(fs::metadata(&program).expect("the program").uid(), 0);
        let mut command = Command::new(needed("setpriv", "util-linux"));
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.args(["server"]).arg(folder.file("port")).arg("secure").env("DP_LOG", &log);
        let out = command.output().expect("it runs");
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            expected,
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        assert_eq!((log.exists(), out.stderr.is_empty()), (writes, true));
        let _ = fs::remove_file(&log);
    }
}
