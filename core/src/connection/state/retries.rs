//! Calls that are kept until they end because they may be sent again (2026-07-28).

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use hashbrown::HashMap;

use crate::{
    cache::{CacheKey, Generation},
    collections::{SequentialHasher, StaticDefault},
    connection::state::{
        client_subscription::Listening, input_round::InputRound, outgoing_meta::MetaOptions, task_poller::TaskPoller,
    },
    protocol::MethodName,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::ErrorObject,
};

/// Buffers for params that wait for the next request, so that it need not allocate one.
const SPARE: usize = 64;

/// A buffer that is larger than this is not kept.
const SPARE_BYTES: usize = 4096;

/// How many tasks may be given up at once that are the late answers of requests. The server decides how many there are,
/// so they are not to take the room of calls.
const DISMISSED: usize = 16;

/// What is kept of a request until it has ended.
#[derive(Clone, Debug)]
pub(crate) struct RetainedCall {
    pub(crate) method: MethodName<'static>,
    /// The params as the application gave them.
    pub(crate) params: Vec<u8>,
    pub(crate) extra: MetaOptions,
    /// What it was answered with, if that were questions.
    pub(crate) round: InputRound,
    /// The task that it has become.
    pub(crate) poller: Option<Box<TaskPoller>>,
    /// What was asked, if the answer may be used again.
    pub(crate) cacheable: Option<(Generation, CacheKey)>,
    /// The subscription that it opens.
    pub(crate) listening: Option<Box<Listening>>,
    /// It was refused for its revision, and that was the one time that it goes again because of that.
    pub(crate) renegotiated: bool,
    /// When it is to be sent again.
    due: Option<Timestamp>,
}

impl RetainedCall {
    fn weight(&self) -> usize {
        self.params.len()
            + self.round.weight()
            + self.cacheable.as_ref().map_or(0, |(_, key)| key.len())
            + self.poller.as_ref().map_or(0, |poller| poller.weight())
            + self.listening.as_ref().map_or(0, |listening| listening.weight())
    }

    /// The questions that the application has and has not answered.
    pub(crate) fn open_questions(&self) -> Vec<ReplyKey> {
        let poller = self.poller.iter().flat_map(|poller| poller.open_questions());
        self.round.open_questions().chain(poller).collect()
    }

    /// Whether the application has questions to answer.
    pub(crate) fn is_asking(&self) -> bool {
        self.round.is_open() || self.poller.as_ref().is_some_and(|poller| poller.is_asking())
    }
}

/// The requests that are kept.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    calls: HashMap<CallId, RetainedCall, SequentialHasher>,
    /// What is sent again as soon as there is a session, and what it ends with if there is none.
    deferred: Option<(CallId, ErrorObject)>,
    /// What is to be sent again, and when.
    due: BTreeSet<(Timestamp, CallId)>,
    /// The tasks that calls have become.
    tasks: BTreeSet<(String, CallId)>,
    /// The latest requests that were answered with tasks after they were over, and the calls that have cancelled those
    /// tasks.
    dismissed: VecDeque<(u64, CallId)>,
    /// What all of it weighs.
    bytes: usize,
    spare: Vec<Vec<u8>>,
    /// A subscription has ended, and changes may have been missed since.
    pub(crate) was_deaf: bool,
}

impl Default for Retries {
    fn default() -> Self {
        Self::new()
    }
}

impl StaticDefault for Retries {
    const EMPTY: &'static Self = &Self::new();
}

impl Retries {
    const fn new() -> Self {
        Self {
            calls: HashMap::with_hasher(SequentialHasher),
            deferred: None,
            due: BTreeSet::new(),
            tasks: BTreeSet::new(),
            dismissed: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
            was_deaf: false,
        }
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// A buffer that is not needed any more.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE && (1..=SPARE_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    pub(crate) fn begin(&mut self, call: CallId, method: MethodName<'static>, params: Vec<u8>, extra: MetaOptions) {
        let kept = RetainedCall {
            method,
            params,
            extra,
            round: InputRound::default(),
            poller: None,
            cacheable: None,
            listening: None,
            renegotiated: false,
            due: None,
        };
        self.bytes += kept.weight();
        self.calls.insert(call, kept);
    }

