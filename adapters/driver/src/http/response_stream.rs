//! The response to a request.

use std::{
    fmt,
    future::{Future, poll_fn},
    io, mem,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::response::Parts;
use mcp_proto::http::{
    HttpResponse,
    server::{ExchangeId, Output},
};

#[cfg(feature = "endpoint")]
use crate::limits::quota::Permit;
use crate::{
    http::{
        response_slot::{Found, ResponseSlot},
        session::SharedSession,
    },
    limits::quota::Quota,
};
use mcp_service::driver_api::Holder;

/// Smaller chunks are not counted, since a connection holds a bounded number of them.
#[cfg(feature = "endpoint")]
const COUNTED: usize = 4 << 10;

/// The response to a request: a head, chunks of a body, and an end. Chunks are returned as they become available and
/// are not collected: a stream can last for days.
///
/// Dropping it before its end means that the client has disconnected.
#[must_use = "a client waits for the response"]
pub struct ResponseStream {
    pub(super) session: Arc<SharedSession>,
    exchange: ExchangeId,
    slot: Arc<ResponseSlot>,
    ended: bool,
    /// Whether the body was aborted.
    aborted: bool,
    /// Whether the beginning of the body is taken together with the head.
    at_once: bool,
    /// The beginning of the body, if it was taken with the head.
    data: Vec<u8>,
    /// The quota of unwritten bytes, and the client that it counts for.
    counted: Option<(Arc<Quota>, Holder)>,
}

impl ResponseStream {
    /// Creates the response of an exchange with this slot. With `at_once`, the beginning of the body is taken together
    /// with the head.
    pub(super) fn new(
        session: Arc<SharedSession>,
        exchange: ExchangeId,
        (slot, at_once): (Arc<ResponseSlot>, bool),
    ) -> Self {
        Self { session, exchange, slot, ended: false, aborted: false, at_once, data: Vec::new(), counted: None }
    }

    /// Counts unwritten bytes of the body for a client.
    pub(super) fn counted(mut self, quota: Arc<Quota>, holder: Holder) -> Self {
        self.counted = Some((quota, holder));
        self
    }

    /// Counts bytes that are being written to the client, until the permit is dropped.
    ///
    /// # Errors
    /// If the client may not hold so many.
    #[cfg(feature = "endpoint")]
    pub(super) fn permit(&self, bytes: usize) -> io::Result<Option<Permit>> {
        let Some((quota, holder)) = self.counted.as_ref().filter(|_| bytes >= COUNTED) else { return Ok(None) };
        let permit = quota.take(holder, bytes);
        permit.map(Some).ok_or_else(|| io::Error::other("this client has too much that it does not read"))
    }

    /// Returns the status and the headers.
    pub fn head(&mut self) -> impl Future<Output = Parts> + Send {
        poll_fn(|cx| self.poll_head(cx))
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Parts> {
        let mut data = Vec::new();
        match self.poll(cx, &mut data) {
            Poll::Ready(Output::Head(head)) => {
                self.data = data;
                Poll::Ready(head)
            }
            // The core returns the head first.
            Poll::Ready(Output::Data(_) | Output::End | Output::Abort) | Poll::Pending => Poll::Pending,
        }
    }

    /// Returns the next chunk of the body, or `None` at its end.
    ///
    /// # Errors
    /// If the body was aborted: the connection has to be closed without an end of the body.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Vec<u8>>>> {
        if !self.data.is_empty() {
            return Poll::Ready(Some(Ok(mem::take(&mut self.data))));
        }
        if self.aborted {
            return Poll::Ready(Some(Err(io::Error::other("the client has read nothing for too long"))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let mut data = Vec::new();
        match ready!(self.poll(cx, &mut data)) {
            Output::End => Poll::Ready(None),
            Output::Abort => self.poll_data(cx),
            Output::Head(_) | Output::Data(_) => Poll::Ready(Some(Ok(data))),
        }
    }

    /// Returns whether the body has ended.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended && self.data.is_empty()
    }

    /// Returns the number of remaining bytes, if it is known.
    #[must_use]
    pub fn rest(&self) -> Option<usize> {
        self.ended.then_some(self.data.len())
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Output> {
        match ready!(self.slot.poll(cx.waker())) {
            Found::Whole(response) => Poll::Ready(self.take_whole(*response, out)),
            Found::InSession => self.poll_session(cx, out),
        }
    }

    /// Takes the body of a response that is complete, and returns its head.
    fn take_whole(&mut self, response: HttpResponse, out: &mut Vec<u8>) -> Output {
        let (head, body) = response.into_parts();
        (*out, self.ended) = (body, true);
        Output::Head(head)
    }

    fn poll_session(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Output> {
        let mut state = self.session.lock();
        let session = &mut state.binding.session;
        let output = session.poll_output(self.exchange, out);
        let has_data = match output {
            Some(Output::Head(_)) if self.at_once => {
                let next = session.poll_output(self.exchange, out);
                (self.ended, self.aborted) = last(next.as_ref());
                matches!(next, Some(Output::Data(_)))
            }
            Some(Output::Data(_)) => true,
            _ => false,
        };
        // A writer that has the length may never poll for the end, so a pending end is taken now. Nothing else is: a
        // session that fills the queue while it is emptied could keep this busy for ever.
        if has_data && session.is_at_end(self.exchange) {
            (self.ended, self.aborted) = last(session.poll_output(self.exchange, out).as_ref());
        }
        let (ended, aborted) = last(output.as_ref());
        (self.ended, self.aborted) = (self.ended || ended, self.aborted || aborted);
        let whole = if output.is_none() { self.slot.wait(cx.waker()) } else { None };
        if self.ended || self.aborted {
            state.binding.remove_slot(self.exchange);
        }
        self.session.wake_interested(state);
        match (output, whole) {
            (Some(output), _) => Poll::Ready(output),
            (None, Some(response)) => Poll::Ready(self.take_whole(*response, out)),
            (None, None) => Poll::Pending,
        }
    }
}

/// Returns whether an output is the end of the body, and whether it aborts the body.
const fn last(output: Option<&Output>) -> (bool, bool) {
    (matches!(output, Some(Output::End)), matches!(output, Some(Output::Abort)))
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        if !self.ended && !self.aborted {
            let mut state = self.session.lock();
            state.binding.session.handle_disconnect(self.session.now(), self.exchange);
            state.binding.remove_slot(self.exchange);
            self.session.wake_interested(state);
        }
    }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream")
            .field("exchange", &self.exchange)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_end_and_abort_are_last_outputs() {
        assert_eq!([None, Some(&Output::Data(1))].map(last), [(false, false); 2]);
        assert_eq!([&Output::End, &Output::Abort].map(|output| last(Some(output))), [(true, false), (false, true)]);
    }
}
