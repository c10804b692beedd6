use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn the_folder_is_private_and_goes_away() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.path().to_owned();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    fs::write(scratch.file("left behind"), "x").unwrap();
    drop(scratch);
    assert!(!path.exists());
}

#[test]
fn a_listener_is_seen_without_connecting() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(listens(port));
    drop(listener);
    assert!(!listens(port));
}

#[test]
fn other_addresses_and_states_are_no_listeners() {
    let line = |local, state| format!("   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000");
    assert!(in_table(&line("0100007F:1F90", "0A"), 8080));
    assert!(!in_table(&line("0100007F:1F90", "01"), 8080));
    assert!(!in_table(&line("0200007F:1F90", "0A"), 8080));
    assert!(!in_table(&line("0100007F:1F91", "0A"), 8080));
    assert!(!in_table("", 8080));
}
