//! The C interface as C programs meet it: compiled, linked, run. Needs `make build` first; without it the tests fail.

mod calls;
mod examples;
mod install;
mod kit;
mod library;
mod readme;
