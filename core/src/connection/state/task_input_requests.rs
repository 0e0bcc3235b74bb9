//! The input requests of one task (2026-07-28) and the state of their responses.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::mem;

use crate::rpc::ReplyKey;

/// All input requests of a task. Only writing and acknowledging responses iterates over all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskInputRequests {
    requests: Vec<TaskInputRequest>,
    /// The index of each input request by name.
    by_name: BTreeMap<Arc<str>, usize>,
    /// The input requests without a response of the application.
    open: BTreeSet<usize>,
    /// The batches with unanswered input requests.
    incomplete: BTreeMap<u32, Incomplete>,
    /// The number of responses in complete batches that have not been sent.
    ready: usize,
    /// The number of responses in flight.
    sending: usize,
    /// The bytes of names and responses.
    bytes: usize,
    /// The number of the current batch.
    batch: u32,
}

#[derive(Clone, Debug)]
struct TaskInputRequest {
    /// The name, as JSON.
    name: Arc<str>,
    /// The batch of the input request. The responses of a batch are sent together.
    batch: u32,
    answer: TaskInputResponse,
}

/// The counts of a batch that waits for responses.
#[derive(Clone, Copy, Debug, Default)]
struct Incomplete {
    open: usize,
    given: usize,
}

/// The response to an input request of a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TaskInputResponse {
    /// The application has not responded yet.
    Open(ReplyKey),
    /// The response as JSON, not sent yet.
    Ready(Vec<u8>),
    /// The response as JSON, in flight.
    Sent(Vec<u8>),
    /// The server has the response or does not need it any more.
    Done,
}

impl TaskInputResponse {
    const fn len(&self) -> usize {
        match self {
            Self::Ready(text) | Self::Sent(text) => text.len(),
            Self::Open(_) | Self::Done => 0,
        }
    }
}

impl TaskInputRequests {
    /// Returns the number of input requests so far.
    pub(crate) const fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns the memory that they take, in bytes.
    pub(crate) const fn weight(&self) -> usize {
        // A growing list may have twice the capacity that it needs, and so may the nodes of a tree.
        const ENTRY: usize = 2 * (size_of::<TaskInputRequest>() + size_of::<(Arc<str>, usize)>() + size_of::<usize>());
        self.requests.len() * ENTRY + self.bytes
    }

    /// Returns whether there was an input request with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the name of an input request, as JSON.
    pub(crate) fn name(&self, at: usize) -> &str {
        self.requests.get(at).map_or("", |request| &*request.name)
    }

