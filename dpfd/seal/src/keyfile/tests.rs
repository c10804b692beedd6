use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("dp-seal-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_key_is_made_for_its_owner_alone_and_never_twice() {
    let folder = Folder::new("made");
    let path = folder.0.join("cluster.key");
    assert!(matches!(read(&path), Err(BadFile::Missing)));
    create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    let key = read(&path).unwrap();
    assert!(matches!(create(&path), Err(BadFile::Exists)));
    assert_eq!(read(&path).unwrap(), key, "it is still the first one");
}

#[test]
fn a_key_that_others_can_read_is_none() {
    let folder = Folder::new("mode");
    let path = folder.0.join("cluster.key");
    create(&path).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o601] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(read(&path), Err(BadFile::Mode(found)) if found == mode), "{mode:o}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    read(&path).unwrap();
}

#[test]
fn what_is_no_key_file_is_told_and_does_not_block() {
    let folder = Folder::new("none");
    assert!(matches!(read(&folder.0), Err(BadFile::NoFile)));
    let path = folder.0.join("text");
    fs::write(&path, "secret\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let error = read(&path).unwrap_err();
    assert!(matches!(error, BadFile::Key(BadKey::Digit(1))));
    assert!(!error.to_string().contains("secret"));
    fs::write(&path, "ab".repeat(4000)).unwrap();
    assert!(matches!(read(&path), Err(BadFile::Key(BadKey::Length(_)))));
    assert!(matches!(create(&folder.0.join("no/folder")), Err(BadFile::Failed(_))));
}
