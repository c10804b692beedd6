use proptest::prelude::*;

use super::*;

fn from() -> PeerAddr {
    "sim:a".parse().unwrap()
}

#[test]
fn frames_that_do_not_fill_their_bytes_are_none() {
    assert!(Frames::new(&[0; 10], &[4, 6]).is_some());
    assert!(Frames::new(&[0; 10], &[4, 5]).is_none());
    assert!(Frames::new(&[0; 10], &[4, 0, 6]).is_none(), "an empty one");
    assert!(Frames::new(&[0; 65], &[1; 65]).is_none(), "too many");
    assert!(Frames::new(&[0; 65_508], &[65_508]).is_none(), "too long");
}

#[test]
fn a_run_is_equal_frames_and_a_shorter_last_one() {
    let run = |lengths: &[u16], frames, bytes| {
        let all = vec![0; lengths.iter().map(|&n| usize::from(n)).sum()];
        Frames::new(&all, lengths).unwrap().run(frames, bytes)
    };
    assert_eq!(run(&[9, 9, 9], 64, 1000), (3, 27));
    assert_eq!(run(&[9, 9, 3, 9], 64, 1000), (3, 21));
    assert_eq!(run(&[3, 9, 9], 64, 1000), (1, 3));
    assert_eq!(run(&[9, 9, 9], 2, 1000), (2, 18));
    assert_eq!(run(&[9, 9, 9], 1, 1000), (1, 9), "no offload");
    assert_eq!(run(&[9, 9, 9], 64, 20), (2, 18));
    assert_eq!(run(&[9, 9], 64, 1), (1, 9), "at least one");
}

#[test]
fn a_batch_refuses_what_it_has_no_room_for() {
    let mut batch = Batch::new(10);
    assert!(batch.push(6, |room| room.len()));
    assert!(!batch.push(6, |_| 1), "no such room");
    assert!(!batch.push(4, |_| 0), "nothing came");
    assert!(batch.push(4, |_| 2));
    assert_eq!(batch.frames().lengths(), [6, 2]);
    batch.clear();
    assert!(batch.frames().is_empty());
}

#[test]
fn a_slot_that_was_skipped_is_closed_up() {
    let mut all = Received::new(3, 4);
    all.room().copy_from_slice(b"aaaabbbbcccc");
    assert_eq!(all.push(0, from(), 4, 3), 2);
    assert_eq!(all.push(2, from(), 3, 3), 1);
    assert_eq!(all.push(1, from(), 3, 3), 0, "that one is taken");
    assert_eq!(all.push(3, from(), 3, 3), 0, "there is none");
    let frames: Vec<_> = all.iter().map(|(_, frame)| frame.to_vec()).collect();
    assert_eq!(frames, [&b"aaa"[..], b"a", b"ccc"]);
}

#[test]
fn arrivals_that_cannot_be_are_refused() {
    let mut all = Received::new(2, 4);
    assert_eq!(all.push(0, from(), 5, 5), 0);
    assert_eq!(all.push(0, from(), 0, 1), 0);
    assert_eq!(all.push(0, from(), 4, 0), 0);
    assert_eq!(all.iter().count(), 0);
}

proptest! {
    #[test]
    fn what_runs_take_is_all_of_it_in_order(lengths in proptest::collection::vec(1u16..9, 0..BATCH_MAX), most in 1usize..9) {
        let bytes: Vec<u8> = (0..lengths.iter().sum::<u16>()).map(|n| n as u8).collect();
        let all = Frames::new(&bytes, &lengths).unwrap();
        let mut rest = all;
        let mut taken = Vec::new();
        while !rest.is_empty() {
            let (n, sum) = rest.run(most, 20);
            prop_assert!(n >= 1 && n <= most);
            // What segmentation makes of it.
            let first = usize::from(rest.lengths()[0]);
            taken.extend(rest.bytes()[..sum].chunks(first).map(<[u8]>::to_vec));
            rest = rest.after(n);
        }
        let frames: Vec<_> = all.iter().map(<[u8]>::to_vec).collect();
        prop_assert_eq!(taken, frames);
    }
}