    /// Returns the input requests without a response of the application.
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, ReplyKey)> {
        self.open.iter().filter_map(|at| match self.requests.get(*at)?.answer {
            TaskInputResponse::Open(key) => Some((*at, key)),
            _ => None,
        })
    }

    /// Returns whether an input request waits for a response.
    pub(crate) fn has_open_input(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns whether responses are ready to be sent.
    pub(crate) const fn has_responses(&self) -> bool {
        self.ready > 0
    }

    /// Returns whether responses are in flight.
    pub(crate) const fn is_sending(&self) -> bool {
        self.sending > 0
    }

    /// Begins a batch. The responses to the input requests that are added next are sent together.
    pub(crate) const fn begin_batch(&mut self) {
        self.batch = self.batch.saturating_add(1);
    }

    /// Adds an input request that was handed to the application.
    pub(crate) fn insert(&mut self, name: String, key: ReplyKey) {
        let (name, at): (Arc<str>, _) = (name.into(), self.requests.len());
        self.bytes += name.len();
        self.by_name.insert(name.clone(), at);
        self.requests.push(TaskInputRequest { name, batch: self.batch, answer: TaskInputResponse::Done });
        self.set(at, TaskInputResponse::Open(key));
    }

    /// Sets the response to an input request.
    pub(crate) fn set(&mut self, at: usize, answer: TaskInputResponse) {
        let Some(request) = self.requests.get_mut(at) else { return };
        let batch = request.batch;
        self.bytes += answer.len();
        if let TaskInputResponse::Open(_) = answer {
            self.open.insert(at);
            self.incomplete.entry(batch).or_default().open += 1;
        }
        let waits = self.incomplete.get_mut(&batch);
        let was = mem::replace(&mut request.answer, answer);
        self.bytes -= was.len();
        // Responses wait until their batch is complete.
        let given = match waits {
            Some(Incomplete { given, .. }) => given,
            None => &mut self.ready,
        };
        *given += usize::from(matches!(request.answer, TaskInputResponse::Ready(_)));
        *given -= usize::from(matches!(was, TaskInputResponse::Ready(_)));
        self.sending += usize::from(matches!(request.answer, TaskInputResponse::Sent(_)));
        self.sending -= usize::from(matches!(was, TaskInputResponse::Sent(_)));
        if let TaskInputResponse::Open(_) = was {
            self.open.remove(&at);
            let waits = self.incomplete.entry(batch).or_default();
            waits.open -= 1;
            if waits.open == 0 {
                self.ready += waits.given;
                self.incomplete.remove(&batch);
            }
        }
    }

    /// Appends the responses that are ready, as a JSON object, and marks them as in flight.
    pub(crate) fn write_answers(&mut self, out: &mut Vec<u8>) {
        let mut open = b'{';
        for at in 0..self.requests.len() {
            let TaskInputRequest { name, batch, answer } = &self.requests[at];
            let TaskInputResponse::Ready(text) = answer else { continue };
            if self.incomplete.contains_key(batch) {
                continue;
            }
            out.push(open);
            open = b',';
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            out.extend_from_slice(text);
            let sent = TaskInputResponse::Sent(text.clone());
            self.set(at, sent);
        }
        out.push(b'}');
    }

    /// Records whether the responses in flight have arrived. Returns whether there were any.
    pub(crate) fn sent(&mut self, arrived: bool) -> bool {
        if self.sending == 0 {
            return false;
        }
        for at in 0..self.requests.len() {
            if let TaskInputResponse::Sent(text) = &mut self.requests[at].answer {
                let text = mem::take(text);
                // The text was taken out, so `set` cannot subtract its length.
                self.bytes -= text.len();
                self.set(at, if arrived { TaskInputResponse::Done } else { TaskInputResponse::Ready(text) });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rpc::{Incoming, Timestamp},
        wire::RequestId,
    };

    /// Checks that all counts stay equal to the contents under random operations.
    #[test]
    fn counters_agree_with_the_contents() {
        let mut table = Incoming::new(1);
        let key = table.insert(Timestamp::ZERO, RequestId::from(1), ());
        let (mut input_requests, mut state) = (TaskInputRequests::default(), 5);
        for step in 0..20_000_usize {
            crate::test_rng::roll(&mut state);
            let at = (state >> 20) as usize % (input_requests.len() + 1);
            let is_open = input_requests
                .requests
                .get(at)
                .is_some_and(|request| matches!(request.answer, TaskInputResponse::Open(_)));
            match state >> 60 {
                0..5 if input_requests.len() < 100 => input_requests.insert(alloc::format!("\"{step}\""), key),
                5 => input_requests.begin_batch(),
                6..11 if is_open => input_requests.set(at, TaskInputResponse::Ready(b"{}".to_vec())),
                11 if is_open => input_requests.set(at, TaskInputResponse::Done),
                12 | 13 => {
                    let mut out = Vec::new();
                    let had = input_requests.has_responses();
                    input_requests.write_answers(&mut out);
                    assert_eq!(had, out.len() > 1, "{out:?}");
                }
                14 => drop(input_requests.sent(true)),
                _ => drop(input_requests.sent(false)),
            }
            let count = |is: fn(&TaskInputResponse) -> bool| {
                input_requests.requests.iter().filter(|request| is(&request.answer)).count()
            };
            let is_incomplete = |batch| {
                input_requests
                    .requests
                    .iter()
                    .any(|request| request.batch == batch && matches!(request.answer, TaskInputResponse::Open(_)))
            };
            let ready = |request: &&TaskInputRequest| {
                matches!(request.answer, TaskInputResponse::Ready(_)) && !is_incomplete(request.batch)
            };
            assert_eq!(input_requests.open().count(), count(|answer| matches!(answer, TaskInputResponse::Open(_))));
            assert_eq!(input_requests.has_open_input(), input_requests.open().next().is_some());
            assert_eq!(input_requests.ready, input_requests.requests.iter().filter(ready).count());
            assert_eq!(input_requests.sending, count(|answer| matches!(answer, TaskInputResponse::Sent(_))));
            let bytes = |request: &TaskInputRequest| request.name.len() + request.answer.len();
            assert_eq!(input_requests.bytes, input_requests.requests.iter().map(bytes).sum::<usize>());
            assert!(input_requests.requests.iter().all(|request| input_requests.has(&request.name)));
        }
    }
}
