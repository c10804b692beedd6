//! `make install`: what it puts where, that it can be used from there, and that `make uninstall` takes it away.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use compat_tests::tools::needed;

use crate::kit::{package, release, root, run, Place};

fn make(target: &str, variables: &[String]) -> Command {
    let there = release().join("dp").exists();
    assert!(there, "{} has no dp: run make build", release().display());
    let mut make = Command::new(needed("make", "make"));
    make.args(["-s", "-C"]).arg(root()).arg(target).args(variables).env_remove("MAKEFLAGS");
    make
}

/// The crates that the lock file gives these programs are told of, each with a text, and ours are not.
#[test]
fn notices_name_what_is_linked_in() {
    let notices = fs::read_to_string(release().join("THIRD-PARTY")).expect("THIRD-PARTY: run make build");
    let (names, texts) = notices.split_once("\n====").expect("texts below names");
    let names: Vec<_> =
        names.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
    for name in &names {
        assert!(texts.matches(name).count() > 0, "{name} has no text");
    }
    let has = |name: &str| names.iter().any(|other| other.split(' ').next() == Some(name));
    for linked in ["libc", "redhook", "clap", "ring", "snow", "toml", "rust-std"] {
        assert!(has(linked), "no {linked} in {names:?}");
    }
    // Ours, of tests, and macros, which are not linked in.
    for other in ["dpfd", "dp-edge", "proptest", "loom", "serde_derive"] {
        assert!(!has(other), "{other} in {names:?}");
    }
    assert!(texts.contains("SIL OPEN FONT LICENSE"), "the letters in pictures");
}

