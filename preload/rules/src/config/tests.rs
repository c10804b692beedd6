use std::fs;
use std::os::unix::fs::{chown, symlink, MetadataExt, PermissionsExt};

use super::*;

/// A folder of this test's own that goes away with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("dp-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a file that everybody may read and only the owner write.
    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// Searches with these variables set and `etc.conf` of this folder as the system file: the rules, and where they were.
    fn find(&self, env: &[(&str, &OsStr)]) -> Result<(String, Source), ConfigError> {
        self.find_again(env).map(|(rules, found)| (rules.to_string(), found.source))
    }

    fn find_again(&self, env: &[(&str, &OsStr)]) -> Result<(Rules, Found), ConfigError> {
        let get = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        let mut rules = Rules::DEFAULT;
        let found = find(get, self.0.join("etc.conf").to_str().unwrap(), me(), &mut rules)?;
        Ok((rules, found))
    }

    fn error(&self, path: &Path) -> String {
        self.find(&[("DP_CONFIG", path.as_os_str())]).unwrap_err().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn me() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[test]
fn the_first_place_with_rules_counts_alone() {
    let dir = Folder::new("order");
    let home = dir.0.join("home");
    let xdg = dir.0.join("xdg");
    let named = dir.file("named.conf", "channel any *:1");
    let user = dir.file("xdg/dp/dp-preload.conf", "channel any *:2");
    let dot = dir.file("home/.config/dp/dp-preload.conf", "channel any *:3");
    let system = dir.file("etc.conf", "channel any *:4");
    let mut env: Vec<(&str, &OsStr)> = vec![
        ("DP_RULES", OsStr::new("channel any *:9")),
        ("DP_CONFIG", named.as_os_str()),
        ("XDG_CONFIG_HOME", xdg.as_os_str()),
        ("HOME", home.as_os_str()),
    ];
    let places = [
        (Source::Environment, "channel any *:9"),
        (Source::Files(vec![named.clone()]), "channel any *:1"),
        (Source::Files(vec![user]), "channel any *:2"),
        (Source::Files(vec![dot]), "channel any *:3"),
        (Source::Files(vec![system.clone()]), "channel any *:4"),
    ];
    for (source, text) in places {
        assert_eq!(dir.find(&env).unwrap(), (text.to_string(), source));
        if !env.is_empty() {
            env.remove(0);
        }
    }
    fs::remove_file(system).unwrap();
    assert_eq!(dir.find(&[]).unwrap(), (Rules::DEFAULT.to_string(), Source::Default));
}

#[test]
fn empty_variables_and_a_relative_xdg_folder_count_as_unset() {
    let dir = Folder::new("empty");
    let env = [("DP_RULES", ""), ("DP_CONFIG", ""), ("XDG_CONFIG_HOME", "etc"), ("HOME", "")];
    assert_eq!(dir.find(&env.map(|(n, v)| (n, OsStr::new(v)))).unwrap().1, Source::Default);
}

#[test]
fn a_named_file_must_exist_and_be_absolute() {
    let dir = Folder::new("named");
    assert!(dir
        .error(&dir.0.join("none"))
        .ends_with("none: no such file; create it, or name another (DP_CONFIG)"));
    assert!(dir.error(Path::new("my.conf")).contains("DP_CONFIG=my.conf: not an absolute path"));
}

#[test]
fn files_open_to_others_are_refused() {
    let dir = Folder::new("mode");
    let path = dir.file("open.conf", "tcp any *");
    for mode in [0o664, 0o646, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(dir.error(&path).contains("chmod go-w"), "{mode:o}");
    }
}

/// What a search of the user's says of the file that is named.
fn read_as(path: &Path, user: u32) -> Result<Found, ConfigError> {
    let env = |name: &str| (name == "DP_CONFIG").then(|| path.as_os_str().to_owned());
    find(env, "/nowhere", user, &mut Rules::default())
}

#[test]
fn files_of_strangers_are_refused() {
    let dir = Folder::new("owner");
    let path = dir.file("theirs.conf", "tcp any *");
    let owned_by = |owner: u32, user| {
        let meta = fs::metadata(&path).unwrap();
        if meta.uid() != owner && chown(&path, Some(owner), None).is_err() {
            return None; // Giving files away is for root alone.
        }
        Some(read_as(&path, user))
    };
    assert!(matches!(owned_by(me(), me()), Some(Ok(_))));
    if me() != 0 {
        assert!(
            matches!(owned_by(me(), me() + 1), Some(Err(ConfigError::At(_, trouble))) if matches!(*trouble, Trouble::Owner { .. }))
        );
    }
    if let Some(result) = owned_by(4242, 4243) {
        assert!(result
            .unwrap_err()
            .to_string()
            .contains("belongs to user 4242; only what is root's or of user 4243"));
    }
    if let Some(result) = owned_by(0, 4243) {
        assert!(result.is_ok());
    }
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let dir = Folder::new("kind");
    let pipe = dir.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert!(dir.error(&pipe).contains("not a regular file"));
    assert!(dir.error(&dir.0).contains("not a regular file"));
    assert!(dir.error(Path::new("/dev/zero")).contains("not a regular file"));
    let circle = dir.0.join("circle");
    symlink(&circle, &circle).unwrap();
    assert!(dir.error(&circle).contains("make it readable, or remove it"));
}

#[test]
fn bad_contents_name_the_place_and_the_line() {
    let dir = Folder::new("contents");
    let path = dir.file("bad.conf", "# one\n\nchannel any *\nchannel some *\n");
    let expected = format!("{}:4:9: some is not a direction", path.display());
    assert!(dir.error(&path).starts_with(&expected), "{}", dir.error(&path));
    let path = dir.file("latin.conf", b"# caf\xe9");
    assert!(dir.error(&path).contains("latin.conf: not UTF-8 text"));
    let path = dir.file("long.conf", vec![b'#'; MAX_LEN + 1]);
    assert!(dir.error(&path).contains("long.conf: longer than 65536 bytes"));
    let raw = OsString::from_vec(vec![0xff]);
    assert!(matches!(
        dir.find(&[("DP_RULES", &raw)]),
        Err(ConfigError::At(Where::Environment, trouble)) if *trouble == Trouble::NotText
    ));
    let error = dir.find(&[("DP_RULES", OsStr::new("tcp"))]).unwrap_err().to_string();
    assert!(error.starts_with("DP_RULES:1:4: the direction is missing"), "{error}");
}

#[test]
fn a_home_that_may_not_be_entered_counts_as_empty() {
    // Root may enter everything; only others can show this.
    let dir = Folder::new("closed");
    let path = dir.file("home/.config/dp/dp-preload.conf", "tcp any *");
    let home = dir.0.join("home");
    let close = |mode| fs::set_permissions(&home, fs::Permissions::from_mode(mode)).unwrap();
    close(0o000);
    let expected = if me() == 0 { Source::Files(vec![path.clone()]) } else { Source::Default };
    assert_eq!(dir.find(&[("HOME", home.as_os_str())]).unwrap().1, expected);
    if me() != 0 {
        assert!(dir.error(&path).contains("make it readable, or remove it"), "a named file must be readable");
    }
    close(0o700);
}

#[test]
fn the_systems_folder_stands_before_its_file_in_the_order_of_names() {
    let dir = Folder::new("drop-ins");
    let system = dir.file("etc.conf", "channel any *:9");
    let third = dir.file("etc.conf.d/b.conf", "tcp any *:3");
    let first = dir.file("etc.conf.d/10-a.conf", "tcp any *:1");
    let second = dir.file("etc.conf.d/B.conf", "# nothing in it");
    for other in [".hidden.conf", "c.conf~", "d.conf.dpkg-old", "README"] {
        dir.file(&format!("etc.conf.d/{other}"), "this is no rule");
    }
    let text = "tcp any *:1; tcp any *:3; channel any *:9";
    let files = Source::Files(vec![first.clone(), second, third.clone(), system.clone()]);
    assert_eq!(dir.find(&[]).unwrap(), (text.into(), files));
    let (rules, found) = dir.find_again(&[]).unwrap();
    assert_eq!(found.source.text(rules.get(1).unwrap().1.text), third.display().to_string());
    // One list: it is completed as one, and there need not be the file.
    fs::remove_file(system).unwrap();
    assert_eq!(dir.find(&[]).unwrap().0, "tcp any *:1; tcp any *:3; channel any localhost");
    // A user's own file counts alone.
    dir.file("home/.config/dp/dp-preload.conf", "tcp any *");
    let home = dir.0.join("home");
    assert_eq!(dir.find(&[("HOME", home.as_os_str())]).unwrap().0, "tcp any *; channel any localhost");
    // Each file is checked as the one is, and errors name it.
    fs::set_permissions(&first, fs::Permissions::from_mode(0o666)).unwrap();
    let error = dir.find(&[]).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: others can write", first.display())), "{error}");
    fs::remove_file(first).unwrap();
    fs::write(&third, "tcp any *:3\ntcp any 3").unwrap();
    let error = dir.find(&[]).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{}:2:9: 3 is a port without an address", third.display())),
        "{error}"
    );
}

