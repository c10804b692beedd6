//! The parameters of LogP, and what they predict.

/// LogP's parameters for messages of one length. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogP {
    /// Send overhead: how long the processor is busy with sending one message.
    pub o_s: f64,
    /// Receive overhead: how long it is busy with receiving one that is there.
    pub o_r: f64,
    /// Latency: from one processor's end of sending to the other's begin of receiving.
    pub l: f64,
    /// Gap: the least time between two messages in a row, set by the slowest stage.
    pub g: f64,
    /// Processors that can take part.
    pub p: u32,
}

impl LogP {
    /// From the begin of sending one message to the end of receiving it: o_s + L + o_r.
    pub fn one_way(&self) -> f64 {
        self.o_s + self.l + self.o_r
    }

    /// A request and its reply of the same length.
    pub fn round_trip(&self) -> f64 {
        2.0 * self.one_way()
    }

    /// From the begin of sending the first of `n` messages to the end of receiving the last. 0 messages take no time.
    pub fn stream(&self, n: u32) -> f64 {
        match n {
            0 => 0.0,
            n => self.one_way() + f64::from(n - 1) * self.g,
        }
    }

    /// What a sender waits for in each gap, if it does nothing but send requests and take in replies; 0 where the
    /// processor itself is the slowest stage.
    pub fn idle(&self) -> f64 {
        (self.g - self.o_s - self.o_r).max(0.0)
    }

    /// The gap that each of `k` senders sees which all send to one receiver.
    pub fn contended_gap(&self, k: u32) -> f64 {
        self.g * f64::from(k)
    }

    /// Requests that must be unanswered at once, so that replies come one gap after the other.
    pub fn in_flight(&self) -> f64 {
        self.round_trip() / self.g
    }
}

/// The window for requests of `size` bytes, if small ones have `most`: 256 KiB under way, so that long ones measure the
/// way and not the memory behind it, but never less than 4 requests.
pub fn window(size: usize, most: u32) -> u32 {
    ((256 << 10) / size.max(1)).clamp(4, most.max(4) as usize) as u32
}

/// The size at which bandwidth reaches half of the largest measured one, from pairs of size in bytes, ascending, and
/// time in nanoseconds. Between two sizes the time is taken to grow evenly, which is exact for a start-up cost and a
/// rate. The smallest size, if that already has half of the peak; `None` of fewer than two pairs.
pub fn half_peak(times: &[(usize, f64)]) -> Option<f64> {
    let rate = |&(n, t): &(usize, f64)| n as f64 / t;
    let half = times.iter().map(rate).fold(f64::NAN, f64::max) / 2.0;
    let (first, rest) = times.split_first()?;
    if rest.is_empty() {
        return None;
    }
    if rate(first) >= half {
        return Some(first.0 as f64);
    }
    let pair = times.windows(2).find(|pair| rate(&pair[1]) >= half)?;
    let ((n0, t0), (n1, t1)) = (pair[0], pair[1]);
    let slope = (t1 - t0) / (n1 as f64 - n0 as f64);
    let start = t0 - slope * n0 as f64;
    // n / (start + slope n) = half; where rounding leaves no such n, the upper size has just reached it.
    let n = half * start / (1.0 - half * slope);
    Some(if n.is_finite() { n.clamp(n0 as f64, n1 as f64) } else { n1 as f64 })
}
