use super::*;

fn us() -> libc::ucred {
    libc::ucred { pid: raw::getpid() as i32, uid: raw::getuid(), gid: 0 }
}

const SEVENTH: Named = Named::from_word(7);

/// How `fd`, which `them` has sent, would be used.
fn taken(fd: i32, them: &libc::ucred) -> Option<How> {
    let how = believed(fd, them).map(|how| how(SEVENTH));
    raw::close(fd);
    how
}

fn one_end(kind: i32) -> i32 {
    let mut pair = [0; 2];
    // SAFETY: two numbers.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }, 0);
    raw::close(pair[1]);
    pair[0]
}

#[test]
fn a_word_says_what_is_known() {
    let [first, last] = [1, u32::MAX >> 1].map(Named::from_word);
    for how in [How::Refused, How::Event(first), How::Pair(first), How::Event(last), How::Pair(last)] {
        for number in [1, 77, u32::MAX] {
            let known = Known { number, how };
            assert_ne!(known.pack(), 0);
            assert_eq!(Known::unpack(known.pack()), known);
        }
    }
}

#[test]
fn an_eventfd_is_taken_of_those_alone_who_may_signal_us() {
    let event = || raw::eventfd().expect("an event");
    assert_eq!(taken(event(), &us()), Some(How::Event(SEVENTH)));
    for them in [libc::ucred { uid: us().uid + 1, ..us() }, libc::ucred { pid: 0, ..us() }] {
        assert_eq!(taken(event(), &them), None);
    }
}

/// A byte of ours, with our credentials, is for whoever made the pair, and it is the one who sent the end.
#[test]
fn an_end_of_a_pair_is_taken_of_the_one_who_made_it() {
    assert_eq!(taken(one_end(libc::SOCK_STREAM), &us()), Some(How::Pair(SEVENTH)));
    for them in [libc::ucred { pid: 1, ..us() }, libc::ucred { uid: us().uid + 1, ..us() }] {
        assert_eq!(taken(one_end(libc::SOCK_STREAM), &them), None);
    }
    assert_eq!(taken(one_end(libc::SOCK_DGRAM), &us()), None);
    let tcp = raw::socket(libc::AF_INET, libc::SOCK_STREAM, 0).expect("a socket");
    assert_eq!(taken(tcp, &us()), None);
}

/// Each costs a descriptor.
#[test]
fn a_stranger_has_us_keep_few_ends() {
    crate::testing::start();
    let link = Link {
        fd: AtomicU32::new(0),
        serial: AtomicU32::new(0),
        users: AtomicU32::new(1),
        reading: AtomicU32::new(0),
        starts: AtomicU32::new(0),
        hello: AtomicU64::new(0),
        theirs: [const { AtomicU64::new(0) }; SETS],
        ours: [const { AtomicU32::new(0) }; SETS],
    };
    let ends: Vec<Named> = (1..=3 * FROM_A_STRANGER as u32)
        .map(|number| {
            let end = Named::mark(own::high(one_end(libc::SOCK_STREAM)).expect("room"));
            link.keep(Known { number, how: How::Pair(end) });
            assert_eq!(link.how(number), Some(How::Pair(end)));
            end
        })
        .collect();
    let new = &ends[ends.len() - FROM_A_STRANGER..];
    assert_eq!(link.theirs.iter().filter(|t| t.load(Ordering::Relaxed) != 0).count(), FROM_A_STRANGER);
    new.iter().for_each(|end| end.close());
}