/// The bill of materials is compared with cargo's tree, the lock file, and the crates that the programs themselves name. What is not
/// so is told.
#[test]
fn the_bill_of_materials_has_what_is_linked_in() {
    let place = Place::new();
    let check = |file: &Path| {
        let mut check = Command::new(needed("python3", "python3"));
        check.arg(root().join("packaging/sbom")).arg("--check").arg(file);
        check.args(["dp", "libdp_preload.so", "libdp.so"].map(|name| release().join(name)));
        let out = check.output().expect("python3");
        (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
    };
    let bom = release().join("directed-point.cdx.json");
    let (sound, said) = check(&bom);
    assert!(sound, "{said}");
    let told: serde_json::Value =
        serde_json::from_slice(&fs::read(bom).expect("run make build")).expect("JSON");
    let wrong = |name: &str, change: &dyn Fn(&mut serde_json::Value), words: &str| {
        let mut told = told.clone();
        let components = told["components"].as_array_mut().expect("a list");
        let at = components.iter().position(|c| c["name"] == name).expect("the crate");
        change(&mut components[at]);
        let file = place.path().join("wrong.json");
        fs::write(&file, told.to_string()).expect("a file");
        let (sound, said) = check(&file);
        assert!(!sound && said.contains(words), "{words}: {said}");
    };
    wrong("ring", &|c| c["scope"] = "excluded".into(), " is linked into dp-cli, which does not lead to it");
    wrong("clap_builder", &|c| c["version"] = "0.0.0".into(), "clap_builder");
    wrong("libc", &|c| c["hashes"][0]["content"] = "00".into(), "has not the digest of Cargo.lock");
    wrong("snow", &|c| c["licenses"] = serde_json::Value::Null, "has no licence");
    wrong("toml", &|c| c["bom-ref"] = "another".into(), "is no component's reference");
}

/// All but folders.
fn files(below: &Path) -> Vec<String> {
    let out = run(Command::new(needed("find", "findutils"))
        .arg(below)
        .args(["-not", "-type", "d", "-printf", "%P\\n"]));
    String::from_utf8(out.stdout).expect("our names").lines().map(String::from).collect()
}

fn sections(file: PathBuf) -> String {
    let out: Output = run(Command::new(needed("readelf", "binutils")).arg("-SW").arg(file));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The shim that an installed `dp` finds.
fn shim_of(dp: &Path) -> PathBuf {
    let mut command = Command::new(dp);
    command
        .args(["run", "--", "/bin/sh", "-c", "echo $LD_PRELOAD"])
        .env_remove("DP_SHIM")
        .env_remove("LD_PRELOAD");
    PathBuf::from(String::from_utf8(run(&mut command).stdout).expect("a path").trim())
}

/// Installs below a folder, and compiles with what pkg-config says.
#[test]
fn what_is_installed_can_be_compiled_with_and_goes_away() {
    let place = Place::new();
    let dest = place.path().join("dest");
    let variables = ["PREFIX=/opt/dp".to_string(), format!("DESTDIR={}", dest.display())];
    run(&mut make("install", &variables));
    let prefix = dest.join("opt/dp");
    let pc = fs::read_to_string(prefix.join("lib/pkgconfig/dp.pc")).expect("dp.pc");
    assert!(pc.starts_with("prefix=/opt/dp\nlibdir=${prefix}/lib\n") && !pc.contains('@'), "{pc}");
    for file in [
        "share/man/man1/dp-completions.1",
        "share/man/man3/dp_open.3",
        "share/doc/directed-point/LICENSE-MIT",
        "share/doc/directed-point/LICENSE-APACHE",
        "share/doc/directed-point/THIRD-PARTY",
        "share/doc/directed-point/directed-point.cdx.json",
        "share/dp/prometheus/directed-point.rules.yml",
        "share/doc/directed-point/dp-preload.conf",
        "include/dp_route.h",
        "share/bash-completion/completions/dp",
        "share/zsh/site-functions/_dp",
        "share/fish/vendor_completions.d/dp.fish",
    ] {
        assert!(fs::metadata(prefix.join(file)).is_ok_and(|file| file.len() > 0), "no {file}");
    }
    for (name, start) in
        [("dp-node", "/opt/dp/bin/dp node"), ("dp-metrics", "/opt/dp/bin/dp metrics --listen 127.0.0.1:9780")]
    {
        let unit = prefix.join(format!("lib/systemd/system/{name}.service"));
        let unit = fs::read_to_string(unit).expect("the unit");
        assert!(unit.lines().any(|line| line.strip_prefix("ExecStart=") == Some(start)), "{unit}");
    }
    let pages: Vec<_> = files(&prefix.join("share/man"));
    assert_eq!(pages.len(), files(&root().join("man")).len(), "{pages:?}");

    for wholly_static in [false, true] {
        let mut flags = Command::new(needed("pkg-config", "pkg-config"));
        flags.args(["--cflags", "--libs"]).args(wholly_static.then_some("--static")).arg("dp");
        flags.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).env("PKG_CONFIG_SYSROOT_DIR", &dest);
        let flags = String::from_utf8(run(&mut flags).stdout).expect("options");
        let program = place.path().join("installed");
        let mut cc = Command::new(needed("cc", "gcc"));
        cc.arg("-D_DEFAULT_SOURCE").arg("-o").arg(&program).arg(package("tests/c/talk.c"));
        cc.args(wholly_static.then_some("-static")).args(flags.split_whitespace());
        run(&mut cc);
        let mut command = place.command(&program);
        command.env("LD_LIBRARY_PATH", prefix.join("lib")); // finds libdp.so.1
        place.passes(command);
    }

    run(&mut make("uninstall", &variables));
    assert_eq!(files(&dest), [""; 0]);
    assert!(!prefix.join("lib/dp").exists() && !prefix.join("share/doc/directed-point").exists());
}

#[test]
fn symbols_stay_only_where_that_is_asked_for() {
    for (more, left) in [(None, false), (Some("STRIP="), true)] {
        let place = Place::new();
        let mut variables = vec![format!("DESTDIR={}", place.path().display())];
        variables.extend(more.map(String::from));
        run(&mut make("install", &variables));
        let prefix = place.path().join("usr/local");
        for file in ["bin/dp", "lib/dp/libdp_preload.so", "lib/libdp.so.1"] {
            let sections = sections(prefix.join(file));
            assert_eq!(sections.contains(" .symtab "), left, "{file}: {sections}");
            assert_eq!(sections.contains(" .debug_line "), left, "{file}: {sections}");
        }
        assert!(files(&prefix).iter().all(|name| !name.ends_with(".new")));
    }
}

/// Programs that have the former library mapped keep it.
#[test]
fn what_is_installed_anew_is_another_file_and_the_former_one_stays_as_it_was() {
    let place = Place::new();
    let variables = vec![format!("DESTDIR={}", place.path().display())];
    run(&mut make("install", &variables));
    let prefix = place.path().join("usr/local");
    let names = ["bin/dp", "lib/dp/libdp_preload.so", "lib/libdp.so.1"].map(|name| prefix.join(name));
    let former = names.each_ref().map(|name| fs::File::open(name).expect("what was installed"));
    let before = former.each_ref().map(|file| file.metadata().expect("its size").len());
    run(&mut make("install", &variables));
    for ((name, file), length) in names.iter().zip(&former).zip(before) {
        let now = file.metadata().expect("its links");
        assert_eq!((now.nlink(), now.len()), (0, length), "{}", name.display());
        assert_ne!(fs::metadata(name).expect("what is installed now").ino(), now.ino(), "{}", name.display());
    }
}

#[test]
fn folders_have_the_usual_names_and_dp_finds_its_shim_in_them() {
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    for lib in ["lib", "lib64", &multiarch] {
        let place = Place::new();
        let mut variables = vec![format!("DESTDIR={}", place.path().display()), "prefix=/usr".to_string()];
        variables.extend([format!("libdir=/usr/{lib}"), "mandir=/usr/man".into(), "docdir=/usr/doc".into()]);
        run(&mut make("install", &variables));
        let usr = place.path().join("usr");
        let shim = usr.join(lib).join("dp/libdp_preload.so").canonicalize().expect("the shim");
        assert_eq!(shim_of(&usr.join("bin/dp")), shim);
        assert!(usr.join("man/man1/dp.1").exists() && usr.join("doc/LICENSE-MIT").exists());
        let pc = fs::read_to_string(usr.join(lib).join("pkgconfig/dp.pc")).expect("dp.pc");
        assert!(pc.contains(&format!("\nlibdir=${{prefix}}/{lib}\n")), "{pc}");
        run(&mut make("uninstall", &variables));
        assert_eq!(files(place.path()), [""; 0]);
    }
}

#[test]
fn a_folder_where_dp_would_not_look_is_refused() {
    let place = Place::new();
    let variables = [format!("DESTDIR={}", place.path().display()), "libdir=/srv/nobody/looks/here".into()];
    let out = make("install", &variables).output().expect("make");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        !out.status.success() && said.contains("run make build libdir=/srv/nobody/looks/here first"),
        "{said}"
    );
    assert_eq!(files(place.path()), [""; 0]);
}

