// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT

//! The kernel driver's numbers and layouts, for programs in user space.
#![no_std]

mod abi;
pub mod frame;
pub mod frame2;
#[cfg(test)]
mod tests;

pub use abi::*;
