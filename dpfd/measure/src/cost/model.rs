//! Costs, and the time of a message that follows from them.

use serde::Serialize;

/// A cost that grows with the length of a packet: k + t m.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Linear {
    /// Of a packet, however short, ns.
    pub k: f64,
    /// Of each byte, ns.
    pub t: f64,
}

impl Linear {
    /// Of a packet of `m` bytes, ns.
    pub fn at(self, m: usize) -> f64 {
        self.k + self.t * m as f64
    }
}

/// What packets of one length cost, ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// Send overhead: the sender's processor is busy.
    pub o_s: f64,
    /// Gap: the least time between two packets that follow each other, the longer of g_s and g_r.
    pub g: f64,
    /// Network latency: nobody's processor is busy. Below 0 where sending and receiving overlap.
    pub l: f64,
    /// Asynchronous receive overhead: the receiver's processor is busy, whatever its program does.
    pub o_r: f64,
    /// User receive overhead: the program finds the packet and takes it.
    pub u_r: f64,
}

/// The slowest stage: what each further packet of a message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The gap: equation (1) of the paper.
    Network,
    /// The receiver's processor, O_r + U_r: equation (2).
    Receiver,
    /// The sender's processor, O_s: what (2) is for the other side; not in the paper, whose hosts never were.
    Sender,
}

impl Bound {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Bound::Network => "network",
            Bound::Receiver => "receiver",
            Bound::Sender => "sender",
        }
    }
}

/// Two costs that differ by less than this part are one.
const SAME: f64 = 0.05;

impl Costs {
    /// The model's condition, O_s + O_r + U_r < g < L: the processors keep up with the network in both directions at once,
    /// and the network carries several packets.
    pub fn condition(&self) -> bool {
        self.o_s + self.o_r + self.u_r < self.g && self.g < self.l
    }

    /// The slowest stage. The network where the condition holds. Where it does not, the paper looks for a processor that is
    /// slower than the gap; if neither is, messages in one direction are still carried at the gap. The gap is measured
    /// between processors, and cannot be shorter than what they take: what comes as near as a twentieth is taken to be longer.
    pub fn bound(&self) -> Bound {
        let receiver = self.o_r + self.u_r;
        if self.condition() || self.g > (1.0 + SAME) * self.o_s.max(receiver) {
            Bound::Network
        } else if receiver >= self.o_s {
            Bound::Receiver
        } else {
            Bound::Sender
        }
    }

    /// From the begin of sending the first of `k` packets to the end of taking the last, if `bound` is the slowest stage:
    ///
    /// - network: O_s + (k - 1) g + L + O_r + U_r
    /// - receiver: O_s + L + k (O_r + U_r)
    /// - sender: k O_s + L + O_r + U_r
    ///
    /// No packets take no time.
    pub fn one_way(&self, bound: Bound, k: usize) -> f64 {
        let further = match bound {
            Bound::Network => self.g,
            Bound::Receiver => self.o_r + self.u_r,
            Bound::Sender => self.o_s,
        };
        match k {
            0 => 0.0,
            // Also where nothing is known of further ones.
            1 => self.o_s + self.l + self.o_r + self.u_r,
            k => self.o_s + self.l + self.o_r + self.u_r + (k - 1) as f64 * further,
        }
    }
}

/// How far a prediction is off: 0.1 is a tenth too long, -0.1 a tenth too short.
pub fn error(predicted: f64, measured: f64) -> f64 {
    predicted / measured - 1.0
}
