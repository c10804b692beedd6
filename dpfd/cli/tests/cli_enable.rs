//! `dp enable`, `dp disable` and `dp status` in the tree of an image.

mod kit;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use kit::Folder;

/// A tree with a shim and units.
struct Tree(Folder);

const NGINX: &str = "usr/lib/systemd/system/nginx.service";
const OURS: &str = "etc/systemd/system/nginx.service.d/50-directed-point.conf";

impl Tree {
    fn new(name: &str) -> Tree {
        let tree = Tree(Folder::new(name));
        tree.put("usr/lib/dp/libdp_preload.so", "");
        tree.put(NGINX, "[Service]\nExecStart=/usr/sbin/nginx\nRestrictAddressFamilies=AF_INET AF_INET6\n");
        tree
    }

    fn put(&self, path: &str, text: &str) {
        let file = self.0.path.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.path.join(path)).unwrap()
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        command.args(words).arg("--root").arg(&self.0.path).env_remove("DP_SHIM").output().unwrap()
    }

    /// With that exit status; both of what it says.
    fn said(&self, words: &[&str], code: i32) -> String {
        let out = self.run(words);
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{words:?}: {said}");
        said.into_owned()
    }

    /// Every path in it.
    fn listed(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.0.path.clone()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
                found.push(entry.path());
            }
        }
        found.sort();
        found
    }
}

#[test]
fn a_service_is_enabled_told_of_and_disabled_without_a_trace() {
    let tree = Tree::new("whole");
    fs::create_dir_all(tree.0.path.join("etc/systemd/system")).unwrap();
    let before = tree.listed();
    assert!(tree.said(&["enable", "nginx"], 0).contains("opened: RestrictAddressFamilies=AF_NETLINK"));
    let text = tree.text(OURS);
    assert!(text.contains("\nEnvironment=\"LD_PRELOAD=/usr/lib/dp/libdp_preload.so\"\n"), "{text}");
    assert!(text.contains("\nRestrictAddressFamilies=AF_UNIX\n"), "{text}");
    assert!(tree.said(&["enable", "nginx.service"], 0).contains("enabled already"));
    let told = tree.said(&["status"], 0);
    assert!(told.starts_with("nginx.service\n  drop-in     current ("), "{told}");
    let json = tree.said(&["status", "nginx", "--json"], 0);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let unit = &json["units"][0];
    assert_eq!((&json["version"], &unit["drop_in"]["state"]), (&1.into(), &"current".into()), "{json}");
    tree.said(&["disable", "nginx"], 0);
    assert_eq!(tree.listed(), before);
    assert!(tree.said(&["disable", "nginx"], 0).contains("is not enabled"));
    assert!(tree.said(&["status", "nginx"], 3).contains("none: dp enable nginx.service"));
    assert!(tree.said(&["status"], 0).contains("no service is enabled"));
}

/// `grep -q` and `head` read the first line, and leave.
#[test]
fn who_reads_no_further_does_not_stop_it_half_way() {
    let tree = Tree::new("unread");
    tree.put("usr/lib/systemd/system/other.service", "[Service]\nExecStart=/usr/sbin/other\n");
    let others = "etc/systemd/system/other.service.d/50-directed-point.conf";
    let unread = |words: &[&str]| {
        let (read, write) = nix::unistd::pipe().unwrap();
        drop(read);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        command.args(words).arg("--root").arg(&tree.0.path).env_remove("DP_SHIM");
        let status = command.stdout(write.try_clone().unwrap()).stderr(write).status().unwrap();
        assert_eq!(status.code(), Some(0), "{words:?}");
    };
    unread(&["enable", "nginx", "other"]);
    assert!([OURS, others].iter().all(|file| tree.0.path.join(file).exists()), "both or none");
    unread(&["disable", "nginx", "other"]);
    assert!(![OURS, others].iter().any(|file| tree.0.path.join(file).exists()), "both or none");
    // What is done is done, and that it could not be told is told.
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["enable", "nginx", "other", "--root"]).arg(&tree.0.path).env_remove("DP_SHIM");
    let out = command.stdout(full()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let out = out.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("standard output: No space left"), "{said}");
    assert!([OURS, others].iter().all(|file| tree.0.path.join(file).exists()), "both or none");
}

/// A path that systemd reads otherwise than the loader cannot stand in Environment=.
#[test]
fn a_shim_whose_path_systemd_would_change_is_refused() {
    let tree = Tree::new("specifier");
    tree.put("opt/a%b/libdp_preload.so", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["enable", "nginx", "--root"]).arg(&tree.0.path).env("DP_SHIM", "/opt/a%b/libdp_preload.so");
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(1) && said.contains("/opt/a%b/libdp_preload.so: systemd reads %"),
        "{said}"
    );
    assert!(!tree.0.path.join(OURS).exists());
}

