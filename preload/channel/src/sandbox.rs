//! Calls by which a process forbids itself something that the shim needs.
//!
//! A filter that forbids harmless calls only, and one that the kernel then refuses, cannot be told from others here; what
//! can is a question whether filters are to be had.

/// Whether prctl(2) with these arguments restricts the process; `is_null` tells an address that is none.
pub fn by_prctl(option: i32, a: u64, b: u64, is_null: impl Fn(u64) -> bool) -> bool {
    const SIGSEGV_ON_TSC: u64 = libc::PR_TSC_SIGSEGV as u64;
    match (option, a) {
        (libc::PR_SET_SECCOMP, 1) => true,
        (libc::PR_SET_SECCOMP, 2) => !is_null(b),
        // The processor's time stamp counter, which is also how the time is told without a system call.
        (libc::PR_SET_TSC, SIGSEGV_ON_TSC) => true,
        _ => false,
    }
}

/// Whether seccomp(2) with these arguments does.
pub fn by_seccomp(operation: u32, filter: u64, is_null: impl Fn(u64) -> bool) -> bool {
    match operation {
        0 => is_null(filter),
        1 => !is_null(filter),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL: fn(u64) -> bool = |at| at == 0;

    #[test]
    fn a_mode_or_a_filter_restricts_and_a_question_does_not() {
        assert!(by_prctl(libc::PR_SET_SECCOMP, 1, 0, NULL));
        assert!(by_prctl(libc::PR_SET_SECCOMP, 2, 0x7000, NULL));
        assert!(!by_prctl(libc::PR_SET_SECCOMP, 2, 0, NULL));
        assert!(!by_prctl(libc::PR_SET_SECCOMP, 0, 0x7000, NULL));
        assert!(!by_prctl(libc::PR_GET_SECCOMP, 1, 0, NULL));
        assert!(!by_prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, NULL));
        assert!(by_seccomp(0, 0, NULL) && by_seccomp(1, 0x7000, NULL));
        assert!(!by_seccomp(1, 0, NULL) && !by_seccomp(2, 0x7000, NULL));
    }

    #[test]
    fn a_clock_that_kills_restricts_and_one_that_is_allowed_does_not() {
        assert!(by_prctl(libc::PR_SET_TSC, 2, 0, NULL));
        assert!(!by_prctl(libc::PR_SET_TSC, 1, 0, NULL));
        assert!(!by_prctl(libc::PR_GET_TSC, 2, 0, NULL));
    }
}
