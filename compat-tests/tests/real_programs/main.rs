//! Programs of the distribution, unmodified: shimmed against shimmed, and against unshimmed both ways.

mod mariadb;
mod postgres;
mod redis;
mod static_programs;
mod transfers;

use compat_tests::Combo;

/// The sides, and one run in which the shim switches at random.
fn combos() -> Vec<Combo> {
    let chaos = Combo { name: "shim/shim chaos 1".into(), chaos: Some(1), ..Combo::shimmed() };
    Combo::sides().into_iter().chain([chaos]).collect()
}
