//! GET /LENGTH sends so many bytes, PUT /LENGTH checks them, POST sends back what comes; a query makes it pause.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;

use crate::content::{check, Pattern};
use crate::Error;

/// A task for each connection.
pub async fn serve(port: &str) -> Result<(), Error> {
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let server = Builder::new(TokioExecutor::new());
            // A client that is gone is its own business.
            drop(server.serve_connection(TokioIo::new(stream), service_fn(answer)).await);
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, hyper::Error>>, Error> {
    let length = request.uri().path().trim_start_matches('/').parse()?;
    let pause = request.uri().query().map(|_| Duration::from_millis(1));
    let body = match *request.method() {
        Method::POST => request.into_body().boxed(),
        Method::PUT => match check(request.into_body(), length, pause).await {
            Ok(()) => words("right"),
            Err(error) => {
                let mut bad = Response::new(words(&error.to_string()));
                *bad.status_mut() = StatusCode::BAD_REQUEST;
                return Ok(bad);
            }
        },
        _ => Pattern::body(length),
    };
    Ok(Response::new(body))
}

fn words(text: &str) -> BoxBody<Bytes, hyper::Error> {
    Full::new(Bytes::from(text.to_string())).map_err(|never| match never {}).boxed()
}
