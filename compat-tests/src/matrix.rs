//! The matrix of programs: servers and clients of others, natively and under the shim, with what they carry checked.
//!
//! A [`Row`] is a program with a check and figures. The check moves content both ways, under back-pressure, through
//! ends that come unasked; it runs natively first, for what fails natively says nothing about the shim. Each leg of the
//! way, from client to proxy and from proxy to server, tells for itself how many of its bytes went through channels
//! ([`legs`]). Rows are in [`web`] and [`data`], a file for each program; `programs_matrix` and `tests/matrix` run them.

pub mod data;
pub mod http;
pub mod judge;
pub mod legs;
pub mod page;
pub mod run;
pub mod tool;
pub mod web;

use self::legs::Leg;
use self::run::Run;
use self::tool::{Tool, Version};
use crate::measure::Error;

/// A program of others, and what is done with it.
pub struct Row {
    /// As `--only` names it.
    pub name: &'static str,
    /// What the check does, for the table.
    pub what: &'static str,
    /// What must be installed.
    pub tools: &'static [Tool],
    /// What tells its version.
    pub version: Version,
    /// Content both ways, back-pressure and abrupt ends, in a fresh folder. Legs are those of the content.
    pub check: fn(&Run) -> Result<Vec<Leg>, Error>,
    /// The loads that are measured; none of tests of others.
    pub figures: &'static [Figure],
}

/// Something that is measured natively and under the shim, in turns.
pub struct Figure {
    /// The load, for the table.
    pub what: &'static str,
    /// Of the value; more is better.
    pub unit: &'static str,
    /// One run of about [`Run::time`], with servers of its own.
    pub run: fn(&Run) -> Result<Measured, Error>,
    /// Why it is slower under the shim, if that is known and has to be so.
    pub reason: Option<&'static str>,
}

/// What one run of a figure came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// In the figure's unit.
    pub value: f64,
    /// Of the bytes that were moved meanwhile.
    pub legs: Vec<Leg>,
}

/// All of them, in the order of the table.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    web::ROWS.iter().chain(data::ROWS).copied()
}

/// The row of that name.
pub fn named(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.name == name)
}

#[cfg(test)]
mod tests;
