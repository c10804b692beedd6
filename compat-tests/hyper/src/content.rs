//! Bytes of which each is a function of its position, so that both sides can check what they receive.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use tokio::time::sleep;

use crate::Error;

/// Of what is sent at once.
const PIECE: u64 = 64 * 1024;

/// So many bytes from position 0 on.
pub struct Pattern {
    at: u64,
    end: u64,
}

impl Pattern {
    /// As a body.
    pub fn body(length: u64) -> BoxBody<Bytes, hyper::Error> {
        Pattern { at: 0, end: length }.map_err(|never| match never {}).boxed()
    }
}

impl Body for Pattern {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let end = self.end.min(self.at + PIECE);
        if self.at == end {
            return Poll::Ready(None);
        }
        let piece: Vec<u8> = (self.at..end).map(byte).collect();
        self.at = end;
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }
}

/// Reads a body to its end, with a pause after each piece, and checks every byte.
pub async fn check(mut body: Incoming, length: u64, pause: Option<Duration>) -> Result<(), Error> {
    let mut at = 0;
    while let Some(frame) = body.frame().await {
        for found in frame?.data_ref().into_iter().flat_map(|data| data.iter()) {
            if *found != byte(at) {
                return Err(format!("the byte at {at} is {found}, and should be {}", byte(at)).into());
            }
            at += 1;
        }
        if let Some(pause) = pause {
            sleep(pause).await;
        }
    }
    match at == length {
        true => Ok(()),
        false => Err(format!("{at} of {length} bytes arrived").into()),
    }
}

/// Repeats nowhere near a buffer's size.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ (at >> 16) as u8
}
