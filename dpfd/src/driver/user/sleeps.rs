//! Who sleeps on an endpoint.

use super::habit::Habit;

/// As above.
#[derive(Debug, Default)]
pub struct Sleeps {
    /// The number of the last sleep on the edge's word.
    pub number: u32,
    /// The call has not come back from it yet: how often it will be roused for it.
    pub overdue: u8,
    /// The service watches.
    pub watched: bool,
    /// Threads that sleep on the descriptor: a bell wakes one of them, so there are bells as long as there are such. Too
    /// many, if one was cancelled there.
    pub listeners: u32,
    /// The next of them was woken, and since then none came or went.
    pub passed_on: bool,
    /// The last sleep was one on routes: they are looked at, however little looking pays.
    pub by_routes: bool,
    /// What its sleeps were like.
    pub habit: Habit,
}
