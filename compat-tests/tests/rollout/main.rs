//! A rollout as docs/OPERATIONS.md has it, on nginx and PostgreSQL: enabled, watched, the library replaced under load, renewed
//! without an interruption, undone. No request fails on the way.
//!
//! There is no systemd in it: the services are started with exactly the environment of the drop-in that `dp enable` writes.

mod kit;
mod nginx;
mod postgres;
