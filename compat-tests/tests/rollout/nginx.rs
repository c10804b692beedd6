//! nginx: reloads, and its exchange of the program while it runs.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use compat_tests::tools::{await_listener, await_that, free_port, needed};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::kit::{Host, Load};

const UNIT: &str = "nginx.service";
/// Requests of one run of curl, all over connections that it keeps.
const REQUESTS: usize = 100;

/// What one curl after the other does, under the shim: it says the status of each answer.
fn ask(host: &Host, port: u16, worker: u32) {
    let mut command = host.client(&needed("curl", "curl"));
    command.args(["--silent", "--show-error", "--fail", "--max-time", "20", "--output", "/dev/null"]);
    command.args(["--write-out", "%{http_code} %{size_download}\n"]);
    command.arg(format!("http://127.0.0.1:{port}/file?[1-{REQUESTS}]&{worker}"));
    let out = command.output().expect("curl");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let fine = said.lines().filter(|line| *line == "200 4096").count();
    assert!(
        out.status.success() && fine == REQUESTS,
        "{fine} of {REQUESTS}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// The number in a file that nginx writes.
fn number_in(host: &Host, file: &str) -> Option<i32> {
    fs::read_to_string(host.folder.file(file)).ok()?.trim().parse().ok()
}

fn configure(host: &Host, port: u16, keeps_environment: bool) {
    let folder = host.folder.path().display();
    // nginx hands on to a new program what is named here, and nothing else.
    let keep = if keeps_environment { "env LD_PRELOAD;" } else { "" };
    let user = if nix::unistd::Uid::effective().is_root() { "user nobody nogroup;" } else { "" };
    let text = format!(
        "{user} {keep} worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
         events {{ worker_connections 256; }}
         http {{
           access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
           fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
           server {{ listen 127.0.0.1:{port}; root {folder}; }}
         }}"
    );
    fs::write(host.folder.file("nginx.conf"), text).expect("the configuration");
}

/// Another nginx takes over the listening sockets, and the former one ends when its connections have.
fn exchange(host: &Host) -> i32 {
    let former = number_in(host, "nginx.pid").expect("the number of the master");
    kill(Pid::from_raw(former), Signal::SIGUSR2).expect("the master");
    let other = || number_in(host, "nginx.pid").filter(|&pid| pid != former);
    await_that("a new master", Duration::from_secs(10), || other().is_some());
    kill(Pid::from_raw(former), Signal::SIGQUIT).expect("the master");
    await_that("the end of the former master's workers", Duration::from_secs(20), || {
        !host.folder.file("nginx.pid.oldbin").exists()
    });
    other().expect("the new master")
}

/// Ends what runs when the test ends: daemons, which are no children of ours.
struct Ends(Arc<Host>);

impl Drop for Ends {
    fn drop(&mut self) {
        for pid in ["nginx.pid", "nginx.pid.oldbin"].iter().filter_map(|file| number_in(&self.0, file)) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }
}

#[test]
fn nginx_is_rolled_out_renewed_and_undone_and_no_request_fails() {
    let port = free_port();
    let unit = "[Service]\nExecStart=/usr/sbin/nginx\nRestrictAddressFamilies=AF_UNIX AF_INET\n";
    let host = Arc::new(Host::new(UNIT, unit));
    fs::write(host.folder.file("file"), [b'x'; 4096]).expect("the file");
    // Tried, as it would be enabled on the host.
    host.on_tree(&["enable", "nginx"]);
    configure(&host, port, true);
    let mut command = host.service(&needed("nginx", "nginx-light"), &host.environment(UNIT));
    command.arg("-p").arg(host.folder.path()).arg("-c").arg(host.folder.file("nginx.conf"));
    command.arg("-e").arg(host.folder.file("nginx.log"));
    host.start_daemon(command);
    let _ends = Ends(Arc::clone(&host));
    await_listener(port);
    let loads: Vec<Load> = (0..3)
        .map(|worker| {
            let host = Arc::clone(&host);
            Load::start(move || ask(&host, port, worker))
        })
        .collect();

    // Watched.
    await_that("channels", Duration::from_secs(20), || host.metric("dp_family_channels_total", "nginx") > 10);
    assert!(host.metric("dp_family_ring_bytes_total", "nginx") > 100_000);

    // A new library, under load; the workers of a reload still have the former one, which their master had.
    let first = number_in(&host, "nginx.pid").expect("the number of the master");
    for _ in 0..5 {
        host.install();
        kill(Pid::from_raw(first), Signal::SIGHUP).expect("the master");
        std::thread::sleep(Duration::from_millis(200));
    }
    let maps = |pid: i32| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    assert!(maps(first).contains("libdp_preload.so (deleted)"));

    // An exchange of the program brings the new one.
    let second = exchange(&host);
    let now = maps(second);
    assert!(now.contains("libdp_preload.so") && !now.contains("libdp_preload.so (deleted)"), "{now}");
    await_that("channels of the new one", Duration::from_secs(20), || {
        host.metric("dp_family_channels_total", "nginx") > 10
    });

    // Undone: nothing is left in the tree, and the next exchange is without the shim.
    host.on_tree(&["disable", "nginx"]);
    assert!(host.is_clean());
    configure(&host, port, false);
    kill(Pid::from_raw(second), Signal::SIGHUP).expect("the master");
    std::thread::sleep(Duration::from_millis(500));
    let third = exchange(&host);
    assert!(!maps(third).contains("libdp_preload"));
    assert!(host.doctor(third).contains("started without the shim"), "{}", host.doctor(third));
    std::thread::sleep(Duration::from_millis(500));

    let times: u32 = loads.into_iter().map(Load::finish).sum();
    assert!(times >= 3, "{times} runs of {REQUESTS} requests");
    let log = fs::read_to_string(host.folder.file("nginx.log")).unwrap_or_default();
    assert!(!log.contains("exited on signal"), "{log}");
}