/// The starter's rights count, not those of whoever enables it.
#[test]
fn a_setuid_program_of_a_service_with_a_user_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new("setuid");
    let program = tree.0.path.join("usr/sbin/nginx");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    tree.said(&["enable", "nginx", "--dry-run"], if nix::unistd::geteuid().is_root() { 0 } else { 1 });
    tree.put(NGINX, "[Service]\nUser=www-data\nExecStart=/usr/sbin/nginx\n");
    assert!(tree.said(&["enable", "nginx"], 1).contains("is setuid"));
}

#[test]
fn a_dry_run_prints_the_drop_in_and_writes_nothing() {
    let tree = Tree::new("dry");
    let before = tree.listed();
    let said = tree.said(&["enable", "nginx", "--dry-run"], 0);
    assert!(said.contains(OURS) && said.contains("LD_PRELOAD="), "{said}");
    assert_eq!(tree.listed(), before);
}

#[test]
fn a_unit_that_changed_since_or_was_enabled_by_another_version_is_outdated() {
    let tree = Tree::new("outdated");
    tree.said(&["enable", "nginx"], 0);
    tree.put(NGINX, "[Service]\nExecStart=/usr/sbin/nginx\n");
    assert!(tree.said(&["status"], 3).contains("not what is needed now"));
    tree.said(&["enable", "nginx"], 0);
    tree.said(&["status"], 0);
    let older = tree.text(OURS).replacen(env!("CARGO_PKG_VERSION"), "0.0.7", 1);
    tree.put(OURS, &older);
    assert!(tree.said(&["status"], 3).contains("of 0.0.7"));
    // The unit is gone, and so is the drop-in.
    fs::remove_file(tree.0.path.join(NGINX)).unwrap();
    assert!(tree.said(&["status"], 3).contains("no such unit"));
    tree.said(&["disable", "nginx"], 0);
    assert!(!tree.0.path.join(OURS).exists());
}

#[test]
fn what_others_wrote_stays() {
    let tree = Tree::new("others");
    tree.put("etc/systemd/system/nginx.service.d/10-limits.conf", "[Service]\nLimitNOFILE=9999\n");
    tree.said(&["enable", "nginx"], 0);
    tree.said(&["disable", "nginx"], 0);
    assert!(tree.0.path.join("etc/systemd/system/nginx.service.d/10-limits.conf").exists());
    tree.put(OURS, "[Service]\n");
    for verb in ["enable", "disable"] {
        assert!(tree.said(&[verb, "nginx"], 1).contains("not one that dp made"));
    }
    assert_eq!(tree.text(OURS), "[Service]\n");
    assert!(tree.said(&["status"], 3).contains("not one that dp made"));
}

#[test]
fn one_that_cannot_be_enabled_keeps_all_as_they_are() {
    let tree = Tree::new("none");
    tree.put(
        "usr/lib/systemd/system/bad.service",
        "[Service]\nUnsetEnvironment=LD_PRELOAD\nPassEnvironment=LD_PRELOAD\n",
    );
    let said = tree.said(&["enable", "nginx", "bad"], 1);
    assert!(
        said.contains("bad.service: UnsetEnvironment=") && said.contains("nothing was changed"),
        "{said}"
    );
    assert!(!tree.0.path.join(OURS).exists());
}

/// What is taken away before the shim itself is: the loader looks in vain for one that is gone, at each start.
#[test]
fn all_are_disabled_and_what_others_wrote_stays() {
    let tree = Tree::new("all");
    tree.put("usr/lib/systemd/system/redis.service", "[Service]\nExecStart=/usr/bin/redis-server\n");
    fs::create_dir_all(tree.0.path.join("etc/systemd/system")).unwrap();
    let before = tree.listed();
    assert!(tree.said(&["disable", "--all"], 0).contains("no service is enabled"));
    tree.said(&["enable", "nginx", "redis"], 0);
    // One that outlived its unit.
    fs::remove_file(tree.0.path.join(NGINX)).unwrap();
    let said = tree.said(&["disable", "--all"], 0);
    assert_eq!(said.matches(" removed\n").count(), 2, "{said}");
    tree.put(NGINX, "");
    assert_eq!(tree.listed(), before);
    let foreign = "etc/systemd/system/other.service.d/50-directed-point.conf";
    tree.put(foreign, "[Service]\n");
    tree.said(&["enable", "redis"], 0);
    let said = tree.said(&["disable", "--all"], 0);
    assert!(said.contains("other.service: note: ") && said.contains("not one that dp made"), "{said}");
    assert_eq!(tree.text(foreign), "[Service]\n");
    assert!(!tree.0.path.join("etc/systemd/system/redis.service.d").exists());
}

