//! Web servers, proxies, and runtimes that serve HTTP.

mod apache;
mod echoing;
mod go;
pub(super) mod grpc;
mod haproxy;
pub(super) mod hyper;
mod java;
mod nginx;
mod node;
mod php;
mod uvicorn;

use super::Row;

/// In the order of the table.
pub const ROWS: &[&Row] = &[
    &nginx::ROW,
    &apache::EVENT,
    &apache::PREFORK,
    &haproxy::ROW,
    &php::ROW,
    &node::ROW,
    &uvicorn::ROW,
    &grpc::ROW,
    &hyper::ROW,
    &java::ROW,
    &go::ROW,
];
