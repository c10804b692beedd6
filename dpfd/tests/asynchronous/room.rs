//! Back-pressure: senders that wait for room, for a way, for a pool.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use dpfd::AsyncEndpoint;

use crate::kit::*;

/// Sends and receives often enough for the library to know that nobody writes plainly.
async fn warm_up(a: &AsyncEndpoint, b: &AsyncEndpoint) {
    for i in 0..100 {
        a.send(&message(0, i, 16)).await.expect("room");
        assert_eq!(read(&soon("a message", b.recv()).await.expect("a message").to_vec()), (0, i));
    }
}

/// Sends until there is no room; how many went. A sender that found none is told once most of it is back, but the
/// next may find what came back before: so it is tried a few times.
async fn fill(a: &AsyncEndpoint, to: dpfd::Addr, len: usize) -> u32 {
    let (mut n, mut in_vain) = (0, 0);
    while in_vain < 4 {
        if waits(a.send_to(&message(0, n, len), to)).await {
            in_vain += 1;
        } else {
            (n, in_vain) = (n + 1, 0);
        }
        assert!(n < 1_000_000, "the way never fills");
    }
    n
}

#[tokio::test(flavor = "current_thread")]
async fn a_slow_receiver_is_waited_for() {
    for pool in [None, Some(8 << 10)] {
        let (a, b) = pair().await;
        if let Some(pool) = pool {
            b.get_ref().pool(pool).expect("a pool");
        }
        let to = b.addr();
        let full = fill(&a, to, 500).await;
        let sent = Arc::new(AtomicU32::new(full));
        let counted = sent.clone();
        let sender = tokio::spawn(async move {
            for i in full..full + 3000 {
                a.send(&message(0, i, 500)).await.expect("room");
                counted.fetch_add(1, Ordering::Relaxed);
            }
            a
        });
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(sent.load(Ordering::Relaxed), full, "there is no room for more");
        let mut ledger = Ledger::new(1);
        let mut buf = [0; 500];
        for i in 0..full + 3000 {
            if i % 200 == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert!(
                sent.load(Ordering::Relaxed) <= ledger.all()[0] + full + 600,
                "no more than there is room for"
            );
            if pool.is_some() {
                ledger.enter(&soon("a message", b.recv()).await.expect("a message").to_vec());
            } else {
                let n = soon("a message", b.read(&mut buf)).await.expect("a message");
                ledger.enter(&buf[..n]);
            }
        }
        drop(sender.await);
        assert!(waits(b.recv()).await, "nothing came twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_senders_wait_for_one_slow_receiver() {
    let (a, b) = pooled(8 << 10).await;
    let (a, to) = (Arc::new(a), b.addr());
    let senders: Vec<_> = (0..20)
        .map(|sender| {
            let a = a.clone();
            tokio::spawn(async move {
                for i in 0..300 {
                    a.send_to(&message(sender, i, 400), to).await.expect("room");
                }
            })
        })
        .collect();
    let mut ledger = Ledger::new(20);
    for i in 0..20 * 300 {
        if i % 500 == 0 {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        ledger.enter(&soon("a message", b.recv()).await.expect("a message").to_vec());
    }
    for sender in senders {
        sender.await.expect("a sender");
    }
}

#[tokio::test]
async fn a_message_to_nobody_does_not_hold_up_others() {
    // The endpoint's own pair is full of messages for somebody who is not there. Whoever has a receiver goes past.
    let (a, b) = pooled(64 << 10).await;
    warm_up(&a, &b).await;
    let missing = nobody();
    let stuck = fill(&a, missing, 2000).await;
    a.send(&message(1, 100, 16)).await.expect("an edge of its own");
    assert_eq!(read(&soon("a message", b.recv()).await.expect("a message").to_vec()), (1, 100));
    // Somebody new has no link yet, so its first message has no room either, until the link is there.
    let c = open().await;
    soon("a link", a.send_to(&message(2, 0, 16), c.addr())).await.expect("a way");
    assert_eq!(read(&soon("a message", c.recv()).await.expect("a message").to_vec()), (2, 0));
    let late = AsyncEndpoint::open(missing.dpid).await.expect("a free number");
    let mut ledger = Ledger::new(1);
    for _ in 0..stuck {
        ledger.enter(&soon("a message", late.recv()).await.expect("a message").to_vec());
    }
}

#[tokio::test]
async fn large_messages_wait_for_an_absent_receiver() {
    let a = open().await;
    let to = nobody();
    let full = fill(&a, to, 400_000).await;
    let sender = tokio::spawn(async move {
        a.send_to(&message(0, full, 400_000), to).await.expect("a way");
        a
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(!sender.is_finished());
    let b = AsyncEndpoint::open(to.dpid).await.expect("a free number");
    let mut ledger = Ledger::new(1);
    for _ in 0..=full {
        ledger.enter(&soon("a message", b.recv()).await.expect("a message").to_vec());
    }
    drop(sender.await);
}

/// Two endpoints, the first of which has found its way to the second, who reads plainly.
async fn met() -> (AsyncEndpoint, AsyncEndpoint) {
    let (a, b) = pair().await;
    a.send(b"first").await.expect("room");
    assert_eq!(soon("a message", b.read(&mut [0; 8])).await.expect("a message"), 5);
    (a, b)
}

#[tokio::test]
async fn a_large_message_waits_for_a_pool_and_no_longer_than_a_moment() {
    let (a, b) = met().await;
    if !is_plainly_limited(&a) {
        a.send(&message(4, 1, 1 << 20)).await.expect("no need to wait");
        assert!(soon("a message", b.recv()).await.expect("a message").to_vec() == message(4, 1, 1 << 20));
        return;
    }
    let sender = tokio::spawn(async move { a.send(&message(4, 1, 1 << 20)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!sender.is_finished());
    let got = soon("a message", b.recv()).await.expect("a message").to_vec();
    assert!(got == message(4, 1, 1 << 20));
    sender.await.expect("the sender").expect("a pool");
    // A receiver that never gets one cannot take it.
    let (a, _b) = met().await;
    let error = soon("an answer", a.send(&message(4, 2, 1 << 20))).await.unwrap_err();
    assert_eq!(error.errno(), libc::EMSGSIZE, "{error}");
}

#[tokio::test]
async fn several_large_messages_at_once() {
    let (a, b) = pooled(16 << 10).await;
    let sender = tokio::spawn(async move {
        for i in 0..20 {
            a.send(&message(0, i, (16 << 10) * (i as usize % 5 + 1))).await.expect("room");
        }
        a.send(&message(0, 20, 16 << 20)).await.expect("room");
        a
    });
    let mut ledger = Ledger::new(1);
    for _ in 0..21 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        ledger.enter(&soon("a message", b.recv()).await.expect("a message").to_vec());
    }
    drop(sender.await);
}
