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
