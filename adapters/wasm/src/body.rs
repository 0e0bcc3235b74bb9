//! Bodies of requests and responses that the host receives: streams of bytes.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::Frame;
use js_sys::{Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{ReadableStream, ReadableStreamDefaultReader};

use crate::js::error_text;

/// The body of a received request or response. Dropping it before its end cancels it.
pub(crate) struct InboundBody {
    /// The bytes of a body that was received as a whole.
    whole: Option<Vec<u8>>,
    /// The reader, until the body has ended.
    reader: Option<ReadableStreamDefaultReader>,
    /// The read in progress.
    read: Option<JsFuture>,
}

/// The error of a body that has broken off.
#[derive(Debug)]
pub(crate) struct BrokenBody(JsValue);

impl InboundBody {
    /// Creates the body of a message that has this stream, or none. It is an error if something else reads the stream.
    pub(crate) fn new(stream: Option<ReadableStream>) -> Result<Self, JsValue> {
        if stream.as_ref().is_some_and(ReadableStream::locked) {
            return Err(js_sys::TypeError::new("the body is already being read").into());
        }
        let reader = stream.map(|stream| stream.get_reader().unchecked_into());
        Ok(Self { whole: None, reader, read: None })
    }

    /// Creates the body of a message that was received as a whole.
    pub(crate) const fn whole(bytes: Vec<u8>) -> Self {
        Self { whole: Some(bytes), reader: None, read: None }
    }

    /// Returns the next bytes, or `None` at the end.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, BrokenBody>>> {
        let Some(reader) = &self.reader else { return Poll::Ready(self.whole.take().map(Ok)) };
        let read = self.read.get_or_insert_with(|| JsFuture::from(reader.read()));
        let result = ready!(Pin::new(read).poll(cx));
        self.read = None;
        let chunk = result.and_then(|result| chunk(&result));
        match &chunk {
            Ok(Some(_)) => {}
            Ok(None) => self.reader = None,
            // The stream has not ended if it was a chunk of another type. Its peer would keep the connection.
            Err(_) => self.cancel(),
        }
        Poll::Ready(chunk.map_err(BrokenBody).transpose())
    }

    /// Cancels the body, unless it has ended.
    fn cancel(&mut self) {
        if let Some(reader) = self.reader.take() {
            // The promise is rejected if the body has broken off in the meantime, which has no consequence any more.
            crate::js::ignore(&reader.cancel());
        }
    }
}

/// Returns the bytes of a result of `read`, or `None` at the end.
fn chunk(result: &JsValue) -> Result<Option<Vec<u8>>, JsValue> {
    if Reflect::get(result, &"done".into())?.is_truthy() {
        return Ok(None);
    }
    let value = Reflect::get(result, &"value".into())?;
    let bytes: Uint8Array = value.dyn_into().map_err(|_| js_sys::TypeError::new("a chunk is not an Uint8Array"))?;
    Ok(Some(bytes.to_vec()))
}

impl Drop for InboundBody {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl http_body::Body for InboundBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        self.poll_chunk(cx).map(|chunk| chunk.map(|chunk| chunk.map(|chunk| Frame::data(chunk.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.reader.is_none() && self.whole.is_none()
    }
}

impl fmt::Display for BrokenBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_text(&self.0))
    }
}