#[test]
fn a_folder_open_to_others_is_refused() {
    let dir = Folder::new("open-folder");
    dir.file("etc.conf.d/a.conf", "tcp any *:1");
    let folder = dir.0.join("etc.conf.d");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let error = dir.find(&[]).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: others can write", folder.display())), "{error}");
    fs::remove_dir_all(&folder).unwrap();
    dir.file("etc.conf.d", "tcp any *:1");
    assert!(dir.find(&[]).unwrap_err().to_string().contains("not a folder"));
}

#[test]
fn a_file_of_any_length_is_read_to_its_end() {
    let dir = Folder::new("lengths");
    for len in [0, 1, 4095, 4096, 4097, 8192, 20_000, MAX_LEN - 1, MAX_LEN] {
        let rule = "tcp any *:7";
        let text = match len {
            ..20 => String::new(),
            _ => format!("{}\n{rule}", "#".repeat(len - rule.len() - 1)),
        };
        dir.file("etc.conf", &text);
        let expected = if text.is_empty() {
            Rules::DEFAULT.to_string()
        } else {
            format!("{rule}; channel any localhost")
        };
        assert_eq!(dir.find_again(&[]).unwrap().0.to_string(), expected, "{len} bytes");
    }
}

#[test]
fn a_mark_beside_the_rules_is_noticed_and_its_absence_is_none() {
    let dir = Folder::new("marks");
    let path = dir.file("etc.conf", "tcp any *:1");
    let (mut rules, found) = dir.find_again(&[]).unwrap();
    let places = found.places.unwrap();
    assert_eq!((found.marks, places.mark_files()), (Marks::default(), vec![dir.0.join("etc.conf.reload")]));
    fs::write(&path, "tcp any *:2").unwrap();
    assert_eq!(places.marks(), found.marks, "an editor tells nobody");
    dir.file("etc.conf.reload", "");
    let marked = places.marks();
    assert_ne!(marked, found.marks);
    let mut buf = vec![0; MAX_LEN + 1];
    assert_eq!(places.read(Room::Given(&mut buf), &mut rules, &mut |_, _| {}), Ok(1));
    assert_eq!(rules.to_string(), "tcp any *:2; channel any localhost");
    fs::remove_file(&path).unwrap();
    assert_eq!(places.read(Room::Given(&mut buf), &mut rules, &mut |_, _| {}), Ok(0));
    assert_eq!((rules, places.marks()), (Rules::DEFAULT, marked));
}

#[test]
fn rules_of_the_environment_stay() {
    let dir = Folder::new("fixed");
    assert!(dir.find_again(&[("DP_RULES", OsStr::new("tcp any *"))]).unwrap().1.places.is_none());
}
