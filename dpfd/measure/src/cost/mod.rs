//! The cost model of Directed Point, from measurements to predictions.
//!
//! C.-L. Wang, A. T. C. Tam, B. W. L. Cheung, W. Zhu, D. C. M. Lee: *Directed Point: A Communication Subsystem for
//! Commodity Supercomputing with Gigabit Ethernet*, section 3. The idea: a message goes through three phases, and each of
//! them has a cost that grows with the length m of a packet: sending (O_s), transfer (L, and the gaps g_s and g_r that
//! the network leaves between packets), receiving (O_r, which the receiver's processor pays whatever it does, and U_r,
//! which the program pays when it takes the packet). From these follows the time of a message of k packets, as long as
//! the network is the slowest stage: O_s + (k - 1) g + L + O_r + U_r.
//!
//! What was changed for today's machines:
//!
//! - Between two cores the network is the coherence of their caches. Nobody copies on arrival: O_r is what a deposit
//!   costs a computation on the receiver's core, and the lines of a packet move when its receiver copies them, in U_r.
//! - A cost is a straight line only as long as the same machinery does the work. The lines are fitted piece by piece,
//!   between borders that are known beforehand: one cache line, what caches hold, what an edge takes.
//! - The gap depends on where the program's buffers are as well: it is measured for buffers of several lengths.
//! - The sizes that are predicted are none of those that were measured for the fits.
//! - All is measured in rounds, and what belongs together next to each other: the speed of a shared machine changes.
//!
//! | file | holds |
//! |---|---|
//! | [`model`] | costs, the condition, and the time that follows |
//! | [`probe`] | what is measured, at which sizes; whatever is measured is a [`probe::System`] |
//! | [`fit`] | from measured points to pieces of straight lines |
//! | [`bandwidth`] | the paper's tests of bandwidth: what is subtracted, what a rate is |
//! | [`report`], `text` | the JSON and the tables |
//!
//! Nothing in this room sends, sleeps or looks at a clock: the tests run it on simulated systems whose parameters they
//! know. Times are nanoseconds, lengths bytes. Means, intervals and lines are those of [`crate::stats`].

pub mod bandwidth;
pub mod fit;
pub mod model;
pub mod probe;
pub mod report;
mod text;

#[cfg(test)]
mod tests;
