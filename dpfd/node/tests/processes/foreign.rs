//! A route that is somebody else's shared object.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kit::{echo, exchange, spawn, temp_dir, Child, Node};
use crate::{there, ECHO};

/// The example, built as its first lines say.
fn build() -> PathBuf {
    let route = Path::new(env!("CARGO_MANIFEST_DIR")).join("../route");
    let out = temp_dir().join(format!("dp-node-route-{}.so", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-I"]).arg(route.join("include")).arg("-o").arg(&out);
    compiler.arg(route.join("examples/route_unix.c")).stdin(Stdio::null());
    let done = spawn(&mut compiler).expect("cc, of Debian's gcc").wait().expect("its end");
    assert!(done.success());
    // One that others may write is not loaded.
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o755)).expect("its owner");
    out
}

#[test]
fn gateways_reach_each_other_by_the_example_of_a_foreign_route() {
    let library = build();
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
    std::fs::remove_file(library).expect("what was built");
}
