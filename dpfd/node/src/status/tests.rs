use super::*;

#[test]
fn one_that_died_is_told_from_one_that_ended() {
    let folder = std::env::temp_dir().join(format!("dp-node-status-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let ask = || Gateway::ask(&folder, Duration::from_millis(10));
    assert!(ask().unwrap().is_none(), "none was there");
    let door = Door::open(&folder).unwrap();
    assert!(ask().is_err(), "it does not answer");
    drop(door);
    assert!(ask().unwrap().is_none(), "it ended as it was told to");
    // What one leaves that is killed.
    drop(UnixListener::bind(folder.join(DOOR)).unwrap());
    assert_eq!(ask().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    drop(Door::open(&folder).unwrap());
    assert!(ask().unwrap().is_none());
    fs::remove_dir_all(folder).unwrap();
}
