//! An endpoint in tokio's runtime: a server and ten clients on one thread, none of which waits for another.
//!
//!     cargo run -p dpfd --features tokio --example tokio_echo

use std::error::Error;
use std::time::Duration;

use dpfd::{Addr, AsyncEndpoint};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

const CLIENTS: usize = 10;
const QUESTIONS: usize = 100;

/// Answers until it is told to stop; how often that was.
async fn serve(server: AsyncEndpoint, mut stop: oneshot::Receiver<()>) -> dpfd::Result<usize> {
    let mut answers = 0;
    loop {
        // Calls are cancel-safe: the one that is dropped here has taken no message.
        tokio::select! {
            asked = server.recv() => {
                let asked = asked?; // in place, until it is dropped
                server.send_to(&asked.to_vec(), asked.from()).await?;
                answers += 1;
            }
            _ = &mut stop => return Ok(answers),
        }
    }
}

async fn ask(server: Addr) -> dpfd::Result<()> {
    let client = AsyncEndpoint::open(0).await?; // any number will do
    client.target(server)?;
    for i in 0..QUESTIONS {
        let question = i.to_ne_bytes();
        client.send(&question).await?; // waits while the server has no room
        assert_eq!(client.recv().await?.to_vec(), question);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = AsyncEndpoint::open(0).await?;
    let address = server.addr();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(serve(server, stopped));

    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(ask(address));
    }
    while let Some(client) = timeout(Duration::from_secs(30), clients.join_next()).await? {
        client??;
    }
    drop(stop);
    println!("{CLIENTS} clients, {} answers", server.await??);
    Ok(())
}
