//! Two nodes: at ports of the loopback, or network namespaces with two cables between them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::sched::{unshare, CloneFlags};
use serde_json::Value;

use super::kit::{until, Folder};
use super::{SHORT, TRUSTED};

/// A program that is killed when its test ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network namespace.
pub struct Network(File);

impl Network {
    pub fn new() -> Network {
        let (tell, told) = channel();
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            tell.send(File::open("/proc/thread-self/ns/net").expect("its file")).unwrap();
        });
        Network(told.recv().unwrap())
    }

    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    pub fn ip(&self, line: &str) {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg("ip").args(line.split_whitespace());
        let out = command.output().expect("nsenter");
        assert!(out.status.success(), "ip {line}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// Nodes 1 and 2, each with its folder.
pub struct Two {
    pub folder: Folder,
    pub networks: Vec<Network>,
}

impl Two {
    pub fn new(name: &str, routes: [String; 2], networks: Vec<Network>) -> Two {
        let folder = Folder::new(name);
        let [one, two] = routes;
        let nodes = format!(
            "[[node]]\nnid = 1\nroutes = [{one}]\n[[node]]\nnid = 2\nname = \"beta\"\nroutes = [{two}]\n"
        );
        folder.file("graph.toml", &format!("{TRUSTED}{nodes}"));
        Two { folder, networks }
    }

    /// At ports of the loopback.
    pub fn at_ports(name: &str) -> Two {
        // Both are held until both are known: a port that is free again could be the next one's.
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let routes = sockets.each_ref().map(|socket| format!("\"udp:{}\"", socket.local_addr().unwrap()));
        Two::new(name, routes, Vec::new())
    }

    /// In network namespaces, with a cable for `eth` and one for `udp`.
    pub fn on_cables(name: &str) -> Two {
        let networks = vec![Network::new(), Network::new()];
        for cable in ["dp0", "dp1"] {
            networks[0]
                .ip(&format!("link add {cable} type veth peer name {cable} netns {}", networks[1].path()));
        }
        for (network, n) in networks.iter().zip(1..) {
            network.ip(&format!("link set dp0 address 02:00:00:00:00:0{n}"));
            network.ip(&format!("addr add 10.1.0.{n}/24 dev dp1"));
            ["lo", "dp0", "dp1"].iter().for_each(|interface| network.ip(&format!("link set {interface} up")));
        }
        let routes = [1, 2].map(|n| format!("\"eth:dp0/02:00:00:00:00:0{n}\", \"udp:10.1.0.{n}:7411\""));
        Two::new(name, routes, networks)
    }

    pub fn registry(&self, nid: u16) -> PathBuf {
        self.folder.path.join(nid.to_string())
    }

    /// `dp` on a node.
    pub fn dp(&self, nid: u16, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        if let Some(network) = self.networks.get(usize::from(nid) - 1) {
            command = Command::new("nsenter");
            command.arg(format!("--net={}", network.path())).arg(env!("CARGO_BIN_EXE_dp"));
        }
        command.args(line.split_whitespace());
        command.env("DP_RUNTIME_DIR", self.registry(nid)).env("DP_NID", nid.to_string());
        command
    }

    /// The gateway of a node, once it is there; it ends with this.
    pub fn gateway(&self, nid: u16) -> Running {
        let graph = self.folder.path.join("graph.toml");
        let line = format!("node --graph {} --node {nid}", graph.display());
        let gateway = Running(self.dp(nid, &line).stderr(Stdio::null()).spawn().unwrap());
        until("a gateway", || self.registry(nid).join("gateway.status").exists());
        gateway
    }

    /// `dp bench serve` on a node, once it does.
    pub fn serve(&self, nid: u16, options: &str) -> Running {
        let mut child =
            self.dp(nid, &format!("bench serve {options}")).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        Running(child)
    }

    /// What node 1 finds.
    #[track_caller]
    pub fn report(&self, line: &str) -> Value {
        let (code, printed, said) = self.ended(line);
        assert_eq!(code, Some(0), "{line}: {said}");
        serde_json::from_str(&printed).unwrap()
    }

    /// What goes between the nodes, as this one's gateway tells it.
    pub fn flows(&self, nid: u16) -> Vec<Value> {
        let listed = self.dp(nid, "ls --json").output().unwrap();
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        listed["gateway"]["nodes"][0]["flows"].as_array().cloned().unwrap_or_default()
    }

    /// Sends lines from a node.
    #[track_caller]
    pub fn send(&self, nid: u16, to: &str, lines: &[u8]) {
        let mut send = self.dp(nid, &format!("send {to} --lines"));
        let mut send = Running(send.stdin(Stdio::piped()).spawn().unwrap());
        send.0.stdin.take().unwrap().write_all(lines).unwrap();
        assert!(send.0.wait().unwrap().success());
    }

    /// Node 2 measures with node 1 once it has given up whomever it served.
    #[track_caller]
    pub fn served_in_the_end(&self) {
        let end = Instant::now() + Duration::from_secs(100);
        loop {
            let (code, _, said) = self.ended(&format!("bench lat --node 2 {SHORT}"));
            if code == Some(0) {
                return;
            }
            assert!(Instant::now() < end, "{said}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    pub fn ended(&self, line: &str) -> (Option<i32>, String, String) {
        let dp = self.dp(1, line);
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "200"]).arg(dp.get_program()).args(dp.get_args());
        let set = dp.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let out = command.envs(set).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    }

    /// Node 1 fails with this status and these words.
    #[track_caller]
    pub fn told(&self, line: &str, code: i32, words: &[&str]) {
        let (got, printed, said) = self.ended(line);
        assert_eq!(got, Some(code), "{line}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{line}: {said}");
        assert!(printed.is_empty(), "{line}: {printed}");
    }
}
