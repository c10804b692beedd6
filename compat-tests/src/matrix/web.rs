//! Web servers, proxies, and runtimes that serve HTTP.

mod nginx;
mod node;

use super::Row;

/// In the order of the table.
pub const ROWS: &[&Row] = &[&nginx::ROW, &node::ROW];
