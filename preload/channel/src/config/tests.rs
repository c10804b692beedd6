use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{chown, symlink, PermissionsExt};

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

    /// Searches with these variables set and `etc.conf` of this folder as the system file.
    fn find(&self, env: &[(&str, &OsStr)]) -> Result<Found, ConfigError> {
        let get = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        find(get, &self.0.join("etc.conf"), me())
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
        (Source::File(named.clone()), "channel any *:1"),
        (Source::File(user), "channel any *:2"),
        (Source::File(dot), "channel any *:3"),
        (Source::File(system.clone()), "channel any *:4"),
    ];
    for (source, text) in places {
        let found = dir.find(&env).unwrap();
        assert_eq!((found.source, found.rules.to_string()), (source, text.to_string()));
        if !env.is_empty() {
            env.remove(0);
        }
    }
    fs::remove_file(system).unwrap();
    assert_eq!(dir.find(&[]).unwrap(), Found { rules: Rules::DEFAULT, source: Source::Default });
}

#[test]
fn empty_variables_and_a_relative_xdg_folder_count_as_unset() {
    let dir = Folder::new("empty");
    let env = [("DP_RULES", ""), ("DP_CONFIG", ""), ("XDG_CONFIG_HOME", "etc"), ("HOME", "")];
    assert_eq!(dir.find(&env.map(|(n, v)| (n, OsStr::new(v)))).unwrap().source, Source::Default);
}

#[test]
fn a_named_file_must_exist_and_be_absolute() {
    let dir = Folder::new("named");
    assert!(dir.error(&dir.0.join("none")).ends_with("no such file; create it, or unset DP_CONFIG"));
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

#[test]
fn files_of_strangers_are_refused() {
    let dir = Folder::new("owner");
    let path = dir.file("theirs.conf", "tcp any *");
    let owned_by = |owner: u32, user| {
        let meta = fs::metadata(&path).unwrap();
        if meta.uid() != owner && chown(&path, Some(owner), None).is_err() {
            return None; // Giving files away is for root alone.
        }
        Some(from_file(&path, user))
    };
    assert!(matches!(owned_by(me(), me()), Some(Ok(Some(_)))));
    if me() != 0 {
        assert!(matches!(owned_by(me(), me() + 1), Some(Err(ConfigError::Owner { .. }))));
    }
    if let Some(result) = owned_by(4242, 4243) {
        assert!(result
            .unwrap_err()
            .to_string()
            .contains("belongs to user 4242; only a file of root or of user 4243"));
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
    let expected = format!("{}: rule 2 on line 4: some is not a direction", path.display());
    assert!(dir.error(&path).starts_with(&expected), "{}", dir.error(&path));
    let path = dir.file("latin.conf", b"# caf\xe9");
    assert!(dir.error(&path).contains("latin.conf: not UTF-8 text"));
    let path = dir.file("long.conf", vec![b'#'; MAX_LEN as usize + 1]);
    assert!(dir.error(&path).contains("long.conf: longer than 65536 bytes"));
    let raw = OsString::from_vec(vec![0xff]);
    assert!(matches!(dir.find(&[("DP_RULES", &raw)]), Err(ConfigError::NotText(Source::Environment))));
    let error = dir.find(&[("DP_RULES", OsStr::new("tcp"))]).unwrap_err().to_string();
    assert!(error.starts_with("DP_RULES: rule 1 on line 1: the direction is missing"), "{error}");
}

#[test]
fn a_home_that_may_not_be_entered_counts_as_empty() {
    // Root may enter everything; only others can show this.
    let dir = Folder::new("closed");
    let path = dir.file("home/.config/dp/dp-preload.conf", "tcp any *");
    let home = dir.0.join("home");
    let close = |mode| fs::set_permissions(&home, fs::Permissions::from_mode(mode)).unwrap();
    close(0o000);
    let expected = if me() == 0 { Source::File(path.clone()) } else { Source::Default };
    assert_eq!(dir.find(&[("HOME", home.as_os_str())]).unwrap().source, expected);
    if me() != 0 {
        assert!(dir.error(&path).contains("make it readable, or remove it"), "a named file must be readable");
    }
    close(0o700);
}
