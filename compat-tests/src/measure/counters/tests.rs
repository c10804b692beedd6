use super::*;

fn of(pid: u32) -> Option<Family> {
    parse(LISTING).unwrap().into_iter().find(|family| family.has(&[pid]))
}

const LISTING: &str = r#"{
  "version": 1,
  "families": [
    { "processes": [{ "program": "curl", "pid": 7, "uid": 0 }], "channels": 0, "tx_bytes": 0, "rx_bytes": 0,
      "doorbells": 0, "hand_backs": 0, "on_tcp": { "no-door": 1, "silent": 2 }, "connections": [] },
    { "processes": [{ "program": "redis-server", "pid": 8, "uid": 0 }, { "program": "redis-rdb-bgsave", "pid": 9, "uid": 0 }],
      "channels": 3, "tx_bytes": 12, "rx_bytes": 3456, "doorbells": 1, "hand_backs": 0, "on_tcp": {},
      "added_later": true,
      "connections": [
        { "program": "redis-server", "pid": 8, "fd": 9, "role": "server", "local": "127.0.0.1:1",
          "peer": "127.0.0.1:2", "state": "channel", "tx_bytes": 12, "rx_bytes": 3456, "doorbells": 1,
          "hand_backs": 0, "reason": null },
        { "program": "redis-server", "pid": 8, "fd": 10, "role": null, "local": "127.0.0.1:1",
          "peer": "127.0.0.1:3", "state": "new", "tx_bytes": 0, "rx_bytes": 0, "doorbells": 0,
          "hand_backs": 0, "reason": null }] }
  ]
}"#;

#[test]
fn a_family_is_found_by_any_of_its_processes() {
    let family = of(9).unwrap();
    assert_eq!((family.channels, family.tx_bytes, family.rx_bytes), (3, 12, 3456));
    assert_eq!(family.open(), (1, 2));
    assert_eq!(family.left_on_tcp(), "none");
    assert!(of(10).is_none());
}

#[test]
fn reasons_are_told_with_their_counts() {
    assert_eq!(of(7).unwrap().left_on_tcp(), "1 no-door, 2 silent");
}

#[test]
fn another_layout_is_refused() {
    let newer = LISTING.replacen("\"version\": 1", "\"version\": 2", 1);
    assert!(parse(&newer).unwrap_err().to_string().contains("version 2"));
    assert!(parse("no channels").is_err());
}
