//! Bodies of requests and responses.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

#[cfg(feature = "net")]
use std::sync::Arc;

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::http::response_stream::ResponseStream;
use crate::limits::quota::Permit;

/// The body of a request or a response: whole bytes, or a stream that can last for days.
///
/// Dropping it before its end means that the client has disconnected.
pub struct Body(Content);

enum Content {
    Whole(Bytes),
    Streamed(ResponseStream),
}

impl Body {
    pub(super) fn whole(bytes: Vec<u8>) -> Self {
        Self(Content::Whole(bytes.into()))
    }

    /// Creates the body of a request from shared bytes.
    #[cfg(feature = "net")]
    pub(super) fn shared(bytes: Arc<[u8]>) -> Self {
        Self(Content::Whole(Bytes::from_owner(bytes)))
    }

    pub(super) const fn streamed(response: ResponseStream) -> Self {
        Self(Content::Streamed(response))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self(Content::Whole(Bytes::new()))
    }
}

/// Bytes that are being written to a client. They count for its quota until they are dropped.
struct CountedBytes {
    data: Vec<u8>,
    _permit: Permit,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    /// The response was aborted because the client does not read, or has too much unread output.
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let data = match &mut self.0 {
            Content::Whole(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes)))),
            Content::Streamed(response) => response.poll_data(cx).map(|data| {
                data.map(|data| {
                    let data = data?;
                    let permit = response.permit(data.len())?;
                    Ok(match permit {
                        None => Bytes::from(data),
                        Some(permit) => Bytes::from_owner(CountedBytes { data, _permit: permit }),
                    })
                })
            }),
        };
        data.map(|data| data.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Streamed(response) => response.is_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Streamed(response) => {
                response.rest().map_or_else(SizeHint::default, |len| SizeHint::with_exact(len as u64))
            }
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Content::Whole(_) => "Body::Whole",
            Content::Streamed(_) => "Body::Streamed",
        })
    }
}
