//! Programs and gateways of several users, which only root can be: who is let in on one node, and who is whom on another.

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, PermissionsExt};
use std::time::{Duration, Instant};

use dpfd::{Addr, Error};
use nix::libc::EACCES;
use nix::sys::stat::{umask, Mode};
use nix::unistd::{geteuid, setgroups, setresgid, setresuid, Gid, Uid};

use crate::kit::{echo, exchange, exchange_by, numbered, open, receive_all, skip, until, Child, Node, SOON};
use crate::{port, there, two_nodes, ECHO};

const NOBODY: u32 = 65534;
const OTHER: u32 = 65533;
/// A folder that its group can use, in which nobody takes away what another has put there.
const SHARED: u32 = 0o3770;
const PRIVATE: u32 = 0o700;

fn users_are_possible(test: &str) -> bool {
    if !geteuid().is_root() {
        skip(&format!("dp-node {test}: other users need root"));
    }
    geteuid().is_root()
}

/// This process is that user's from now on, in the group of all that these tests play.
fn become_user(uid: u32) {
    // Doors can be knocked at by the group.
    umask(Mode::from_bits_truncate(0o007));
    if uid != 0 {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(NOBODY));
        setgroups(&[]).expect("no other groups");
        setresgid(gid, gid, gid).expect("a group");
        setresuid(uid, uid, uid).expect("a user");
        // The kernel clears this setting when a process changes its user, so the process would outlive the test.
        // SAFETY: takes numbers only.
        unsafe { nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL) };
    }
}

impl Node {
    /// Its folder is that user's.
    fn owned_by(self, uid: u32, mode: u32) -> Node {
        fs::create_dir(self.folder()).expect("a new folder");
        chown(self.folder(), Some(uid), Some(NOBODY)).expect("its owner");
        fs::set_permissions(self.folder(), Permissions::from_mode(mode)).expect("its mode");
        self
    }

    fn run_as(&self, uid: u32, f: impl FnOnce() -> bool) -> Child {
        self.run(|| {
            become_user(uid);
            f()
        })
    }

    fn gateway_of(&self, uid: u32) -> Child {
        self.gateway_after(|| become_user(uid))
    }
}

