//! Many tasks, many endpoints.

use std::sync::Arc;

use dpfd::AsyncEndpoint;
use tokio::sync::{mpsc, Semaphore};
use tokio::task::JoinSet;

use crate::kit::*;

const TASKS: u32 = 16;
const EACH: u32 = 2000;

/// Sends as one of many: small messages, and now and then a larger one.
async fn send_all(endpoint: Arc<AsyncEndpoint>, sender: u32, to: dpfd::Addr) {
    for i in 0..EACH {
        let len = if i % 97 == 0 { 3000 } else { 8 + (i % 60) as usize };
        endpoint.send_to(&message(sender, i, len), to).await.expect("room");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_with_an_endpoint_each() {
    let receiver = open().await;
    receiver.get_ref().pool(256 << 10).expect("a pool");
    let mut senders = JoinSet::new();
    for sender in 0..TASKS {
        let to = receiver.addr();
        senders.spawn(async move { send_all(Arc::new(open().await), sender, to).await });
    }
    let mut ledger = Ledger::new(TASKS);
    for _ in 0..TASKS * EACH {
        ledger.enter(&soon("a message", receiver.recv()).await.expect("a message").to_vec());
    }
    senders.join_all().await;
    assert!(ledger.all().iter().all(|n| *n == EACH));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_that_share_one_endpoint() {
    let (a, b) = pooled(32 << 10).await;
    let (a, to) = (Arc::new(a), b.addr());
    let mut senders = JoinSet::new();
    for sender in 0..TASKS {
        senders.spawn(send_all(a.clone(), sender, to));
    }
    let mut ledger = Ledger::new(TASKS);
    for _ in 0..TASKS * EACH {
        ledger.enter(&soon("a message", b.recv()).await.expect("a message").to_vec());
    }
    senders.join_all().await;
    assert!(ledger.all().iter().all(|n| *n == EACH));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_that_receive_on_one_endpoint() {
    // Which task gets which message is open; each goes to one, and none is left while somebody waits.
    let (a, b) = pooled(32 << 10).await;
    let b = Arc::new(b);
    let (told, mut tells) = mpsc::unbounded_channel();
    let mut receivers = JoinSet::new();
    for _ in 0..TASKS {
        let (b, told) = (b.clone(), told.clone());
        receivers.spawn(async move {
            loop {
                let got = b.recv().await.expect("a message").to_vec();
                told.send(read(&got).1).expect("the test");
            }
        });
    }
    let all = EACH * 4;
    let sender = tokio::spawn(async move {
        for i in 0..all {
            a.send(&message(0, i, 8 + (i % 90) as usize)).await.expect("room");
            if i % 50 == 0 {
                tokio::task::yield_now().await;
            }
        }
        a
    });
    let mut got = Vec::new();
    for _ in 0..all {
        got.push(soon("a message", tells.recv()).await.expect("a receiver"));
    }
    got.sort_unstable();
    assert!(got.into_iter().eq(0..all));
    drop(sender.await);
}

#[tokio::test(flavor = "current_thread")]
async fn a_hundred_endpoints_on_one_thread() {
    const ENDPOINTS: usize = 100;
    const ROUNDS: u32 = 50;
    let mut servers = JoinSet::new();
    let mut addresses = Vec::new();
    for k in 0..ENDPOINTS {
        let server = open().await;
        addresses.push(server.addr());
        servers.spawn(async move {
            let mut buf = [0; 64];
            for _ in 0..ROUNDS {
                // Some in either mode.
                if k % 2 == 0 {
                    let asked = server.recv().await.expect("a question");
                    server.send_to(&asked.to_vec(), asked.from()).await.expect("room");
                } else {
                    let n = server.read(&mut buf).await.expect("a question");
                    let (asker, _) = read(&buf[..n]);
                    server.send_to(&buf[..n], dpfd::Addr::local(asker as u16)).await.expect("room");
                }
            }
        });
    }
    let mut clients = JoinSet::new();
    let answered = Arc::new(Semaphore::new(0));
    for to in addresses {
        let answered = answered.clone();
        clients.spawn(async move {
            let client = open().await;
            client.target(to).expect("a target");
            for i in 0..ROUNDS {
                let question = message(u32::from(client.dpid()), i, 20);
                client.send(&question).await.expect("room");
                let answer = soon("an answer", client.recv()).await.expect("an answer");
                assert_eq!(answer.to_vec(), question);
                answered.add_permits(1);
            }
        });
    }
    clients.join_all().await;
    servers.join_all().await;
    assert_eq!(answered.available_permits(), ENDPOINTS * ROUNDS as usize);
}

#[tokio::test(flavor = "current_thread")]
async fn a_task_that_always_finds_a_message_lets_others_run() {
    let (a, b) = pooled(1 << 20).await;
    let mut turns = 0;
    let mut sent = 0;
    // Both at once on one thread, and a third that counts: whoever never yielded would be alone.
    let talk = async {
        for i in 0..20_000 {
            a.send(&message(0, i, 16)).await.expect("room");
            drop(b.recv().await.expect("a message"));
            sent += 1;
        }
    };
    let count = async {
        loop {
            tokio::task::yield_now().await;
            turns += 1;
        }
    };
    tokio::select! {
        biased;
        () = talk => {}
        () = count => {}
    }
    assert_eq!(sent, 20_000);
    assert!(turns > 10, "{turns} turns");
}