/// It was disabled before without `--now`, and what runs of it has the shim still.
#[test]
fn a_service_that_is_not_enabled_is_restarted_where_that_is_asked() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("restarted");
    let units = folder.path.join("systemd/user");
    fs::create_dir_all(&units).unwrap();
    fs::write(units.join("player.service"), "[Service]\nExecStart=/usr/bin/player\n").unwrap();
    // It takes the place of systemd's, where one runs.
    let asked = folder.path.join("asked");
    let systemctl = folder.file("systemctl", "#!/bin/sh\necho \"$@\" >>\"$ASKED\"\n");
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
    let disable = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        command.args(["disable", "--user-manager", "player"]).args(options);
        command.env("XDG_CONFIG_HOME", &folder.path).env("ASKED", &asked);
        let path = std::env::var("PATH").unwrap();
        let out = command.env("PATH", format!("{}:{path}", folder.path.display())).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        (out.status.code(), said.into_owned())
    };
    let restarted =
        || fs::read_to_string(&asked).unwrap_or_default().contains("--user try-restart player.service");
    let (code, said) = disable(&[]);
    assert!(code == Some(0) && said.contains("is not enabled") && !restarted(), "{said}");
    let (code, said) = disable(&["--now"]);
    if std::path::Path::new("/run/systemd/system").is_dir() {
        assert!(code == Some(0) && restarted(), "{said}");
    } else {
        assert!(code == Some(1) && said.contains("so nothing was restarted"), "{said}");
    }
}

#[test]
fn a_foreign_file_of_one_unit_keeps_the_others_as_they_are() {
    let tree = Tree::new("foreign");
    tree.put("usr/lib/systemd/system/redis.service", "[Service]\nExecStart=/usr/bin/redis-server\n");
    tree.put("etc/systemd/system/redis.service.d/50-directed-point.conf", "[Service]\n");
    let said = tree.said(&["enable", "nginx", "redis"], 1);
    assert!(said.contains("not one that dp made") && said.contains("nothing was changed"), "{said}");
    assert!(!tree.0.path.join(OURS).exists());
    tree.said(&["enable", "nginx", "redis", "--dry-run"], 1);
    tree.said(&["enable", "nginx"], 0);
    assert!(tree.said(&["disable", "nginx", "redis"], 1).contains("nothing was changed"));
    assert!(tree.0.path.join(OURS).exists());
}

#[test]
fn what_was_written_is_taken_back_when_a_later_unit_fails() {
    let tree = Tree::new("back");
    tree.put(NGINX, "[Service]\nExecStart=/usr/sbin/nginx\n");
    // Its drop-in is longer than the files that may be written.
    let preload = format!("[Service]\nExecStart=/bin/big\nEnvironment=LD_PRELOAD=/{}.so\n", "a".repeat(4000));
    tree.put("usr/lib/systemd/system/big.service", &preload);
    let enable = || {
        let limited = "trap '' XFSZ; ulimit -f 1; exec \"$0\" enable nginx big --root \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, env!("CARGO_BIN_EXE_dp")]).arg(&tree.0.path).env_remove("DP_SHIM");
        let out = command.output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("is as it was") && said.contains("nothing was changed"), "{said}");
    };
    fs::create_dir_all(tree.0.path.join("etc/systemd/system")).unwrap();
    let before = tree.listed();
    enable();
    assert_eq!(tree.listed(), before);
    // One that was there before is there again.
    tree.said(&["enable", "nginx"], 0);
    let older = tree.text(OURS).replacen(env!("CARGO_PKG_VERSION"), "0.0.7", 1);
    tree.put(OURS, &older);
    enable();
    assert_eq!(tree.text(OURS), older);
}

