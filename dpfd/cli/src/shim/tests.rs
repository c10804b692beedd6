use super::*;

fn list(present: Option<&str>) -> OsString {
    preload(Path::new("/lib/dp/shim.so"), present.map(OsString::from)).unwrap()
}

#[test]
fn the_shim_goes_first_and_others_stay() {
    assert_eq!(list(None), "/lib/dp/shim.so");
    assert_eq!(list(Some("")), "/lib/dp/shim.so");
    assert_eq!(list(Some("a.so b.so:c.so")), "/lib/dp/shim.so:a.so:b.so:c.so");
}

#[test]
fn the_shim_is_named_once() {
    assert_eq!(list(Some("a.so:/lib/dp/shim.so:b.so")), "/lib/dp/shim.so:a.so:b.so");
}

#[test]
fn a_path_the_loader_cannot_take_is_refused() {
    for path in ["/a b/shim.so", "/a:b/shim.so"] {
        let error = preload(Path::new(path), None).unwrap_err().to_string();
        assert!(error.starts_with(path) && error.contains("DP_SHIM"), "{error}");
    }
}

#[test]
fn the_shim_is_sought_beside_the_command_and_in_the_private_folder() {
    let found = folders(Some(Path::new("/usr/local/bin/dp")));
    let multiarch = format!("/usr/local/lib/{}-linux-gnu/dp", std::env::consts::ARCH);
    let usual = ["/usr/local/bin", "/usr/local/lib/dp", "/usr/local/lib64/dp", &multiarch];
    assert_eq!(found[..4], usual.map(PathBuf::from));
}
