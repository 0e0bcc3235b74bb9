//! A call of a tool whose headers the server did not like (2026-07-28): the list of tools is looked at again, and the
//! call goes once more.

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use super::{Client, exchange::PostRequest};
use crate::{
    codec::Frame,
    connection::Event,
    protocol::Method,
    rpc::CallId,
    wire::{ArrayIter, ErrorCode, Message, RawJson},
};

/// Pages of the list that are looked at for one tool.
const PAGES: u32 = 16;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Calls that wait for the list of tools, and those that have been sent again.
#[derive(Debug, Default)]
pub(super) struct Refreshes {
    waiting: Vec<Refresh>,
    /// Bytes of the answers of these.
    bytes: usize,
    done: BTreeSet<CallId>,
}

#[derive(Debug)]
struct Refresh {
    call: CallId,
    tool: String,
    /// What the call was answered with, in case that stands.
    answer: Vec<u8>,
    /// The request for the page that is under way.
    asked: u64,
    pages: u32,
}

impl Refreshes {
    /// Whether a call was sent again for this reason.
    pub(super) fn has(&self, call: CallId) -> bool {
        self.done.contains(&call)
    }

    /// Bytes of the answers that are kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, refresh: Refresh) {
        self.bytes += refresh.answer.len();
        self.waiting.push(refresh);
    }
}

impl Client {
    /// Whether an answer is a reason to look at the list of tools again, which has been begun then.
    pub(super) fn refresh(&mut self, post: &PostRequest, answer: &[u8]) -> bool {
        let call = post.asked.as_ref().filter(|asked| asked.method == Some(Method::CallTool)).map(|asked| asked.call);
        let is_mismatch = matches!(Message::error_code(answer), Some((ErrorCode::HEADER_MISMATCH, _)));
        let (Some(call), true, false) = (call, is_mismatch, post.again) else { return false };
        // What is kept is bounded in bytes. Without room the answer stands.
        if self.usage().bytes.saturating_add(answer.len()) > self.options.limits.body_bytes {
            return false;
        }
        let Some(tool) = tool(&post.body, self.conn.settings().limits.json_depth) else { return false };
        let Some(asked) = self.conn.ask_for_tools(self.clock, None, PATIENCE) else { return false };
        self.refreshes.push(Refresh { call, tool, answer: answer.to_vec(), asked, pages: 1 });
        true
    }

    /// A request is answered: it may have been for a page of the list of tools.
    pub(super) fn refreshed(&mut self, asked: u64, answer: &[u8]) {
        let Some(index) = self.refreshes.waiting.iter().position(|it| it.asked == asked) else { return };
        let mut refresh = self.refreshes.waiting.swap_remove(index);
        self.refreshes.bytes -= refresh.answer.len();
        let depth = self.conn.settings().limits.json_depth;
        let text = core::str::from_utf8(answer).unwrap_or_default();
        let Ok(Message::Response { result, .. }) = Message::parse(text, depth) else { return self.stands(&refresh) };
        if !names(&result, depth, &refresh.tool) && refresh.pages < PAGES {
            let next: Option<String> = result.member("nextCursor").and_then(|cursor| cursor.decode().ok());
            if let Some(next) = next
                && let Some(asked) = self.conn.ask_for_tools(self.clock, Some(&next), PATIENCE)
            {
                (refresh.asked, refresh.pages) = (asked, refresh.pages + 1);
                self.refreshes.push(refresh);
                return;
            }
        }
        self.refreshes.done.insert(refresh.call);
        if !self.conn.resend(refresh.call) {
            self.stands(&refresh);
        }
    }

    /// What the call was answered with is its end.
    fn stands(&mut self, refresh: &Refresh) {
        let event = self.conn.handle_frame(self.clock, Frame::new(&refresh.answer)).map(Event::into_owned);
        self.events.extend(event);
    }

    /// Sees to calls whose list of tools does not come, and forgets those that are over.
    pub(super) fn sweep_refreshes(&mut self) {
        let conn = &self.conn;
        let all = core::mem::take(&mut self.refreshes.waiting);
        let (waiting, lost): (Vec<_>, Vec<_>) = all.into_iter().partition(|refresh| conn.awaits(refresh.asked));
        self.refreshes.done.retain(|call| conn.knows(*call));
        self.refreshes.waiting = waiting;
        self.refreshes.bytes -= lost.iter().map(|refresh| refresh.answer.len()).sum::<usize>();
        for refresh in lost {
            self.stands(&refresh);
        }
    }
}

/// The tool that a request calls.
fn tool(body: &[u8], depth: u32) -> Option<String> {
    match Message::parse(core::str::from_utf8(body).ok()?, depth) {
        Ok(Message::Request { params: Some(params), .. }) => params.member("name")?.decode().ok(),
        _ => None,
    }
}

/// Whether a page of the list names this tool.
fn names(page: &RawJson<'_>, depth: u32, tool: &str) -> bool {
    let Some(tools) = page.member("tools") else { return false };
    ArrayIter::new(tools.get(), depth).any(|text| {
        let name = RawJson::trusted(text).member("name").and_then(|name| name.decode::<String>().ok());
        name == Some(tool.to_string())
    })
}
