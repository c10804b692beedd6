//! Each route keeps one contract, on this machine's loopback and between network namespaces.

mod contract;
mod kit;
mod library;
mod loopback;
mod measure;
mod namespaces;
mod redirected;