/// With an ldconfig that knows this prefix's folder, or does not, and writes down that it was called.
#[test]
fn the_loader_is_told_where_it_looks_and_nothing_is_packaged() {
    let superuser =
        String::from_utf8(run(Command::new("id").arg("-u")).stdout).expect("a number").trim() == "0";
    // What the loader knows, whether a package is made, how often it is told.
    for (known, packaged, told) in [(true, false, 2), (false, false, 0), (true, true, 0)] {
        let place = Place::new();
        let (prefix, calls, stub) =
            (place.path().join("usr"), place.path().join("calls"), place.path().join("stub"));
        let below = if packaged { place.path().to_owned() } else { PathBuf::new() };
        let knows = if known { prefix.join("lib") } else { PathBuf::from("/lib") };
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *-v*) echo '{}: (from /etc/ld.so.conf:1)';; *) echo told >>'{}';; esac\n",
            knows.display(),
            calls.display()
        );
        fs::write(&stub, script).expect("our folder");
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).expect("our file");
        let mut variables =
            vec![format!("prefix={}", prefix.display()), format!("LDCONFIG={}", stub.display())];
        variables.push(format!("DESTDIR={}", below.display()));
        run(&mut make("install", &variables));
        run(&mut make("uninstall", &variables));
        let lines = fs::read_to_string(&calls).unwrap_or_default().lines().count();
        assert_eq!(lines, if superuser { told } else { 0 }, "known {known}, packaged {packaged}");
    }
}
