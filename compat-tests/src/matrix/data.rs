//! Databases, caches and tools.

use super::Row;

/// In the order of the table.
pub const ROWS: &[&Row] = &[];
