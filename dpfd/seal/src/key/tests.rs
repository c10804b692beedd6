use proptest::prelude::*;

use super::*;

#[test]
fn a_key_reads_back_and_is_not_shown() {
    let key = GraphKey::random().unwrap();
    assert_eq!(GraphKey::parse(&key.to_text()), Ok(key.clone()));
    assert_eq!(format!("{key:?}"), "GraphKey(..)");
    assert_ne!(key, GraphKey::random().unwrap());
}

#[test]
fn what_is_no_key_is_told_without_its_text() {
    assert_eq!(GraphKey::parse(""), Err(BadKey::Length(0)));
    assert_eq!(GraphKey::parse(&"1f".repeat(31)), Err(BadKey::Length(62)));
    assert_eq!(GraphKey::parse(&"1f".repeat(33)), Err(BadKey::Length(66)));
    assert_eq!(GraphKey::parse(&"+1".repeat(32)), Err(BadKey::Digit(1)));
    assert_eq!(GraphKey::parse(&format!("1f{}", "ö".repeat(31))), Err(BadKey::Digit(3)));
    assert_eq!(GraphKey::parse(&"00".repeat(32)), Err(BadKey::Constant));
}

#[test]
fn each_use_has_a_key_of_its_own() {
    let key = GraphKey::from_bytes(core::array::from_fn(|at| at as u8));
    let secrets = Secrets::new(&key);
    assert!(secrets.mac != secrets.psk && secrets.mac != key.0 && secrets.psk != key.0);
    let mac = secrets.mac(b"some bytes");
    assert!(secrets.is_mac(b"some bytes", &mac));
    assert!(!secrets.is_mac(b"some byte", &mac) && !secrets.is_mac(b"some bytes", &mac[..15]));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[0-9a-fA-F \n+ö]{0,80}") {
        let _ = GraphKey::parse(&text);
    }
}
