//! Messages that are there already: what it takes a receiver to take one, U_r of the cost model.
//!
//! They come a few at a time, because reading the clock costs as much as taking one does. Their lines are still in the
//! sender's cache, as they are when a receiver comes a moment late. What it costs depends on what the receiver did before:
//! one that waited in its last call has nothing but the messages to look at; of one that did not, an endpoint's descriptor
//! had to tell poll(2) that there is something, and that has to be taken back.

use std::time::Duration;

/// Messages at a time: no way here has room for fewer.
pub const COUNT: usize = 8;

/// Until a receiver that was told to wait does.
pub const SETTLE: Duration = Duration::from_micros(50);

/// More than an endpoint's descriptor may stay silent after its program waited last.
pub const FORGOTTEN: Duration = Duration::from_millis(10);