#[test]
fn links_of_the_tree_mean_places_in_the_tree() {
    use std::os::unix::fs::symlink;
    let tree = Tree::new("links");
    // Outside of it, where the links would lead if they were followed from here.
    let outside = Tree::new("links-outside");
    let before = outside.listed();
    fs::create_dir_all(tree.0.path.join("etc/systemd")).unwrap();
    symlink(&outside.0.path, tree.0.path.join("etc/systemd/system")).unwrap();
    tree.said(&["enable", "nginx"], 0);
    assert_eq!(outside.listed(), before);
    let inside = tree.0.path.join(outside.0.path.strip_prefix("/").unwrap());
    assert!(inside.join("nginx.service.d/50-directed-point.conf").exists());
    assert!(tree.said(&["status"], 0).contains("current"));
    tree.said(&["disable", "nginx"], 0);
    fs::remove_file(tree.0.path.join("etc/systemd/system")).unwrap();
    // The same of the unit's own folder, and of files that are read.
    outside.put("hidden/override.conf", "[Service]\nSystemCallFilter=read\n");
    outside.put("environment", "LD_PRELOAD=/other.so\n");
    let before = outside.listed();
    fs::create_dir_all(tree.0.path.join("etc/systemd/system")).unwrap();
    symlink(outside.0.path.join("hidden"), tree.0.path.join("etc/systemd/system/nginx.service.d")).unwrap();
    symlink(outside.0.path.join("environment"), tree.0.path.join("etc/environment")).unwrap();
    tree.put(NGINX, "[Service]\nExecStart=/usr/sbin/nginx\nEnvironmentFile=/etc/environment\n");
    tree.said(&["enable", "nginx"], 0);
    assert!(inside.join("hidden/50-directed-point.conf").exists());
    assert_eq!(outside.listed(), before);
}

#[test]
fn units_of_users_have_folders_of_their_own() {
    let tree = Tree::new("users");
    tree.put("usr/lib/systemd/user/player.service", "[Service]\nExecStart=/usr/bin/player\n");
    tree.said(&["enable", "player", "--user-manager"], 0);
    assert!(tree.text("etc/systemd/user/player.service.d/50-directed-point.conf").contains("--user-manager"));
    tree.said(&["enable", "player"], 1);
    tree.said(&["disable", "player", "--user-manager"], 0);
    assert!(!tree.0.path.join("etc/systemd/user/player.service.d").exists());
}

#[test]
fn wrong_inputs_are_told() {
    let tree = Tree::new("wrong");
    tree.put("usr/lib/systemd/system/empty.service", "");
    tree.put("usr/lib/systemd/system/file.service", "[Service]\nEnvironmentFile=-/etc/default/file\n");
    tree.put("etc/default/file", "LD_PRELOAD=/a.so\n");
    tree.put("usr/lib/systemd/system/quote.service", "[Service]\nEnvironment=\"LD_PRELOAD=/a.so\n");
    for (words, code, word) in [
        (&["enable"][..], 2, "UNIT"),
        (&["disable"], 2, "UNIT"),
        (&["enable", ""], 2, "name of a unit"),
        (&["enable", "a/b"], 2, "name of a unit"),
        (&["enable", "../nginx"], 2, "name of a unit"),
        (&["enable", "nginx*"], 2, "name of a unit"),
        (&["enable", "nginx.socket"], 2, "name the service"),
        (&["disable", "a.timer"], 2, "name the service"),
        (&["status", "a b"], 2, "name of a unit"),
        (&["status", "nginx", "redis"], 2, "redis"),
        (&["enable", "nginx", "--now"], 2, "--now"),
        (&["disable", "nginx", "--now"], 2, "--now"),
        (&["enable", "nginx", "--jsn"], 2, "--jsn"),
        (&["enable", "nginx", "--user"], 2, "--user-manager"),
        (&["disable", "nginx", "--dry-run"], 2, "--dry-run"),
        (&["disable", "nginx", "--all"], 2, "--all"),
        (&["enable", "no-such"], 1, "no such unit"),
        (&["disable", "no-such"], 1, "no-such.service: there is no such unit"),
        (&["disable", "nginx", "no-such@1"], 1, "nothing was changed"),
        (&["disable", "empty"], 0, "is not enabled"),
        (&["enable", "empty"], 1, "masked"),
        (&["enable", "file"], 1, "etc/default/file sets LD_PRELOAD"),
        (&["enable", "quote"], 1, "a quote is not closed"),
        (&["enable", "nginx", "--user-manager"], 1, "no such unit of users"),
        (&["status", "no-such"], 3, "none"),
    ] {
        let said = tree.said(words, code);
        assert!(said.contains(word), "{words:?}: {said}");
    }
    fs::remove_file(tree.0.path.join("usr/lib/dp/libdp_preload.so")).unwrap();
    assert!(tree.said(&["enable", "nginx"], 1).contains("not found in the image"));
    let gone = Command::new(env!("CARGO_BIN_EXE_dp"))
        .args(["enable", "nginx", "--root", "/no/such"])
        .output()
        .unwrap();
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("/no/such: no such folder"));
}
