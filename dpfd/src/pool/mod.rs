//! The Token Buffer Pool of an endpoint: where messages wait until the program has read them.
//!
//! Directed Point (section 4.2) gives every endpoint a pool of variable-length token buffers, mapped into the
//! program, so that a message is read where it arrived. Here the pool is a *budget*: each sender gets an edge of
//! its own out of it, a power of two of bytes, so senders never meet on a lock or a line, and memory is touched
//! only as far as messages have filled it. A pool that nobody gave a size grows for senders whose edge is too short.
//!
//! | file | holds |
//! |---|---|
//! | [`budget`] | how the pool is shared out among edges |
//! | [`out_of_line`] | messages that no edge can hold |
//! | [`in_edge`] | an edge, its receiver's side |
//! | [`loaned`] | the messages the program has, in the order they were read |
//! | [`tokens`] | all edges: which message comes next, and whose room is free again |

pub mod budget;
pub mod in_edge;
pub mod loaned;
pub mod out_of_line;
pub mod tokens;

/// Bytes of a message that is copied while others wait for the receiver's side. Of a longer one the copy takes so much longer
/// than lending it that it may be loaned first.
pub const SHORT: usize = 16 << 10;
