use super::*;

/// An entry with a different value in each field that may be a descriptor.
fn entry(operation: u8, flags: u8) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[0] = operation;
    entry[1] = flags;
    entry[4..8].copy_from_slice(&10i32.to_ne_bytes());
    entry[8..16].copy_from_slice(&11u64.to_ne_bytes());
    entry[16..24].copy_from_slice(&0x7000u64.to_ne_bytes());
    entry[24..28].copy_from_slice(&3u32.to_ne_bytes());
    entry[44..48].copy_from_slice(&12u32.to_ne_bytes());
    entry
}

fn all(entry: [u8; ENTRY]) -> Vec<Touch> {
    let mut found = Vec::new();
    touches(&entry, |touch| found.push(touch));
    found
}

#[test]
fn reading_writing_and_polling_concern_their_descriptor() {
    // READV, WRITEV, FSYNC, READ_FIXED, WRITE_FIXED, POLL_ADD, RECVMSG, ACCEPT, CONNECT, READ, WRITE, SEND, RECV, SHUTDOWN,
    // URING_CMD, SEND_ZC, READ_MULTISHOT, BIND, LISTEN, RECV_ZC, EPOLL_WAIT, READV_FIXED
    for operation in [1, 2, 3, 4, 5, 6, 10, 13, 16, 22, 23, 26, 27, 34, 46, 47, 49, 56, 57, 58, 59, 60] {
        assert_eq!(all(entry(operation, 0)), [Touch::File(10)], "operation {operation}");
        assert_eq!(all(entry(operation, FIXED)), [], "operation {operation} with an index");
    }
}

#[test]
fn numbers_that_are_no_descriptors_are_not_taken_for_some() {
    for operation in
        [0, 7, 11, 12, 14, 15, 18, 21, 25, 28, 31, 32, 35, 36, 39, 40, 42, 44, 45, 50, 51, 52, 53, 62]
    {
        assert_eq!(all(entry(operation, 0)), [], "operation {operation}");
    }
}

#[test]
fn some_operations_concern_more_than_their_descriptor() {
    assert_eq!(all(entry(op::EPOLL_CTL, 0)), [Touch::File(10), Touch::File(11)]);
    assert_eq!(all(entry(op::SPLICE, 0)), [Touch::File(12), Touch::File(10)]);
    assert_eq!(all(entry(op::SPLICE, FIXED)), [Touch::File(12)]);
    let mut from_the_rings_own = entry(op::TEE, 0);
    from_the_rings_own[28..32].copy_from_slice(&FIXED_IN.to_ne_bytes());
    assert_eq!(all(from_the_rings_own), [Touch::File(10)]);
    assert_eq!(all(entry(op::SENDMSG, 0)), [Touch::File(10), Touch::Message(0x7000)]);
    assert_eq!(all(entry(op::SENDMSG_ZC, FIXED)), [Touch::Message(0x7000)]);
    assert_eq!(all(entry(op::FILES_UPDATE, 0)), [Touch::Files(0x7000, 3)]);
}

#[test]
fn close_concerns_a_descriptor_or_a_file_of_the_rings_own() {
    assert_eq!(all(entry(op::CLOSE, 0)), []);
    let mut by_number = entry(op::CLOSE, 0);
    by_number[44..48].copy_from_slice(&[0; 4]);
    assert_eq!(all(by_number), [Touch::File(10)]);
}

#[test]
fn what_is_not_known_may_be_anything() {
    for operation in [op::FIXED_FD_INSTALL, 63, 64, 65, 255] {
        assert_eq!(all(entry(operation, 0)), [Touch::Anything], "operation {operation}");
        assert_eq!(all(entry(operation, FIXED)), [Touch::Anything], "operation {operation} with an index");
    }
}

#[test]
fn only_rings_that_nobody_else_reads_can_be_followed() {
    let followed: Vec<u32> = (0..32).filter(|bit| can_be_followed(1 << bit)).collect();
    // Not SQPOLL (1), SQ_AFF (2), SQE128 (10), NO_MMAP (14), REGISTERED_FD_ONLY (15), SQE_MIXED (19), SQ_REWIND (20).
    assert_eq!(followed, [0, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 18]);
    assert!(can_be_followed(0));
    assert!(!can_be_followed(1 << 3 | 1 << 1));
}

#[test]
fn registrations_of_files_are_told_from_others() {
    let files: Vec<u32> = (0..40).filter(|&n| !registers_no_files(n)).collect();
    assert_eq!(files, [2, 6, 13, 14, 33, 37, 38, 39]);
    assert!(registers_no_files(1 << 31));
    assert!(!registers_no_files(1 << 31 | 2));
}

#[test]
fn later_libraries_may_submit_in_ways_not_known() {
    assert!(library_is_known((2, 3)) && library_is_known((2, 15)));
    assert!(!library_is_known((2, 16)) && !library_is_known((3, 0)));
}
