// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT

extern crate std;

use std::{env, format, process::Command, string::String};

use super::*;

/// What the C compiler makes of the header.
fn by_c(expressions: &[&str]) -> std::vec::Vec<u64> {
    let here = env!("CARGO_MANIFEST_DIR");
    let file = env::temp_dir().join(format!("dp-abi-{}", std::process::id()));
    let prints: String =
        expressions.iter().map(|e| format!("printf(\"%llu\\n\", (unsigned long long)({e}));")).collect();
    let source =
        format!("#include <stdio.h>\n#include \"dp_ioctl.h\"\nint main(void) {{ {prints} return 0; }}\n");
    std::fs::write(file.with_extension("c"), source).expect("a source file");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", here, "-o"])
        .arg(&file)
        .arg(file.with_extension("c"))
        .status()
        .expect("a C compiler");
    assert!(compiled.success());
    let out = Command::new(&file).output().expect("runs");
    let _ = std::fs::remove_file(file.with_extension("c"));
    let _ = std::fs::remove_file(&file);
    let out = String::from_utf8(out.stdout).expect("numbers");
    out.lines().map(|l| l.parse().expect("a number")).collect()
}

#[test]
fn the_header_says_the_same_numbers() {
    let pairs = [
        ("DP_IOC_MESSAGE_MAX", MESSAGE_MAX),
        ("DP_DPID_MAX", DPID_MAX.into()),
        ("DP_DPID_FREE", DPID_FREE.into()),
        ("DP_NID_MAX", NID_MAX.into()),
        ("DP_POOL_MIN", POOL_MIN),
        ("DP_POOL_MAX", POOL_MAX),
        ("DP_POOL_DEFAULT", POOL_DEFAULT),
        ("DP_TOKEN_ALIGN", TOKEN_ALIGN),
        ("DP_TOKEN_EMPTY", TOKEN_EMPTY.into()),
        ("DP_TOKEN_MESSAGE", TOKEN_MESSAGE.into()),
        ("DP_TOKEN_VOID", TOKEN_VOID.into()),
        ("DP_TOKEN_DONE", TOKEN_DONE.into()),
        ("DP_TOKEN_OUT_OF_LINE", TOKEN_OUT_OF_LINE.into()),
        ("DP_TOKEN_IMMEDIATE", TOKEN_IMMEDIATE.into()),
        ("DP_TOKEN_OUT_OF_LINE_IMMEDIATE", TOKEN_OUT_OF_LINE_IMMEDIATE.into()),
        ("DP_IMMEDIATE", IMMEDIATE),
        ("DP_IOC_VERSION", VERSION.into()),
        ("DP_PIECES_MAX", PIECES_MAX.into()),
        ("DP_MAP_OUT_OF_LINE", MAP_OUT_OF_LINE),
        ("DP_SEND_NOWAIT", SEND_NOWAIT.into()),
        ("DP_SEND_TARGET", SEND_TARGET.into()),
        ("DP_SEND_IMMEDIATE", SEND_IMMEDIATE.into()),
        ("DP_MAP_CONTROL", MAP_CONTROL),
        ("DP_MAP_RING", MAP_RING),
        ("DP_IOC_OPEN", IOC_OPEN.into()),
        ("DP_IOC_TARGET", IOC_TARGET.into()),
        ("DP_IOC_SENDTO", IOC_SENDTO.into()),
        ("DP_IOC_PEER", IOC_PEER.into()),
        ("DP_IOC_POOL", IOC_POOL.into()),
        ("DP_IOC_FSYNC", IOC_FSYNC.into()),
        ("DP_IOC_STAT", IOC_STAT.into()),
        ("DP_URING_SENDTO", URING_SENDTO.into()),
        ("DP_NID_ALL", NID_ALL.into()),
        ("DP_REMOVE", REMOVE.into()),
        ("DP_IFACE_NAME", IFACE_NAME as u64),
        ("DP_IOC_NODE", IOC_NODE.into()),
        ("DP_IOC_ATTACH_IF", IOC_ATTACH_IF.into()),
        ("DP_IOC_NART", IOC_NART.into()),
        ("DP_IOC_SENDMSG", IOC_SENDMSG.into()),
        ("DP_ETHER_TYPE", frame::ETHER_TYPE.into()),
        ("DP_FRAME_HEADER", frame::FRAME_HEADER as u64),
        ("DP_REMOTE_MAX", frame::REMOTE_MAX.into()),
        ("sizeof(struct dp_ioc_node)", size_of::<Node>() as u64),
        ("sizeof(struct dp_ioc_iface)", size_of::<Iface>() as u64),
        ("sizeof(struct dp_ioc_route)", size_of::<Route>() as u64),
        ("sizeof(struct dp_uring_sendto)", size_of::<UringSendTo>() as u64),
        ("sizeof(struct dp_token)", size_of::<Token>() as u64),
        ("sizeof(struct dp_control)", size_of::<Control>() as u64),
        ("sizeof(struct dp_ioc_open)", size_of::<Open>() as u64),
        ("sizeof(struct dp_ioc_addr)", size_of::<Addr>() as u64),
        ("sizeof(struct dp_ioc_sendto)", size_of::<SendTo>() as u64),
        ("sizeof(struct dp_ioc_sendmsg)", size_of::<SendMsg>() as u64),
        ("sizeof(struct dp_ioc_pool)", size_of::<PoolInfo>() as u64),
        ("sizeof(struct dp_ioc_stat)", size_of::<Stat>() as u64),
    ];
    let by_c = by_c(&pairs.map(|(expression, _)| expression));
    for ((expression, rust), c) in pairs.into_iter().zip(by_c) {
        assert_eq!(c, rust, "{expression}");
    }
}

