//! The file as another reader of pcapng sees it.

use std::cell::RefCell;
use std::rc::Rc;

use pcap_file::pcapng::{Block, PcapNgReader};

use super::*;

/// What was written, for whoever looks.
#[derive(Clone, Default)]
struct Kept(Rc<RefCell<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_comment_that_is_too_long_is_cut_and_the_file_stays_whole() {
    let kept = Kept::default();
    let mut file = File::new(Box::new(kept.clone()), 100).unwrap();
    let interface = file.interface("a", "b").unwrap();
    // Of two bytes each, so the longest that fits would end in the middle of one.
    let long = "ä".repeat(40_000);
    let packet = Packet { from: End::Client, bytes: &[7; 40] };
    for comment in ["short".to_string(), long, "the last".to_string()] {
        file.packet(interface, &packet, Duration::from_secs(1), Some(comment)).unwrap();
    }
    file.finish(Duration::from_secs(2)).unwrap();
    let bytes = kept.0.borrow().clone();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut comments = Vec::new();
    let mut ends = 0;
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::EnhancedPacket(packet) => {
                assert_eq!(packet.data[..], [7; 40]);
                comments.extend(packet.options.iter().filter_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                    _ => None,
                }));
            }
            Block::InterfaceStatistics(_) => ends += 1,
            _ => {}
        }
    }
    assert_eq!((comments.len(), ends), (3, 1));
    assert_eq!((comments[0].as_str(), comments[2].as_str()), ("short", "the last"));
    assert!(comments[1].len() == 65_534 && comments[1].ends_with('ä'), "{}", comments[1].len());
}
