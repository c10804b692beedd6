use super::*;
use crate::local::Local;
use crate::places::Ends;

/// Takes the third of what it is offered.
struct Slow(u32);

struct Nothing;

impl Message for Nothing {
    fn size(&self) -> usize {
        0
    }
    fn immediate(&self) -> Option<u64> {
        None
    }
    fn copy_from(&self, _: usize, _: &mut [u8]) -> usize {
        0
    }
}

impl Local for Slow {
    type Message = Nothing;

    fn deposit(
        &mut self,
        _: Addr,
        _: Dpid,
        _: &[u8],
        _: Option<u64>,
        published: &mut dyn FnMut(),
    ) -> Deposit {
        self.0 += 1;
        if self.0 < 3 {
            return Deposit::Full;
        }
        published();
        Deposit::Done
    }

    fn reaches(&mut self, _: Addr, _: Dpid) -> bool {
        true
    }

    fn has_room(&mut self, _: Addr, _: Dpid, _: usize) -> bool {
        true
    }
}

#[test]
fn a_message_without_a_place_is_counted_when_it_is_taken_and_not_each_time_that_it_is_offered() {
    let path = std::env::temp_dir().join(format!("dp-node-unkept-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut places = Places::with_room(&path, 1, 0).unwrap();
    let (mut slot, _) = places.begin(2, Ends { here: 1, there: 1 });
    let mut local = Slow(0);
    for (offered, unkept) in [(1, 0), (2, 0), (3, 1), (4, 2)] {
        let mut to = To {
            local: &mut local,
            from: Addr { nid: 2, dpid: 1 },
            to: 1,
            places: &mut places,
            slot: &mut slot,
            admitted: true,
            refused: false,
            absent: false,
        };
        assert_eq!(to.take(b"", None, Place { tag: 1, taken: 1 }), offered > 2);
        assert_eq!(places.counts().unkept, unkept, "offered {offered} times");
    }
    std::fs::remove_file(path).unwrap();
}
