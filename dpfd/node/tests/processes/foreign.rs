//! A route that is somebody else's shared object.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kit::{echo, exchange, spawn, temp_dir, Child, Node};
use crate::{there, ECHO};

/// A folder of this user's alone, until it is dropped: what is in it is loaded, as root perhaps.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = temp_dir().join(format!("dp-node-route-{}", std::process::id()));
        // One of a test that was killed. Somebody else's stays, and then there is none.
        let _ = fs::remove_dir_all(&path);
        fs::DirBuilder::new().mode(0o700).create(&path).expect("a new folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The example, built as its first lines say.
fn build(folder: &Folder) -> PathBuf {
    let route = Path::new(env!("CARGO_MANIFEST_DIR")).join("../route");
    let out = folder.0.join("route_unix.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-I"]).arg(route.join("include")).arg("-o").arg(&out);
    compiler.arg(route.join("examples/route_unix.c")).stdin(Stdio::null());
    let done = spawn(&mut compiler).expect("cc, of Debian's gcc").wait().expect("its end");
    assert!(done.success());
    // One that others may write is not loaded.
    fs::set_permissions(&out, fs::Permissions::from_mode(0o755)).expect("its owner");
    out
}

#[test]
fn gateways_reach_each_other_by_the_example_of_a_foreign_route() {
    let folder = Folder::new();
    let library = build(&folder);
    let node = |nid: u16| {
        format!("[[node]]\nnid = {nid}\nroutes = [\"unix:dp-node-{}-{nid}\"]\n", std::process::id())
    };
    let graph = format!("[route.unix]\nsecurity = \"none\"\n{}{}", node(1), node(2));
    let [one, two] = [1, 2].map(|nid| Node::new(nid, &graph, None));
    let said = one.try_gateway();
    assert!(said.iter().any(|text| text.contains("use --route FILE")), "{said:?}");
    let [one, two] = [one, two].map(|node| node.with_library(&library));
    let gateways = [one.gateway(), two.gateway()];
    let answers = two.run(|| echo(ECHO));
    one.run(|| exchange(there(2), 100)).ok();
    let status = one.status().expect("it runs");
    assert!(status.nodes[0].by.as_ref().is_some_and(|by| by.starts_with("unix:")), "{status:?}");
    answers.kill();
    gateways.into_iter().for_each(Child::kill);
}