    pub(crate) fn end(&mut self, call: CallId) {
        let Some(kept) = self.calls.remove(&call) else { return };
        self.bytes -= kept.weight();
        if let Some(due) = kept.due {
            self.due.remove(&(due, call));
        }
        self.deferred.take_if(|(deferred, _)| *deferred == call);
        if let Some(poller) = kept.poller {
            self.tasks.remove(&(poller.task().to_string(), call));
        }
        self.give_back(kept.params);
    }

    /// A call has become a task: its params are not needed any more.
    pub(crate) fn add_poller(&mut self, call: CallId, poller: Box<TaskPoller>) {
        self.tasks.insert((poller.task().to_string(), call));
        let params = self.change(call, |kept| {
            kept.poller = Some(poller);
            // Nothing is logged for a task.
            kept.extra.level = None;
            core::mem::take(&mut kept.params)
        });
        self.give_back(params.unwrap_or_default());
    }

    /// The calls that have become this task.
    pub(crate) fn calls_of_task(&self, task: &str) -> Vec<CallId> {
        let from = (task.to_string(), CallId::from_raw(0));
        self.tasks.range(from..).take_while(|(found, _)| found == task).map(|(_, call)| *call).collect()
    }

    /// Whether the application wants a call to go on if it becomes a task.
    pub(crate) fn follows_tasks(&self, call: CallId) -> bool {
        self.calls.get(&call).is_some_and(|kept| kept.extra.follow_task)
    }

    #[cfg(feature = "http")]
    pub(crate) fn has(&self, call: CallId) -> bool {
        self.calls.contains_key(&call)
    }

    pub(crate) fn get(&self, call: CallId) -> Option<&RetainedCall> {
        self.calls.get(&call)
    }

    /// The one way to change what is kept: its weight may change, too.
    pub(crate) fn change<R>(&mut self, call: CallId, f: impl FnOnce(&mut RetainedCall) -> R) -> Option<R> {
        let kept = self.calls.get_mut(&call)?;
        self.bytes -= kept.weight();
        let result = f(kept);
        self.bytes += kept.weight();
        Some(result)
    }

    /// Marks the results of requests in flight as not cacheable, since the principal of the client has changed.
    pub(crate) fn forbid_caching(&mut self) {
        for kept in self.calls.values_mut() {
            if let Some((generation, _)) = &mut kept.cacheable {
                *generation = Generation::STALE;
            }
        }
    }

    /// Whether a task that `late` was answered with is to be given up: not twice, and only if few are given up like
    /// that at the moment. The `tasks/cancel` calls are `in_flight` for a while.
    pub(crate) fn may_dismiss(&self, late: u64, in_flight: impl Fn(CallId) -> bool) -> bool {
        let is_new = self.dismissed.iter().all(|(dismissed, _)| *dismissed != late);
        let is_full = self.dismissed.len() >= DISMISSED;
        is_new && !(is_full && self.dismissed.front().is_some_and(|(_, cancel_call)| in_flight(*cancel_call)))
    }

    /// Remembers that the task that `late` was answered with was given up.
    pub(crate) fn dismiss(&mut self, late: u64, cancel_call: CallId) {
        if self.dismissed.len() >= DISMISSED {
            self.dismissed.pop_front();
        }
        self.dismissed.push_back((late, cancel_call));
    }

    /// Has a call sent again at this time.
    pub(crate) fn wait(&mut self, call: CallId, until: Timestamp) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        if let Some(due) = kept.due.replace(until) {
            self.due.remove(&(due, call));
        }
        self.due.insert((until, call));
    }

    /// Has a call sent again as soon as there is a session.
    pub(crate) fn defer(&mut self, call: CallId, error: ErrorObject) {
        self.deferred = Some((call, error));
    }

    pub(crate) fn take_deferred(&mut self) -> Option<(CallId, ErrorObject)> {
        self.deferred.take()
    }

    /// A call is sent again before its time.
    pub(crate) fn wait_no_longer(&mut self, call: CallId) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        if let Some(due) = kept.due.take() {
            self.due.remove(&(due, call));
        }
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the next call that is to be sent again now.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<CallId> {
        let (_, call) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.pop_first();
        if let Some(kept) = self.calls.get_mut(&call) {
            kept.due = None;
        }
        Some(call)
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}
