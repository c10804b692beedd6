//! HTTP/1 and HTTP/2 on tokio's multi-threaded runtime: `matrix-hyper server PORT`, `matrix-hyper client PORT MODE ...`.

mod client;
mod content;
mod server;

use std::env;
use std::process::ExitCode;

/// Whatever went wrong.
type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["version"] => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        ["server", port] => server::serve(port).await,
        ["client", port, "content", length] => client::content(port, length).await,
        ["client", port, "hold", length] => client::hold(port, length).await,
        ["client", port, "rate", connections, seconds] => client::rate(port, connections, seconds).await,
        _ => Err("usage: matrix-hyper server PORT | client PORT content LENGTH | hold LENGTH | rate CONNECTIONS SECONDS".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("matrix-hyper: {error}: {error:?}");
            ExitCode::FAILURE
        }
    }
}
