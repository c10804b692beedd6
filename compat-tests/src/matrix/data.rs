//! Databases, caches and tools.

mod common;
mod git;
mod mariadb;
mod memcached;
mod mosquitto;
mod openssh;
mod postgres;
mod redis;
mod redis_tests;
mod rsync;
#[cfg(test)]
mod tests;

use super::Row;

/// In the order of the table.
pub const ROWS: &[&Row] = &[
    &postgres::ROW,
    &mariadb::ROW,
    &memcached::ROW,
    &redis::ROW,
    &redis_tests::ROW,
    &mosquitto::ROW,
    &openssh::ROW,
    &rsync::ROW,
    &git::ROW,
];
