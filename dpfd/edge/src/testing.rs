//! What the proofs and tests of this crate and of those above it share.

#[cfg(not(loom))]
pub mod edge;
#[cfg(not(loom))]
pub mod hostile;
#[cfg(loom)]
pub mod kernel;
pub mod lines;

/// Runs `f` under loom. `preemptions` bounds involuntary switches a schedule may have (none: all
/// schedules): two are enough for every broken variant here, three for the longer correct ones to be
/// convincing, and each more multiplies the time by about ten. `LOOM_MAX_PREEMPTIONS` overrides it.
#[cfg(loom)]
pub fn explore(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.max_branches = 20_000;
    builder.check(f);
}
