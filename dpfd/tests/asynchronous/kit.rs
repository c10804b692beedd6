//! What the tests share.

use std::future::Future;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::Once;
use std::time::Duration;

use dpfd::driver::Driver;
use dpfd::{Addr, AsyncEndpoint, Dpid};

/// How long anything may take that happens at all.
pub const SOON: Duration = Duration::from_secs(30);

/// `n` numbers that no other test uses; the first of them.
pub fn numbers(n: u16) -> Dpid {
    static FOLDER: Once = Once::new();
    static NEXT: AtomicU16 = AtomicU16::new(2000);
    FOLDER.call_once(|| {
        let dir = std::env::temp_dir().join(format!("dp-async-{}", std::process::id()));
        std::env::set_var("DP_RUNTIME_DIR", dir);
    });
    NEXT.fetch_add(n, Ordering::Relaxed)
}

pub async fn open() -> AsyncEndpoint {
    AsyncEndpoint::open(numbers(1)).await.expect("a free number")
}

/// Two endpoints, the first with the second as its target.
pub async fn pair() -> (AsyncEndpoint, AsyncEndpoint) {
    let (a, b) = (open().await, open().await);
    a.target(b.addr()).expect("a target");
    (a, b)
}

/// The same, the second in pool mode.
pub async fn pooled(pool: usize) -> (AsyncEndpoint, AsyncEndpoint) {
    let (a, b) = pair().await;
    b.get_ref().pool(pool).expect("a pool");
    (a, b)
}

/// Whether who reads plainly can have only what a packet of a socket carries: with the library's own driver.
pub fn is_plainly_limited(endpoint: &AsyncEndpoint) -> bool {
    endpoint.get_ref().driver() == Driver::User
}

/// An address on which nobody is.
pub fn nobody() -> Addr {
    Addr::local(numbers(1))
}

/// Which sender a message is from, its number, and bytes that follow from them.
pub fn message(sender: u32, number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.max(8)).map(|k| (number as usize * 31 + k * 7) as u8).collect();
    bytes[..4].copy_from_slice(&sender.to_ne_bytes());
    bytes[4..8].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// Whose message it is, and its number.
pub fn read(bytes: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (word(0), word(4))
}

/// What comes, if it comes soon.
pub async fn soon<T>(what: &str, f: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, f).await.unwrap_or_else(|_| panic!("{what}: not within {SOON:?}"))
}

/// Whether `f` waits longer than a moment.
pub async fn waits<T>(f: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(50), f).await.is_err()
}

/// Messages of several senders: each once, and those of one in order.
pub struct Ledger(Vec<u32>);

impl Ledger {
    pub fn new(senders: u32) -> Ledger {
        Ledger(vec![0; senders as usize])
    }

    /// The message is the next of its sender.
    pub fn enter(&mut self, bytes: &[u8]) {
        let (sender, number) = read(bytes);
        let next = &mut self.0[sender as usize];
        assert_eq!(number, *next, "of sender {sender}");
        assert!(bytes == message(sender, number, bytes.len()), "message {number} of sender {sender}");
        *next += 1;
    }

    pub fn all(&self) -> &[u32] {
        &self.0
    }
}