/// What a program that sends there is told in the end.
fn refusal(to: Addr) -> Error {
    let (e, end) = (open(0), Instant::now() + SOON);
    e.set_nonblocking(true).expect("a flag");
    loop {
        match e.send_to(b"let me in", to) {
            Err(error) if !matches!(error, Error::WouldBlock) => return error,
            _ => assert!(Instant::now() < end, "it was taken"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether it says that the gateway is another user's, and what to do.
fn is_anothers(error: &Error) -> bool {
    let text = error.to_string();
    matches!(error, Error::NotItsGateway(to) if *to == there(2))
        && error.errno() == EACCES
        && text.contains("another user's")
        && text.contains("DP_RUNTIME_DIR")
}

/// Messages that came to node 2's endpoints here, of all flows.
fn came(node: &Node) -> u64 {
    let status = node.status().expect("it runs");
    status.nodes.iter().flat_map(|other| &other.flows).map(|flow| flow.messages_in).sum()
}

#[test]
fn a_program_of_another_user_sends_nothing_by_roots_gateway() {
    if !users_are_possible("another user's program") {
        return;
    }
    let [one, two] = two_nodes();
    let one = one.owned_by(0, SHARED);
    let gateways = [one.gateway_of(0), two.gateway()];
    let answers = two.run(|| echo(ECHO));
    one.run_as(0, || exchange(there(2), 20)).ok();
    let before = came(&two);
    one.run_as(NOBODY, || {
        let error = refusal(there(2));
        assert!(is_anothers(&error), "{error:?}");
        // It says so of each message, and what was sent before that was known does not go either.
        let e = open(0);
        e.set_nonblocking(true).expect("a flag");
        until("a refusal", || e.send_to(b"and me", there(2)).is_err_and(|error| is_anothers(&error)));
        assert!(e.why_denied(there(2)).is_some_and(|error| is_anothers(&error)));
        is_anothers(&e.send_to(b"and me", there(2)).expect_err("a refusal"))
    })
    .ok();
    // Nor does it where the gateway's door cannot even be knocked at.
    let files = fs::read_dir(one.folder()).expect("the folder").flatten();
    let doors: Vec<_> = files.filter(|file| file.file_name().to_string_lossy().ends_with(".door")).collect();
    assert!(!doors.is_empty());
    for door in doors {
        fs::set_permissions(door.path(), Permissions::from_mode(0o755)).expect("its owner");
    }
    one.run_as(NOBODY, || is_anothers(&refusal(there(2)))).ok();
    one.run_as(0, || exchange(there(2), 20)).ok();
    assert_eq!(came(&two), before + 20, "of root's program alone");
    assert_eq!(two.status().expect("it runs").nodes[0].flows.len(), 2, "one for each of root's programs");
    [answers].into_iter().chain(gateways).for_each(Child::kill);
}

#[test]
fn a_folder_of_roots_alone_is_no_other_users() {
    if !users_are_possible("root's folder") {
        return;
    }
    let [one, _] = two_nodes();
    let one = one.owned_by(0, PRIVATE);
    let gateway = one.gateway_of(0);
    one.run_as(NOBODY, || {
        let error = dpfd::Endpoint::open_on(dpfd::driver::Driver::User, 0).expect_err("a refusal");
        let text = error.to_string();
        error.errno() == EACCES && text.contains("belongs to another user") && text.contains("DP_RUNTIME_DIR")
    })
    .ok();
    let said = one.try_gateway_after(|| become_user(NOBODY));
    assert!(said.len() == 1 && said[0].contains("belongs to another user"), "{said:?}");
    gateway.kill();
}

/// In a folder of that user's root can do all that he can, and other users nothing.
#[test]
fn a_gateway_of_another_user_serves_that_user_and_root() {
    if !users_are_possible("another user's gateway") {
        return;
    }
    for mode in [PRIVATE, SHARED] {
        let [one, two] = two_nodes();
        let one = one.owned_by(NOBODY, mode);
        let gateways = [one.gateway_of(NOBODY), two.gateway()];
        let answers = two.run(|| echo(ECHO));
        one.run_as(NOBODY, || exchange(there(2), 50)).ok();
        let before = came(&two);
        one.run_as(0, || {
            let e = open(0);
            (0..10).for_each(|i| e.send_to(&numbered(i, 1000), there(2)).expect("room"));
            until("all is with the gateway", || e.stat().sent.0 == 10);
            true
        })
        .ok();
        until("root's messages", || came(&two) == before + 10);
        one.run_as(OTHER, || match mode {
            PRIVATE => dpfd::Endpoint::open_on(dpfd::driver::Driver::User, 0)
                .is_err_and(|error| error.errno() == EACCES && error.to_string().contains("another user")),
            _ => is_anothers(&refusal(there(2))),
        })
        .ok();
        assert_eq!(came(&two), before + 10, "{mode:o}");
        [answers].into_iter().chain(gateways).for_each(Child::kill);
    }
}

/// Root believes the owner of a folder that it names, and nobody else who can write to it.
#[test]
fn a_gateway_that_another_user_has_put_into_roots_folder_is_not_roots() {
    if !users_are_possible("a gateway in root's folder") {
        return;
    }
    let [one, two] = two_nodes();
    let one = one.owned_by(0, SHARED);
    let gateways = [one.gateway_of(NOBODY), two.gateway()];
    let answers = two.run(|| echo(ECHO));
    one.run_as(NOBODY, || exchange(there(2), 50)).ok();
    let before = came(&two);
    one.run_as(0, || is_anothers(&refusal(there(2)))).ok();
    assert_eq!(came(&two), before);
    [answers].into_iter().chain(gateways).for_each(Child::kill);
}

/// The gateway knows the program as root's, and it is the graph that has no such edge.
#[test]
fn a_program_that_gave_up_root_is_told_of_the_edge_that_is_missing() {
    if !users_are_possible("a program that gives up root") {
        return;
    }
    let (a, b) = (port(), port());
    let graph = format!(
        "strict = true\n{}[[node]]\nnid = 1\nroutes = [\"udp:127.0.0.1:{a}\"]\n\
         [[node]]\nnid = 2\nroutes = [\"udp:127.0.0.1:{b}\"]\n\
         [[process]]\nname = \"one\"\nnode = 1\nendpoints = [5000, 5001]\n\
         [[process]]\nname = \"two\"\nnode = 2\nendpoints = [{ECHO}]\n\
         [[edge]]\nfrom = \"1/5000\"\nto = \"2/{ECHO}\"\n[[edge]]\nfrom = \"2/{ECHO}\"\nto = \"1/5000\"\n",
        crate::kit::SEALED
    );
    let [one, two] = [1, 2].map(|nid| Node::new(nid, &graph, None).owned_by(0, SHARED));
    let gateways = [one.gateway_of(0), two.gateway_of(0)];
    let answers = two.run_as(0, || echo(ECHO));
    one.run_as(0, || {
        let (agreed, another) = (open(5000), open(5001));
        another.set_nonblocking(true).expect("a flag");
        exchange_by(&agreed, there(2), 20);
        become_user(NOBODY);
        let end = Instant::now() + SOON;
        let error = loop {
            match another.send_to(b"another edge", there(2)) {
                Err(error) if !matches!(error, Error::WouldBlock) => break error,
                _ => assert!(Instant::now() < end, "it was taken"),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let missing = (Addr { nid: 1, dpid: 5001 }, there(2));
        assert!(matches!(error, Error::NoEdge { from, to } if (from, to) == missing), "{error:?}");
        exchange_by(&agreed, there(2), 20)
    })
    .ok();
    [answers].into_iter().chain(gateways).for_each(Child::kill);
}

/// What one that was killed left there cannot be taken away by another user.
#[test]
fn a_gateway_in_the_place_of_another_users_says_whose_it_was() {
    if !users_are_possible("another user's remains") {
        return;
    }
    let [one, _] = two_nodes();
    let one = one.owned_by(0, SHARED);
    let gateway = one.gateway_of(0);
    let said = one.try_gateway_after(|| become_user(NOBODY));
    assert!(said.len() == 1 && said[0].contains("is the gateway of this node already"), "{said:?}");
    gateway.kill();
    let said = one.try_gateway_after(|| become_user(NOBODY));
    let why = said.last().expect("why it does not run");
    assert!(said.len() == 1 && why.contains("/gateway: ") && why.contains("another user"), "{said:?}");
    // Its owner's takes its place.
    one.gateway_of(0).kill();
}

/// Both nodes of a graph whose users are mapped like that, or squashed; node 1 is that user's.
fn mapped(map: Option<&str>, uid: u32) -> [Node; 2] {
    let (a, b) = (port(), port());
    let users = map.map_or(String::new(), |map| format!("users = \"map\"\nmap = [\"{map}\"]\n"));
    let graph = format!(
        "[route.udp]\n{users}{}[[node]]\nnid = 1\nroutes = [\"udp:127.0.0.1:{a}\"]\n\
         [[node]]\nnid = 2\nroutes = [\"udp:127.0.0.1:{b}\"]\n",
        crate::kit::SEALED
    );
    [1, 2].map(|nid| Node::new(nid, &graph, None).owned_by(if nid == 1 { uid } else { 0 }, PRIVATE))
}

#[test]
fn who_sends_from_another_node_is_whom_the_graph_maps_him_to() {
    if !users_are_possible("mapped users") {
        return;
    }
    const COUNT: u64 = 20;
    // Who is who at node 2, whose endpoints are root's: none of those that may not send there.
    let cases = [
        (Some("65534:0"), Some(0), true),
        (Some("65533-65534:65535"), Some(65536), false),
        (Some("65534:65534"), Some(NOBODY), false),
        // Nobody that the graph names, whatever his number.
        (Some("1000:0"), Some(NOBODY), false),
        (None, None, true),
    ];
    for (map, user, comes) in cases {
        let [one, two] = mapped(map, NOBODY);
        let gateways = [one.gateway_of(NOBODY), two.gateway_of(0)];
        let receiver = two.run_as(0, || {
            receive_all(&open(ECHO), COUNT, |_| 1000);
            true
        });
        let sender = one.run_as(NOBODY, || {
            let e = open(0);
            (0..COUNT).for_each(|i| e.send_to(&numbered(i, 1000), there(2)).expect("room"));
            std::thread::sleep(Duration::from_secs(30));
            true
        });
        let flow = || {
            let status = two.status().expect("it runs");
            status.nodes[0].flows.first().cloned().filter(|flow| flow.open)
        };
        until("a flow", || flow().is_some());
        if comes {
            receiver.ok();
        } else {
            // As for an endpoint that is not open.
            std::thread::sleep(Duration::from_millis(700));
            let here = one.status().expect("it runs");
            assert_eq!(here.nodes[0].flows[0].waiting, COUNT, "{map:?}");
            assert_eq!(came(&two), 0, "{map:?}");
            receiver.kill();
        }
        assert_eq!(flow().expect("it is open").user, user, "{map:?}");
        sender.kill();
        gateways.into_iter().for_each(Child::kill);
    }
}
