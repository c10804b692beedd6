//! Positions and cursors. On the heap, so that Miri can run it too: names begin with `ring_`.

use proptest::prelude::*;

use crate::ring::{Cursor, Pos};

const LAST_POS: u64 = (1 << 48) - 1;

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 8 } else { 256 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ring_positions_and_cursors(
        raw in any::<u64>(),
        n in 0..=LAST_POS,
        off in 0..1u16 << 15,
        frozen in any::<bool>(),
    ) {
        let pos = Pos::new(raw);
        prop_assert!(pos.raw() <= LAST_POS);
        prop_assert_eq!(pos.add(n).since(pos), n);
        prop_assert_eq!(Pos::new(pos.raw()), pos);
        let c = Cursor { pos, off, frozen };
        prop_assert_eq!(Cursor::unpack(c.pack()), c);
        prop_assert_eq!(Cursor::unpack(raw).pack(), raw);
    }
}
