//! How a way of sending spends its time, in the few numbers of LogP.
//!
//! D. Culler, L. T. Liu, R. P. Martin, C. Yoshikawa: *LogP Performance Assessment of Fast Network Interfaces*. The idea:
//! bursts of M requests with a computation of length D between two of them, each answered, timed on the requesting side
//! alone. How the cost of a message grows with M and with D tells apart what one round trip lumps together: the
//! processor's time for sending (o_s) and receiving (o_r), the time nobody's processor is busy (L), and the time the
//! slowest stage needs for each message (g).
//!
//! What was changed for today's machines:
//!
//! - A reply is taken in only when as many requests as the *window* allows are unanswered, and not looked for at each
//!   request: on a socket a look that finds nothing is a system call, and would be taken for sending.
//! - g comes from the growth of a burst's whole time behind the window, not from its average, which still remembers the
//!   beginning when M = 256.
//! - o_r is a small difference of long times. Bursts that take in no replies and bursts that take in two windows of them
//!   are sent in turns, so that D and o_s drop out pair by pair, and clocks of processors may move.
//! - D > Idle is not enough where repliers sleep: for o_r it is half a round trip as well.
//! - Batches of a point come at different times: what a neighbour on the machine disturbs shows as a wide interval, and
//!   points that are wide get the time that is left.
//!
//! | file | holds |
//! |---|---|
//! | [`model`] | the parameters, and what follows from them |
//! | [`probe`] | which bursts, how often; whatever is measured is a [`probe::System`] |
//! | [`fit`] | from measured points to parameters |
//! | [`report`] | the table and the JSON |
//!
//! Nothing in this room sends, sleeps or looks at a clock: the tests run it on simulated links whose parameters they
//! know. Times are nanoseconds, lengths bytes. Means, intervals and lines are those of [`crate::stats`].

pub mod fit;
pub mod model;
pub mod probe;
pub mod report;

#[cfg(test)]
mod tests;
