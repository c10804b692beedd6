//! The paper's tests of bandwidth (sections 5.2 and 5.3): what is subtracted, and what a rate is.

/// Bytes that are carried in one test: 10 MB.
pub const BYTES: usize = 10_000_000;
/// Bytes of the acknowledgement that ends a uni-directional test.
pub const ACK: usize = 4;

/// Packets of `m` bytes that carry [`BYTES`] or a bit more.
pub fn packets(m: usize) -> usize {
    BYTES.div_ceil(m)
}

/// Bytes in a second of one direction: `packets` of `m` bytes were sent and the acknowledgement received in `ns`, of which
/// `trip` is the one-way time of the acknowledgement. NaN if nothing is left.
pub fn one_direction(packets: usize, m: usize, ns: f64, trip: f64) -> f64 {
    rate(packets * m, ns - trip)
}

/// Bytes in a second that a process exchanges: as many as it has sent, and received, in `ns`. That of the slower of the two.
pub fn exchange(packets: usize, m: usize, ns: [f64; 2]) -> f64 {
    rate(packets * m, ns[0].max(ns[1]))
}

fn rate(bytes: usize, ns: f64) -> f64 {
    if ns > 0.0 {
        1e9 * bytes as f64 / ns
    } else {
        f64::NAN
    }
}
