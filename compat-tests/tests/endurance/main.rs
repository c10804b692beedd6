//! What the shim must survive: killed partners, hostile ones, other users, missing resources, long streams. And what
//! it must not leave behind. `DP_LONG=1` (`make check-long`) runs more of each; `DP_SEED=N` repeats random choices.

mod addresses;
mod calls;
mod chaos;
mod death;
mod exports;
mod footprint;
mod forks;
mod frames;
mod hostile;
mod hygiene;
mod limits;
mod listing;
mod log;
mod missed;
mod other_libc;
mod paced;
mod pod;
mod product;
mod rules;
mod settings;
mod unwinding;
mod users;
mod versions;
mod watched;