#[test]
fn token_words_come_apart_as_they_were_put_together() {
    for (state, len) in [(TOKEN_MESSAGE, 0), (TOKEN_VOID, u32::MAX), (TOKEN_DONE, 77)] {
        assert_eq!(token_parts(token_word(state, len)), (state, len));
    }
    assert_eq!(token_span(48), 64);
    assert_eq!(token_span(49), 128);
}

#[test]
fn a_frame_says_what_was_sent_and_nothing_else_is_one() {
    use frame::{Frame, FRAME_HEADER, REMOTE_MAX};
    let sent = Frame {
        bytes: 1468,
        from_nid: 1,
        from_dpid: 0x0203,
        to_nid: 0x0405,
        to_dpid: 0x0607,
        uid: 0x0809_0a0b,
        number: 0x0c0d_0e0f,
        total: 65000,
        begin: 0x1112,
    };
    let wire = sent.encode();
    // Big-endian, at the places that the picture shows.
    assert_eq!(wire[2..12], [0x05, 0xbc, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(wire[12..20], [8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(wire[20..32], [0, 0, 0xfd, 0xe8, 0, 0, 0x11, 0x12, 0, 0, 0, 0]);
    assert_eq!(Frame::decode(&wire, 1468), Some(sent));
    assert!(!sent.is_whole());
    assert_eq!(Frame::decode(&wire, 1467), None, "less than it says");
    let refused = |change: fn(&mut Frame)| {
        let mut frame = sent;
        change(&mut frame);
        Frame::decode(&frame.encode(), 1 << 16).is_none()
    };
    assert!(refused(|f| f.from_nid = 0) && refused(|f| f.to_dpid = 0) && refused(|f| f.from_dpid = 0));
    assert!(
        refused(|f| f.total = REMOTE_MAX + 1)
            && refused(|f| f.begin = 65000)
            && refused(|f| f.begin = u32::MAX)
    );
    assert!(refused(|f| f.begin = 64000) && refused(|f| f.bytes = 0) && refused(|f| f.total = 0));
    for (at, other) in [(0, 2), (1, 1)] {
        let mut wire: [u8; FRAME_HEADER] = wire;
        wire[at] = other;
        assert_eq!(Frame::decode(&wire, 1468), None, "another version or kind");
    }
    let empty = Frame { bytes: 0, total: 0, begin: 0, ..sent };
    assert!(Frame::decode(&empty.encode(), 0) == Some(empty) && empty.is_whole());
}

#[test]
fn a_header_of_version_two_says_what_was_sent() {
    use frame2::{Header, FLAG_ASK, FLAG_FIRST, HEADER, KIND_PART};
    let sent = Header {
        kind: KIND_PART,
        flags: FLAG_FIRST | FLAG_ASK,
        bytes: 0x0102,
        from_nid: 0x0304,
        from_dpid: 0x0506,
        to_nid: 0x0708,
        to_dpid: 0x090a,
        tag: 0x0b0c_0d0e,
        number: 0x0f10_1112,
        acknowledged: 0x1314_1516,
        word: Header::room_and_arrived(0x1718, 0x191a),
        checksum: 0x1b1c_1d1e,
    };
    let wire: [u8; HEADER] = sent.encode();
    // Big-endian, at the places that the picture shows.
    assert_eq!(wire[..2], [2, 0x92]);
    assert!(wire[2..].iter().copied().eq(1..=0x1e));
    assert_eq!(Header::decode(&wire), Some(sent));
    assert_eq!((sent.room(), sent.arrived()), (0x1718, 0x191a));
    let mut other = wire;
    other[0] = 1;
    assert_eq!(Header::decode(&other), None, "another version");
}
