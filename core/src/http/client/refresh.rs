//! Repetition of a tool call whose headers the server has refused (2026-07-28), after its tool was looked up in a new
//! list of tools.

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use super::{
    Client,
    exchange::{PostRequest, error_of},
};
use crate::{
    codec::Frame,
    connection::Event,
    protocol::Method,
    rpc::CallId,
    wire::{ArrayIter, ErrorCode, ErrorObject, Message, RawJson, RequestId, encode},
};

/// The maximum number of pages of the list that are requested for one tool.
const PAGES: u32 = 16;

/// The timeout of the request for a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls that wait for the list of tools, and calls that were sent again.
#[derive(Debug, Default)]
pub(super) struct Refreshes {
    waiting: Vec<Refresh>,
    /// The bytes of the refusals of the waiting calls, and of the cursors in their requests for pages.
    bytes: usize,
    done: BTreeSet<CallId>,
}

#[derive(Debug)]
struct Refresh {
    call: CallId,
    /// The id of the call on the wire.
    wire: u64,
    tool: String,
    /// The refusal of the call, which becomes its response if the call is not sent again.
    answer: Vec<u8>,
    /// The id of the request for the current page.
    request: u64,
    /// The length of the cursor in that request.
    cursor: usize,
    pages: u32,
}

impl Refresh {
    const fn bytes(&self) -> usize {
        self.answer.len().saturating_add(self.cursor)
    }
}

impl Refreshes {
    /// Returns whether a call was sent again for this reason.
    pub(super) fn has(&self, call: CallId) -> bool {
        self.done.contains(&call)
    }

    /// Returns the bytes of the refusals and cursors that are kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the id on the wire of the call that waits for the response to this request.
    pub(super) fn call_behind(&self, request: u64) -> Option<u64> {
        self.waiting.iter().find(|it| it.request == request).map(|it| it.wire)
    }

    /// Removes the call that waits for the response to this request.
    fn take(&mut self, request: u64) -> Option<Refresh> {
        let index = self.waiting.iter().position(|it| it.request == request)?;
        let refresh = self.waiting.swap_remove(index);
        self.bytes -= refresh.bytes();
        Some(refresh)
    }

    fn push(&mut self, refresh: Refresh) {
        self.bytes += refresh.bytes();
        self.waiting.push(refresh);
    }
}

impl Client {
    /// Requests the list of tools if a response refuses a tool call for a header mismatch. Returns whether it did: the
    /// response is kept then, and the call may be sent again.
    pub(super) fn refresh(&mut self, post: &PostRequest, answer: &[u8]) -> bool {
        let call = post
            .request
            .as_ref()
            .filter(|request| request.method == Some(Method::CallTool))
            .map(|request| (request.call, request.id));
        let is_mismatch = matches!(Message::error_code(answer), Some((ErrorCode::HEADER_MISMATCH, _)));
        let (Some((call, wire)), true, false) = (call, is_mismatch, post.again) else { return false };
        let Some(tool) = tool(&post.body, self.conn.settings().limits.json_depth) else { return false };
        // The bytes of kept responses are limited. Without room, the refusal is final.
        if !self.reserve(answer.len()) {
            return false;
        }
        let Some(request) = self.conn.request_tools(self.clock, None, PAGE_TIMEOUT) else { return false };
        self.refreshes.push(Refresh { call, wire, tool, answer: answer.to_vec(), request, cursor: 0, pages: 1 });
        true
    }

    /// Handles the response to a request, if it was a request for a page of the list of tools. Requests the next page,
    /// or sends the call again. The response is empty if the request has failed.
    pub(super) fn refreshed(&mut self, request: u64, answer: &[u8]) {
        let Some(mut refresh) = self.refreshes.take(request) else { return };
        let depth = self.conn.settings().limits.json_depth;
        let text = core::str::from_utf8(answer).unwrap_or_default();
        let Ok(Message::Response { result, .. }) = Message::parse(text, depth) else { return self.stands(&refresh) };
        let next = result.member("nextCursor");
        let next = next.as_ref().map(RawJson::get).filter(|next| next.starts_with('"'));
        if let Some(next) = next.filter(|_| refresh.pages < PAGES && !names(&result, depth, &refresh.tool)) {
            // The server chooses the length of a cursor, which is a part of the next request. Without room for it, the
            // refusal is final.
            let has_room = self.reserve(refresh.answer.len().saturating_add(next.len()));
            let request = if has_room { self.conn.request_tools(self.clock, Some(next), PAGE_TIMEOUT) } else { None };
            let Some(request) = request else { return self.stands(&refresh) };
            (refresh.request, refresh.cursor, refresh.pages) = (request, next.len(), refresh.pages + 1);
            return self.refreshes.push(refresh);
        }
        if self.conn.resend(refresh.call, refresh.wire) {
            self.refreshes.done.insert(refresh.call);
        } else {
            self.stands(&refresh);
        }
    }

    /// Completes a call with the refusal that was kept, which may have no id or another one.
    fn stands(&mut self, refresh: &Refresh) {
        let error = error_of(&refresh.answer, self.conn.settings().limits.json_depth);
        let error = error.unwrap_or_else(|| ErrorObject::new(ErrorCode::HEADER_MISMATCH, "Header mismatch"));
        let mut frame = Vec::new();
        encode::error(&mut frame, Ok(&RequestId::from(refresh.wire)), &error);
        let event = self.conn.handle_frame(self.clock, Frame::new(&frame)).map(Event::into_owned);
        self.events.extend(event);
    }

    /// Completes calls whose request for the list of tools has failed, and removes calls that have ended.
    pub(super) fn sweep_refreshes(&mut self) {
        let conn = &self.conn;
        let all = core::mem::take(&mut self.refreshes.waiting);
        let (waiting, lost): (Vec<_>, Vec<_>) = all.into_iter().partition(|refresh| conn.awaits(refresh.request));
        self.refreshes.done.retain(|call| conn.has_call(*call));
        self.refreshes.waiting = waiting;
        self.refreshes.bytes -= lost.iter().map(Refresh::bytes).sum::<usize>();
        for refresh in lost {
            self.stands(&refresh);
        }
    }
}

/// Returns the tool that a request calls.
fn tool(body: &[u8], depth: u32) -> Option<String> {
    match Message::parse(core::str::from_utf8(body).ok()?, depth) {
        Ok(Message::Request { params: Some(params), .. }) => params.member("name")?.decode().ok(),
        _ => None,
    }
}

/// Returns whether a page of the list contains this tool.
fn names(page: &RawJson<'_>, depth: u32, tool: &str) -> bool {
    let Some(tools) = page.member("tools") else { return false };
    ArrayIter::new(tools.get(), depth).any(|text| {
        let name = RawJson::trusted(text).member("name").and_then(|name| name.decode::<String>().ok());
        name == Some(tool.to_string())
    })
}
