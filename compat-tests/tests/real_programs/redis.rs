//! redis-server, redis-cli, redis-benchmark.

use std::fmt::Write;
use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_listener, await_that, free_port, needed, TempDir};
use compat_tests::{difference, Combo, Job};

use crate::combos;

struct Redis {
    _server: Job,
    port: u16,
    folder: TempDir,
    combo: Combo,
}

impl Redis {
    fn start(combo: &Combo) -> Self {
        Self::start_in(TempDir::new(), combo)
    }

    /// Loads the folder's dump, if there is one.
    fn start_in(folder: TempDir, combo: &Combo) -> Self {
        let port = free_port();
        let mut command = combo.server_command(&needed("redis-server", "redis-server"), folder.path());
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.arg("--dir").arg(folder.path());
        let server = Job::start(&format!("redis-server-{port}"), command, folder.path());
        await_listener(port);
        Self { _server: server, port, folder, combo: combo.clone() }
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.combo.client_command(&needed(program, "redis-tools"), self.folder.path());
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]).args(arguments);
        command
    }

    /// What redis-cli answers to the commands, one a line.
    fn cli(&self, commands: &str) -> String {
        let input = self.folder.file("commands");
        fs::write(&input, commands).expect("the commands");
        let input = File::open(&input).expect("the commands");
        let job = Job::start_reading("cli", self.client("redis-cli", &[]), self.folder.path(), input.into());
        self.answer(job)
    }

    fn benchmark(&self, arguments: &[&str]) -> Job {
        Job::start("benchmark", self.client("redis-benchmark", arguments), self.folder.path())
    }

    fn answer(&self, job: Job) -> String {
        let ended = job.finish(Instant::now() + Duration::from_secs(30));
        assert!(ended.ok(), "{}: {}", self.combo.name, ended.text());
        ended.transcript
    }

    fn await_answer(&self, command: &str, wanted: &str) {
        let what = format!("{}: {command} says {wanted}", self.combo.name);
        await_that(&what, Duration::from_secs(20), || self.cli(command).contains(wanted));
    }
}

/// Runs under every combination and compares with the first, which is the native one.
fn same_answers(run: impl Fn(&Combo) -> String) {
    let mut expected = None;
    for combo in combos() {
        let got = run(&combo);
        let expected = expected.get_or_insert_with(|| got.clone());
        assert!(*expected == got, "{}\n{}", combo.name, difference(expected, &got));
    }
}

#[test]
fn redis_commands_and_data() {
    let mut script = String::new();
    for i in 0..2000 {
        writeln!(script, "SET key:{i} \"value {i} {}\"", "v".repeat(i % 300)).expect("a string");
    }
    for i in (0..2000).rev() {
        writeln!(script, "GET key:{i}").expect("a string");
    }
    script += "DBSIZE\nINCR n\nINCRBY n 41\nRPUSH list a b c\nLRANGE list 0 -1\nHSET h f 1 g 2\nHGETALL h\n";
    script +=
        "SETRANGE large 3000000 x\nSTRLEN large\nGETRANGE large 2999990 -1\nGET missing\nNO SUCH COMMAND\n";
    script += "MULTI\nINCR n\nGET n\nEXEC\nEVAL \"return redis.call('GET', 'n')\" 0\nPING\n";
    same_answers(|combo| {
        let redis = Redis::start(combo);
        redis.cli(&script) + &redis.cli("GET key:77\nGET large\n")
    });
}

#[test]
fn redis_benchmark_counts_every_request() {
    same_answers(|combo| {
        let redis = Redis::start(combo);
        for arguments in [
            &["-q", "-t", "set,get,incr", "-n", "8000", "-c", "20"][..],
            &["-q", "-t", "set,get,incr", "-n", "32000", "-c", "10", "-P", "16"],
            &["-q", "-t", "incr,lpush", "-n", "8000", "-c", "8", "-d", "2000", "--threads", "2"],
        ] {
            let told = redis.answer(redis.benchmark(arguments));
            assert!(told.contains("requests per second"), "{}: {told}", combo.name);
        }
        redis.cli("GET counter:__rand_int__\nLLEN mylist\nDBSIZE\n")
    });
}

#[test]
fn redis_publishes_to_subscribers() {
    const MESSAGES: usize = 500;
    let messages: String = (0..MESSAGES).map(|i| format!("PUBLISH news \"message {i}\"\n")).collect();
    same_answers(|combo| {
        let redis = Redis::start(combo);
        let subscribers: Vec<_> = ["first", "second"]
            .into_iter()
            .map(|name| {
                Job::start(name, redis.client("redis-cli", &["SUBSCRIBE", "news"]), redis.folder.path())
            })
            .collect();
        redis.await_answer("PUBSUB NUMSUB news", "2");
        redis.cli(&messages);
        let last = format!("message {}\n", MESSAGES - 1);
        await_that(&format!("{}: the last message", combo.name), Duration::from_secs(20), || {
            subscribers.iter().all(|job| job.transcript().ends_with(&last))
        });
        subscribers.iter().map(Job::transcript).collect()
    });
}

#[test]
fn redis_saves_in_the_background_under_load() {
    const REQUESTS: &str = "60000";
    same_answers(|combo| {
        let redis = Redis::start(combo);
        let filling: String = (0..1000).map(|i| format!("SET filler:{i} {i}\n")).collect();
        redis.cli(&filling);
        let load = redis.benchmark(&["-q", "-t", "incr", "-n", REQUESTS, "-c", "4", "-P", "4"]);
        for _ in 0..3 {
            redis.await_answer("BGSAVE", "started");
            redis.await_answer("INFO persistence", "rdb_bgsave_in_progress:0");
        }
        redis.answer(load);
        let saved = redis.cli("INFO persistence");
        assert!(saved.contains("rdb_last_bgsave_status:ok"), "{}: {saved}", combo.name);
        assert_eq!(redis.cli("SAVE").trim(), "OK", "{}", combo.name);
        // What has been saved is what was sent: another server, without the shim, reads it.
        let Redis { _server: server, folder, .. } = redis;
        drop(server);
        Redis::start_in(folder, &Combo::native()).cli("GET counter:__rand_int__\nDBSIZE\nGET filler:999\n")
    });
}
