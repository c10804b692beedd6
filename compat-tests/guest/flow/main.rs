// SPDX-License-Identifier: GPL-2.0

//! The tests of dp-flow, in a kernel: by KUnit where there is one, else one after the other when this module is loaded. The log
//! says what KUnit would.

use dp_flow::CASES;
use kernel::prelude::*;

module! {
    type: Tests,
    name: "dp_flow_test",
    authors: ["Directed Point"],
    description: "Directed Point: tests of the reliable layer",
    license: "GPL",
}

struct Tests;

impl kernel::Module for Tests {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        #[cfg(not(CONFIG_KUNIT = "y"))]
        on_an_empty_stack()?;
        Ok(Tests)
    }
}

/// How many there are.
const N: usize = {
    let (mut n, mut module) = (0, 0);
    while module < CASES.len() {
        n += CASES[module].len();
        module += 1;
    }
    n
};

/// The call that loads a module has used a good part of its stack already, and some tests have several flows on theirs.
#[cfg(not(CONFIG_KUNIT = "y"))]
fn on_an_empty_stack() -> Result {
    use kernel::sync::{Arc, Completion};

    let done = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
    let tell = done.clone();
    kernel::workqueue::system().try_spawn(GFP_KERNEL, move || {
        one_after_the_other();
        tell.complete_all();
    })?;
    done.wait_for_completion();
    Ok(())
}

#[cfg(not(CONFIG_KUNIT = "y"))]
fn one_after_the_other() {
    pr_info!("1..{N}\n");
    for (n, (name, test)) in CASES.iter().copied().flatten().enumerate() {
        let said = if kernel_std::passes(*test) { "ok" } else { "not ok" };
        pr_info!("{said} {} {}\n", n + 1, name.to_str().unwrap_or("?"));
    }
}

#[cfg(CONFIG_KUNIT = "y")]
mod by_kunit {
    use core::ffi::CStr;

    use kernel::bindings;
    use kernel::kunit::kunit_case;

    use super::*;

    /// # Safety
    ///
    /// KUnit calls it, with the test that runs.
    unsafe extern "C" fn run(test: *mut bindings::kunit) {
        // SAFETY: by what the caller promises.
        let test = unsafe { &mut *test };
        // SAFETY: it is one of the names below.
        let name = unsafe { CStr::from_ptr(test.name.cast()) };
        let case = CASES.iter().copied().flatten().find(|(of, _)| *of == name);
        if !case.is_some_and(|(_, case)| kernel_std::passes(*case)) {
            test.status = bindings::kunit_status_KUNIT_FAILURE;
        }
    }

    /// They end with one that is nothing.
    const ALL: [bindings::kunit_case; N + 1] = {
        let mut all = [const { pin_init::zeroed() }; N + 1];
        let (mut n, mut module) = (0, 0);
        while module < CASES.len() {
            let mut at = 0;
            while at < CASES[module].len() {
                all[n] = kunit_case(CASES[module][at].0, run);
                n += 1;
                at += 1;
            }
            module += 1;
        }
        all
    };

    static mut TEST_CASES: [bindings::kunit_case; N + 1] = ALL;

    kernel::kunit_unsafe_test_suite!(dp_flow, TEST_CASES);
}
