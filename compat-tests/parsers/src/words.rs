//! What services of a node's processes say to each other, what beside packets says who sent them; probes, and frames of the
//! kernel driver.

use std::fs::File;
use std::os::unix::fs::FileExt;

use dp_abi::frame::{Frame, FRAME_HEADER};
use dp_abi::frame2::Header;
use dp_edge::segment::sealed_memory;
use dp_node::probe::{self, Probe};
use dp_node::status::Gateway;
use dpfd::driver::user::account::Account;
use dpfd::driver::user::note::{Envelope, Inside, Note, OutOfLinePacket};
use dpfd::driver::user::tag::Tag;
use dpfd::edge::beside::Beside;
use dpfd::Addr;

const KEY: u64 = 0x0102_0304_0506_0708;

/// One run. What is read is written again the same.
pub fn run(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    match which % 8 {
        0 => {
            if let Some(note) = Note::decode(bytes) {
                assert_eq!(Note::decode(&note.encode()), Some(note));
            }
        }
        1 => {
            if let Some((envelope, length)) = Envelope::decode(bytes, KEY) {
                assert!(length <= bytes.len() && envelope.key == KEY);
                let (again, length) = envelope.encode();
                let read = Envelope::decode(&again[..length], KEY).expect("as it is written");
                assert_eq!((read.0.to, read.0.beside), (envelope.to, envelope.beside));
            }
        }
        2 => {
            if let Some(packet) = OutOfLinePacket::decode(bytes) {
                let (again, length) = packet.encode();
                assert_eq!(OutOfLinePacket::decode(&again[..length]), Some(packet));
            }
        }
        3 => tag(bytes),
        4 => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                if let Some(account) = Account::read(text) {
                    assert_eq!(Account::read(&account.to_string()), Some(account));
                }
            }
        }
        5 => {
            if let Some(probe) = probe::read(bytes, None) {
                assert_eq!(probe::read(&probe::write(probe, None), None), Some(probe));
            }
        }
        6 => frames(bytes),
        _ => {
            if let Ok(gateway) = serde_json::from_slice::<Gateway>(bytes) {
                let text = serde_json::to_vec(&gateway).expect("text");
                assert_eq!(serde_json::from_slice::<Gateway>(&text).expect("as it is written"), gateway);
            }
        }
    }
}

/// Reads the tag of a message, which says in a file beside it who sent it.
fn tag(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(100)];
    let file = File::from(sealed_memory(c"tag", bytes.len()).expect("memory"));
    file.write_all_at(bytes, 0).expect("room");
    if let Some(tag) = Tag::read(file.into()) {
        assert_eq!(Tag::read(tag.make().expect("memory")), Some(tag));
    }
}

fn frames(bytes: &[u8]) {
    let Some((head, behind)) = bytes.split_first_chunk::<FRAME_HEADER>() else { return };
    if let Some(frame) = Frame::decode(head, behind.len()) {
        assert!(usize::from(frame.bytes) <= behind.len() && frame.begin <= frame.total);
        assert_eq!(Frame::decode(&frame.encode(), behind.len()), Some(frame));
    }
    if let Some(header) = Header::decode(head) {
        assert_eq!(header.encode(), *head);
    }
}

/// One of each.
pub fn seeds() -> Vec<Vec<u8>> {
    let to = Addr { nid: 2, dpid: 1024 };
    let from = Addr { nid: 1, dpid: 1025 };
    let all = [Beside::default(), Beside::of(Some(7)), Beside { immediate: Some(7), route: 9 }];
    let notes = [
        Note::Attach { link: 1, from, to },
        Note::Attached { link: 1, knows: 7 },
        Note::Rest { link: 1 },
        Note::Route { link: 1, code: 1 << 40 },
        Note::Ask { dpid: 5, serial: 6 },
        Note::Answer { open: true },
        Note::List,
    ];
    let mut seeds: Vec<Vec<u8>> = notes.iter().map(|note| [&[0], &note.encode()[..]].concat()).collect();
    for beside in all {
        for what in [Inside::Message, Inside::OutOfLine, Inside::Target] {
            let (bytes, length) = Envelope { key: KEY, to, what, beside }.encode();
            seeds.push([&[1], &bytes[..length]].concat());
        }
        let (bytes, length) = OutOfLinePacket { key: KEY, number: 3, beside }.encode();
        seeds.push([&[2], &bytes[..length]].concat());
        let (beside, length) = beside.encode();
        seeds.push([b"\x03DPtg\0\0\x01\0", &beside[..length]].concat());
    }
    let account =
        "dp-account 1\nendpoint 1024 1 1 4096 0 2 1024 3 4 5\nlink 2 1024 edge 0 1 2\nedge 1 2 3 4\n\
                   endpoint 1025 2 0 - - - - - - -\nno-links\nno-edges\n";
    seeds.push([b"\x04", account.as_bytes()].concat());
    let probe = Probe { from: 1, to: 2, number: 77, asks: true };
    seeds.push([&[5], &probe::write(probe, None)[..]].concat());
    let raw = Frame {
        bytes: 4,
        from_nid: 1,
        from_dpid: 2,
        to_nid: 3,
        to_dpid: 4,
        uid: 5,
        number: 6,
        total: 8,
        begin: 4,
    };
    seeds.push([&[6], &raw.encode()[..], b"part"].concat());
    seeds.push([&[6], &Header { kind: 2, bytes: 4, ..Header::default() }.encode()[..], b"part"].concat());
    let gateway = br#"{"version":1,"nid":1,"pid":2,"routes":[{"address":"udp:192.0.2.1:7411","sent":1,"sent_bytes":2,"received":3,
        "received_bytes":4,"remark":null}],"nodes":[{"nid":2,"name":"b","by":null,"routes":[],"refused":0,"crowded":0,"unsent":0,
        "flows":[]}],"unknown":0,"unsound":0,"foreign":0}"#;
    seeds.push([&[7], &gateway[..]].concat());
    seeds
}
