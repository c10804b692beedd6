//! The requests to the server. Each mode ends well, or with an error that says where it failed.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::content::{check, Pattern};
use crate::Error;

type Asked = BoxBody<Bytes, hyper::Error>;

/// A connection of either kind.
#[derive(Debug)]
enum Sender {
    One(http1::SendRequest<Asked>),
    Two(http2::SendRequest<Asked>),
}

impl Sender {
    async fn one(port: &str) -> Result<Sender, Error> {
        let (sender, connection) = http1::handshake(stream(port).await?).await?;
        run(connection);
        Ok(Sender::One(sender))
    }

    async fn two(port: &str) -> Result<Sender, Error> {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream(port).await?).await?;
        run(connection);
        Ok(Sender::Two(sender))
    }

    async fn ask(&mut self, method: Method, path: &str, length: u64) -> Result<Response<Incoming>, Error> {
        let uri = format!("http://127.0.0.1/{path}");
        let request = Request::builder().method(method).uri(uri).header("host", "127.0.0.1");
        let request = request.body(Pattern::body(length))?;
        let response = match self {
            Sender::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        match response.status().is_success() {
            true => Ok(response),
            false => {
                let words = response.into_body().collect().await?.to_bytes();
                Err(String::from_utf8_lossy(&words).into_owned().into())
            }
        }
    }

    async fn get(&mut self, length: u64, pause: Option<Duration>) -> Result<(), Error> {
        let response = self.ask(Method::GET, &length.to_string(), 0).await?;
        check(response.into_body(), length, pause).await
    }

    async fn put(&mut self, length: u64, query: &str) -> Result<(), Error> {
        let response = self.ask(Method::PUT, &format!("{length}{query}"), length).await?;
        response.into_body().collect().await?;
        Ok(())
    }

    async fn echo(&mut self, length: u64, pause: Option<Duration>) -> Result<(), Error> {
        let response = self.ask(Method::POST, &length.to_string(), length).await?;
        check(response.into_body(), length, pause).await
    }
}

async fn stream(port: &str) -> Result<TokioIo<TcpStream>, Error> {
    let stream = TcpStream::connect(format!("127.0.0.1:{port}")).await?;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(stream))
}

fn run(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) {
    // What goes wrong with it, its sender is told.
    tokio::spawn(async move { drop(connection.await) });
}

/// Every byte of so many, down, up and echoed, at once and slowly, over HTTP/1, over HTTP/2 with streams beside each
/// other, and over a hundred connections. Prints `right`.
pub async fn content(port: &str, length: &str) -> Result<(), Error> {
    let length: u64 = length.parse()?;
    let slowly = Some(Duration::from_millis(1));
    for mut sender in [Sender::one(port).await?, Sender::two(port).await?] {
        sender.get(length, None).await?;
        sender.put(length, "").await?;
        sender.echo(length, None).await?;
        sender.get(length, slowly).await?;
        sender.put(length, "?slowly").await?;
        sender.echo(length, slowly).await?;
        sender.get(1000, None).await?;
    }
    let mut all = JoinSet::new();
    if let Sender::Two(shared) = Sender::two(port).await? {
        for _ in 0..20 {
            let mut sender = Sender::Two(shared.clone());
            all.spawn(async move { sender.echo(length / 20, None).await });
        }
    }
    for number in 0..100 {
        let port = port.to_string();
        all.spawn(async move {
            let mut sender = Sender::one(&port).await?;
            for round in 0..20 {
                sender.echo(1 + 97 * number * round, None).await?;
            }
            sender.echo(length / 100, None).await
        });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    println!("right");
    Ok(())
}

/// Begins a slow download, prints `begun`, and goes on with it.
pub async fn hold(port: &str, length: &str) -> Result<(), Error> {
    let mut sender = Sender::one(port).await?;
    let length: u64 = length.parse()?;
    let mut body = sender.ask(Method::GET, &length.to_string(), 0).await?.into_body();
    for number in 0_u64.. {
        match body.frame().await {
            Some(frame) => drop(frame?),
            None => return Err("the whole answer came".into()),
        }
        if number == 3 {
            println!("begun");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Requests of 1 KiB over so many connections. Prints `COUNT requests in SECONDS s`.
pub async fn rate(port: &str, connections: &str, seconds: &str) -> Result<(), Error> {
    let (connections, time) = (connections.parse::<u64>()?, Duration::from_secs(seconds.parse()?));
    let (count, begin) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let mut all = JoinSet::new();
    for _ in 0..connections {
        let (port, count) = (port.to_string(), count.clone());
        all.spawn(async move {
            let mut sender = Sender::one(&port).await?;
            while begin.elapsed() < time {
                sender.get(1024, None).await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    println!("{} requests in {:.3} s", count.load(Ordering::Relaxed), begin.elapsed().as_secs_f64());
    Ok(())
}
