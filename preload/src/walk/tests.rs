use super::*;

fn piece(len: usize) -> iovec {
    iovec { iov_base: core::ptr::without_provenance_mut(1 << 20), iov_len: len }
}

#[test]
fn no_call_moves_more_than_the_kernel_does() {
    let buf = piece(0).iov_base.cast();
    let lengths = [(3 << 30, MOST), (MOST, MOST), (MOST - 1, MOST - 1), (0, 0)];
    for (asked, moved) in lengths {
        assert_eq!(Walk::one(buf, asked).left(), moved);
        // SAFETY: a list of two.
        let list = unsafe { Walk::list([piece(asked), piece(0)].as_ptr(), 2) };
        assert_eq!(list.map(|w| w.left()), Ok(moved));
    }
}

/// The kernel is given no list of the program's from which it would take more.
#[test]
fn a_list_that_is_cut_is_not_the_kernels_as_it_is() {
    let whole = [piece(10), piece(20)];
    let long = [piece(MOST), piece(20)];
    for (list, pieces) in [(&whole, Some(2)), (&long, None)] {
        // SAFETY: a list of two.
        let w = unsafe { Walk::list(list.as_ptr(), 2) }.expect("a list");
        assert_eq!(w.whole_pieces().map(|(_, n, _)| n), pieces);
        let mut out = [piece(0); 4];
        let sum: usize = w.fill_list(&mut out, usize::MAX).iter().map(|v| v.iov_len).sum();
        assert_eq!(sum, w.left());
    }
}

#[test]
fn a_length_of_minus_one_is_none() {
    assert!(is_no_length(usize::MAX) && is_no_length(1 << (usize::BITS - 1)) && !is_no_length(MOST));
    let list = [piece(1), piece(usize::MAX)];
    // SAFETY: a list of two; of 1025 nothing is read.
    unsafe {
        assert_eq!(Walk::list(list.as_ptr(), 2).err(), Some(libc::EINVAL));
        assert_eq!(Walk::list(list.as_ptr(), PIECES + 1).err(), Some(libc::EMSGSIZE));
    }
}

/// The kernel refuses its own half, and a list that nobody can read, before it looks at the connection; the first page it does not.
#[test]
fn some_bad_addresses_are_refused_before_all_else() {
    let at = |addr: usize| core::ptr::without_provenance_mut::<u8>(addr);
    let kernels = cfg!(target_arch = "x86_64");
    for (addr, bad, refused) in
        [(1 << 20, false, false), (8, true, false), (usize::MAX - 4095, kernels, kernels)]
    {
        let list = [piece(5), iovec { iov_base: at(addr).cast(), iov_len: 5 }];
        // SAFETY: a list of two.
        let list = unsafe { Walk::list(list.as_ptr(), 2) }.expect("a list");
        for w in [Walk::one(at(addr), 5), list] {
            assert_eq!((w.is_bad(), w.is_refused()), (bad, refused), "{addr:#x}");
        }
        assert!(!Walk::one(at(addr), 0).is_bad() && !Walk::one(at(addr), 0).is_refused());
    }
    // SAFETY: nothing is read there.
    let nowhere = unsafe { Walk::list(at(8).cast(), 1) }.expect("a list");
    assert!(nowhere.is_bad() && nowhere.is_refused());
}
