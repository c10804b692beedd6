//! A fault of loom's own, which bounds what `loom_group.rs` can explore. When it is mended, the test here fails, and that bound can go.

use dp_edge::sync::{AtomicU32, Ordering};
use dp_edge::testing::explore;
use loom::sync::Arc;
use loom::thread;

/// One thread stores 1, 2 and 3, another exchanges the 1, and a third one reads the 2 having seen that. loom 0.7.2 then takes the 2
/// for younger than the exchange, as it is, but the 3, which is younger than the 2, not for that as well. So the second thread may
/// read the 2 behind what made it see the 3, which coherence forbids.
#[test]
#[should_panic(expected = "older than a store that happened before")]
fn loom_reads_what_is_older_than_what_it_has_seen() {
    explore(Some(3), || {
        let s: Arc<[AtomicU32; 3]> = Arc::new([0, 0, 0].map(AtomicU32::new));
        let (a, b) = (s.clone(), s.clone());
        let writer = thread::spawn(move || {
            (1..=3).for_each(|n| a[0].store(n, Ordering::Relaxed));
            a[1].store(1, Ordering::Release);
        });
        let reader = thread::spawn(move || {
            if b[2].load(Ordering::Acquire) == 1 {
                b[0].load(Ordering::Relaxed);
            }
        });
        if s[0].compare_exchange(1, 9, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            s[2].store(1, Ordering::Release);
            reader.join().unwrap();
            if s[1].load(Ordering::Acquire) == 1 {
                let read = s[0].load(Ordering::Relaxed);
                assert_ne!(read, 2, "older than a store that happened before");
            }
        } else {
            reader.join().unwrap();
        }
        writer.join().unwrap();
    });
}
