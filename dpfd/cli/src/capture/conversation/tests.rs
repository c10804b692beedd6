//! The packets as another reader of packets sees them.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

use super::*;

/// Sequence number, acknowledgement, flags as letters, payload.
fn read(packet: &Packet) -> (u32, u32, String, Vec<u8>, u16) {
    let sliced = SlicedPacket::from_ip(packet.bytes).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
    let header = tcp.to_header();
    let sum = match sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload()).unwrap()
        }
        Some(NetSlice::Ipv6(ip)) => {
            header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()).unwrap()
        }
        _ => panic!("no IP"),
    };
    assert_eq!(sum, header.checksum);
    let flags = [(header.syn, 'S'), (header.ack, 'A'), (header.fin, 'F'), (header.rst, 'R')];
    let flags = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).collect();
    (header.sequence_number, header.acknowledgment_number, flags, tcp.payload().to_vec(), header.source_port)
}

fn between(client: &str, server: &str, before: [u64; 2]) -> Conversation {
    Conversation::new(client.parse().unwrap(), server.parse().unwrap(), before)
}

#[test]
fn a_request_and_its_answer_look_as_tcp_shows_them() {
    for (client, server) in [("127.0.0.1:4000", "127.0.0.1:80"), ("[::1]:4000", "[fe80::1%2]:80")] {
        let mut talk = between(client, server, [0, 0]);
        let mut seen = Vec::new();
        let mut give = |packet: Packet| seen.push(read(&packet));
        talk.begin(&mut give);
        talk.data(End::Client, b"GET", Duration::ZERO, &mut give);
        talk.taken(End::Client);
        talk.gap(End::Server, 10);
        talk.data(End::Server, b"200 OK", Duration::ZERO, &mut give);
        talk.taken(End::Server);
        talk.acknowledge_late(DELAY / 2, &mut give);
        talk.acknowledge_late(DELAY, &mut give);
        talk.acknowledge_late(DELAY * 2, &mut give);
        talk.end(End::Server, &mut give);
        talk.taken(End::Server);
        talk.close(&mut give);
        talk.close(&mut give);
        let of = |text: &str| text.as_bytes().to_vec();
        let want = [
            (0, 0, "S", of(""), 4000),
            (0, 1, "SA", of(""), 80),
            (1, 1, "A", of(""), 4000),
            (1, 1, "A", of("GET"), 4000),
            (11, 4, "A", of("200 OK"), 80),
            (4, 17, "A", of(""), 4000),
            (17, 4, "AF", of(""), 80),
            (4, 18, "AF", of(""), 4000),
            (5, 18, "A", of(""), 4000),
        ];
        let want: Vec<_> =
            want.into_iter().map(|(s, a, f, p, port)| (s, a, f.to_string(), p, port)).collect();
        assert_eq!(seen, want);
    }
}

#[test]
fn numbers_go_round_and_a_reset_is_the_last_word() {
    let mut talk = between("127.0.0.1:1", "127.0.0.1:2", [u64::from(u32::MAX) - 1, 7]);
    let mut seen = Vec::new();
    let mut give = |packet: Packet| seen.push(read(&packet));
    talk.data(End::Client, b"12345", Duration::ZERO, &mut give);
    talk.taken(End::Client);
    talk.data(End::Server, b"6", Duration::ZERO, &mut give);
    talk.reset(End::Client, &mut give);
    talk.end(End::Server, &mut give);
    talk.close(&mut give);
    let short: Vec<_> = seen.iter().map(|(s, a, f, ..)| (*s, *a, f.as_str())).collect();
    assert_eq!(short, [(u32::MAX, 8, "A"), (8, 4, "A"), (4, 8, "AR")]);
}
