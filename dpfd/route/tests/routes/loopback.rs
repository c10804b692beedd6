//! Over this machine's loopback, and through the simulated network.

use dp_route::sim::Network;
use dp_route::udp::{Options, Udp};
use dp_route::{Frames, Reason, Received, Route};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::SetStruct;

use crate::contract;
use crate::kit::{await_frames, skip};

#[derive(Clone, Copy)]
struct NoChecksum;

nix::setsockopt_impl!(NoChecksum, libc::SOL_SOCKET, libc::SO_NO_CHECK, i32, SetStruct<i32>);

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

fn udp(local: &str, offload: bool) -> Udp {
    Udp::open(local.parse().unwrap(), Options { offload, ..Options::default() }).unwrap()
}

fn has_v6() -> bool {
    let there = std::net::UdpSocket::bind(V6).is_ok();
    if !there {
        skip("dp-route udp over IPv6: this machine has no ::1");
    }
    there
}

#[test]
fn udp_over_ipv4() {
    contract::keeps(&mut udp(V4, true), &mut udp(V4, true));
}

#[test]
fn udp_over_ipv6() {
    if has_v6() {
        contract::keeps(&mut udp(V6, true), &mut udp(V6, true));
    }
}

#[test]
fn udp_without_offload_on_either_side() {
    contract::keeps(&mut udp(V4, false), &mut udp(V4, true));
    contract::keeps(&mut udp(V4, true), &mut udp(V4, false));
    contract::keeps(&mut udp(V4, false), &mut udp(V4, false));
}

#[test]
fn sim_without_chances() {
    let network = Network::new(1);
    contract::keeps(&mut network.attach("a").unwrap(), &mut network.attach("b").unwrap());
}

/// Forty frames of one batch: calls that sent them, and slots that they came in.
fn offloaded(mut a: Udp, mut b: Udp) -> (u64, usize) {
    let bytes: Vec<u8> = (0..40 * 1000u32).map(|n| n as u8).collect();
    let frames = Frames::new(&bytes, &[1000; 40]).unwrap();
    assert_eq!(a.send(&b.local(), frames).unwrap(), 40);
    let mut into = Received::new(32, b.slot());
    let (mut slots, mut got) = (0, Vec::new());
    // Loopback delivers before send returns.
    while b.recv(&mut into).unwrap() > 0 {
        slots += into.slots_used();
        got.extend(into.iter().flat_map(|(_, frame)| frame.to_vec()));
    }
    assert_eq!(got, bytes);
    let calls = b.counters().received_calls;
    assert!(calls <= 6, "{calls} calls for 40 frames");
    (a.counters().sent_calls, slots)
}

#[test]
fn a_batch_is_one_call_and_one_slot_with_offload() {
    let probe = udp(V4, true);
    if let Some(remark) = probe.remark() {
        return skip(&format!("dp-route offload: {remark}"));
    }
    assert_eq!(offloaded(udp(V4, true), udp(V4, true)), (1, 1));
    assert_eq!(offloaded(udp(V4, false), udp(V4, true)).0, 40);
    assert_eq!(offloaded(udp(V4, true), udp(V4, false)), (1, 40), "one frame a slot");
    if has_v6() {
        assert_eq!(offloaded(udp(V6, true), udp(V6, true)), (1, 1));
    }
}

#[test]
fn where_offload_is_refused_each_frame_goes_by_itself() {
    let (mut a, mut b) = (udp(V4, true), udp(V4, true));
    if a.segments() == 1 {
        return skip("dp-route offload: there is none to be refused");
    }
    // The kernel cuts no datagrams whose checksums it must not write: EINVAL, as of interfaces that cannot.
    setsockopt(&a.descriptor().unwrap(), NoChecksum, &1).unwrap();
    let bytes = [5; 300];
    for round in 1..=2 {
        assert_eq!(a.send(&b.local(), Frames::new(&bytes, &[100; 3]).unwrap()).unwrap(), 3);
        assert_eq!(await_frames(&mut b, 3).len(), 3);
        assert_eq!(a.counters().sent_calls, 3 * round);
    }
    assert_eq!(a.segments(), 1);
    assert!(a.remark().unwrap().contains("UDP_SEGMENT"));
}

#[test]
fn an_address_of_the_other_kind_is_refused() {
    let mut v4 = udp(V4, true);
    let error = v4.mtu(&"udp:[::1]:9".parse().unwrap()).unwrap_err();
    assert_eq!(Reason::of(&error), Reason::Address);
    if has_v6() {
        let mut v6 = udp(V6, true);
        let one = Frames::new(&[1], &[1]).unwrap();
        let error = v6.send(&"udp:127.0.0.1:9".parse().unwrap(), one).unwrap_err();
        assert_eq!(Reason::of(&error), Reason::Address);
    }
}

#[test]
fn an_empty_datagram_is_counted_and_no_frame() {
    let mut route = udp(V4, true);
    let to = route.local().to_string();
    let socket = std::net::UdpSocket::bind(V4).unwrap();
    let to = to.strip_prefix("udp:").unwrap();
    socket.send_to(b"", to).unwrap();
    socket.send_to(b"x", to).unwrap();
    assert_eq!(await_frames(&mut route, 1)[0].1, b"x");
    assert_eq!(route.counters().refused(Reason::Foreign), 1);
}

#[test]
fn a_taken_port_is_an_error() {
    let first = udp(V4, true);
    let taken = first.local().to_string();
    let again = Udp::open(taken.strip_prefix("udp:").unwrap().parse().unwrap(), Options::default());
    assert_eq!(again.unwrap_err().raw_os_error(), Some(libc::EADDRINUSE));
}
