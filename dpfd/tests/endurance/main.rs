//! What endpoints must survive: strangers who write to everything they can reach, partners that are killed, limits
//! that are reached. And what they must not leave behind. `DP_LONG=1` (`make check-long`) runs more of each;
//! `DP_SEED=N` repeats random choices. The processes look at loads and times, so the tests take turns.

mod crowd;
mod death;
mod edges;
mod kit;
mod limits;
mod packets;
mod strangers;
