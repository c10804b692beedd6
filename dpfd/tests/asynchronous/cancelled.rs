//! Calls that are dropped before they are ready: nothing is lost, nothing comes twice.

use std::time::Duration;

use tokio::time::timeout;

use crate::kit::*;

/// Different lengths of time, none for long: from none at all to 300 us.
fn moment(i: u32) -> Duration {
    Duration::from_micros(u64::from(i * 37 % 11) * 30)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_receive_takes_no_message() {
    for pool in [false, true] {
        let (a, b) = pair().await;
        if pool {
            b.get_ref().pool(16 << 10).expect("a pool");
        }
        let sender = tokio::spawn(async move {
            for i in 0..3000 {
                a.send(&message(0, i, 40)).await.expect("room");
                if i % 7 == 0 {
                    tokio::time::sleep(Duration::from_micros(100)).await;
                }
            }
            a
        });
        let mut ledger = Ledger::new(1);
        let (mut buf, mut dropped) = ([0; 64], 0);
        while ledger.all()[0] < 3000 {
            let got = if pool {
                timeout(moment(dropped), async { b.recv().await.map(|m| m.to_vec()) }).await
            } else {
                timeout(moment(dropped), async { b.read(&mut buf).await.map(|n| buf[..n].to_vec()) }).await
            };
            match got {
                Ok(got) => ledger.enter(&got.expect("a message")),
                Err(_) => dropped += 1,
            }
            assert!(dropped < 1_000_000, "nothing comes any more");
        }
        drop(sender.await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_send_sends_nothing() {
    // What the sender believes to be sent is what arrives, and nothing else.
    for pool in [None, Some(4096)] {
        let (a, b) = pair().await;
        if let Some(pool) = pool {
            b.get_ref().pool(pool).expect("a pool");
        }
        let sender = tokio::spawn(async move {
            let (mut sent, mut dropped) = (0, 0);
            while sent < 1500 {
                // A dropped one is sent under the same number again: it would come twice.
                match timeout(moment(dropped), a.send(&message(0, sent, 1000))).await {
                    Ok(done) => {
                        done.expect("room");
                        sent += 1;
                    }
                    Err(_) => dropped += 1,
                }
            }
            (a, dropped)
        });
        let mut ledger = Ledger::new(1);
        let mut buf = [0; 1000];
        for i in 0..1500 {
            if i % 300 == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await; // so that room runs out
            }
            if pool.is_some() {
                ledger.enter(&soon("a message", b.recv()).await.expect("a message").to_vec());
            } else {
                let n = soon("a message", b.read(&mut buf)).await.expect("a message");
                ledger.enter(&buf[..n]);
            }
        }
        let (_a, dropped) = sender.await.expect("the sender");
        assert!(dropped > 0, "some were dropped");
        assert!(waits(b.recv()).await, "nothing came twice");
    }
}

#[tokio::test]
async fn select_over_endpoints_loses_none() {
    let (a, b) = pooled(16 << 10).await;
    let (c, d) = pooled(16 << 10).await;
    let sender = tokio::spawn(async move {
        for i in 0..2000 {
            a.send(&message(0, i, 30)).await.expect("room");
            c.send(&message(1, i, 30)).await.expect("room");
            if i % 5 == 0 {
                tokio::task::yield_now().await;
            }
        }
        (a, c)
    });
    let mut ledger = Ledger::new(2);
    for _ in 0..4000 {
        let got = soon("a message", async {
            tokio::select! {
                m = b.recv() => m.map(|m| m.to_vec()),
                m = d.recv() => m.map(|m| m.to_vec()),
            }
        });
        ledger.enter(&got.await.expect("a message"));
    }
    assert_eq!(ledger.all(), [2000, 2000]);
    drop(sender.await);
}

#[tokio::test]
async fn a_dropped_large_send_sends_nothing() {
    // Its receiver reads plainly, so it waits for a pool; or for room, where plain readers can have it.
    let (a, b) = pair().await;
    a.send(b"first").await.expect("room");
    soon("a message", b.read(&mut [0; 8])).await.expect("a message");
    let before = !is_plainly_limited(&a);
    if before {
        a.send(&message(0, 6, 1 << 20)).await.expect("room");
    }
    for _ in 0..20 {
        assert!(timeout(Duration::from_millis(1), a.send(&message(0, 7, 1 << 20))).await.is_err());
    }
    let send = async { a.send(&message(0, 8, 1 << 20)).await.expect("a pool") };
    let receive = async { read(&b.recv().await.expect("a message").to_vec()) };
    if before {
        assert_eq!(read(&soon("a message", b.recv()).await.expect("a message").to_vec()), (0, 6));
    }
    let ((), got) = soon("both", async { tokio::join!(send, receive) }).await;
    assert_eq!(got, (0, 8));
    assert!(waits(b.recv()).await, "only that one");
}
