//! Endpoints in tokio's runtime: many tasks, cancelled calls, slow receivers. Needs the feature `tokio`.

mod cancelled;
mod crowds;
mod kit;
mod modes;
mod room;
