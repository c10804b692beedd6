use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_bytes_are_sorted_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), second in 0u8..=255, marked: bool) {
        if let (true, [first, next, ..]) = (marked, &mut bytes[..]) {
            (*first, *next) = (MARK, second);
        }
        match kind(&bytes) {
            Ok(kind @ (Kind::Initiation | Kind::Response | Kind::Later)) => {
                let mut back = bytes.clone();
                let head = WordHead::read(kind, &bytes);
                head.write(&mut back);
                // A mode that is not known is not kept.
                prop_assert!(head.mode.is_none() || back == bytes);
            }
            Ok(kind) => {
                let mut back = bytes.clone();
                Head::read(kind, &bytes).write(&mut back);
                prop_assert_eq!(back, bytes);
            }
            Err(reason) => prop_assert_eq!(claimed(&bytes), Err(reason)),
        }
    }
}

#[test]
fn what_is_no_packet_is_told_apart() {
    assert_eq!(kind(&[]), Err(Refused::Short));
    assert_eq!(kind(&[MARK]), Err(Refused::Short));
    assert_eq!(kind(&[2; 100]), Err(Refused::Plain), "a frame as it is");
    assert_eq!(kind(&[MARK, 0x23, 0]), Err(Refused::Version));
    assert_eq!(kind(&[MARK, 0x17, 0]), Err(Refused::Kind));
    assert_eq!(kind(&[MARK, 0x13, 0]), Err(Refused::Short));
    let mut packet = [0; 48];
    packet[..4].copy_from_slice(&[MARK, 0x14, 0x12, 0x34]);
    assert_eq!(kind(&packet), Ok(Kind::Frame(Mode::Encrypt)));
    assert_eq!(claimed(&packet), Ok(0x1234));
    assert_eq!(kind(&packet[..47]), Err(Refused::Short));
}
