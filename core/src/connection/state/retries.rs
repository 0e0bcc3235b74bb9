//! The calls that are retained until they end because they may be sent again (2026-07-28).

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use crate::{
    cache::{CacheKey, Generation},
    collections::{LazyBox, StaticDefault, WindowMap},
    connection::state::{
        client_subscription::ClientSubscription, input_round::InputRound, outgoing_meta::MetaOptions,
        task_poller::TaskPoller,
    },
    protocol::{MethodName, ProtocolVersion},
    rpc::{CallId, ReplyKey, Timestamp},
    wire::ErrorObject,
};

/// The most spare buffers for params. The next request reuses one instead of allocating.
const SPARE: usize = 64;

/// The largest capacity of a spare buffer, in bytes.
const SPARE_BYTES: usize = 4096;

/// The most `tasks/cancel` calls in flight for tasks that arrived as late results of ended requests. The server
/// determines the number of such results, so they must not take the capacity of the application's calls.
const DISMISSED: usize = 16;

/// A request that is retained until it ends.
#[derive(Clone, Debug)]
pub(crate) struct RetainedCall {
    pub(crate) method: MethodName<'static>,
    /// The revision in which it was last sent. While there is one revision of the modern era, it is that.
    pub(crate) version: ProtocolVersion,
    /// The params as the application wrote them.
    pub(crate) params: Vec<u8>,
    pub(crate) extra: MetaOptions,
    /// The state that few requests have.
    pub(crate) state: LazyBox<RetainedState>,
}

/// The state of a request that is more than one request with one result.
#[derive(Clone, Debug)]
pub(crate) struct RetainedState {
    /// The input requests of its latest result, if any.
    pub(crate) round: InputRound,
    /// The task that the request has become.
    pub(crate) poller: Option<Box<TaskPoller>>,
    /// The cache key, and the generation of the cache at the time of the request, if the result is cacheable.
    pub(crate) cacheable: Option<(Generation, CacheKey)>,
    /// The subscription that the request opens.
    pub(crate) listening: Option<Box<ClientSubscription>>,
    /// Whether the server has refused the revision of the request. A request is renegotiated only once.
    pub(crate) renegotiated: bool,
    /// The time at which to send the request again.
    due: Option<Timestamp>,
}

impl RetainedCall {
    fn weight(&self) -> usize {
        self.params.len() + self.state.allocated().map_or(0, RetainedState::weight)
    }

    /// Returns whether a complete result ends the request, and nothing else is to be done with it.
    pub(crate) fn is_plain(&self) -> bool {
        self.state.allocated().is_none_or(RetainedState::is_plain)
    }

    /// Returns whether the next request consists of what the application has written, and of its `_meta`.
    #[cfg(feature = "http")]
    pub(crate) fn is_unchanged(&self) -> bool {
        self.state.allocated().is_none()
    }

    /// Returns the input requests without a response of the application.
    pub(crate) fn open_input_requests(&self) -> Vec<ReplyKey> {
        let poller = self.state.poller.iter().flat_map(|poller| poller.open_input_requests());
        self.state.round.open_input_requests().chain(poller).collect()
    }

    /// Returns whether an input request waits for a response.
    pub(crate) fn has_open_input(&self) -> bool {
        self.state.round.is_open() || self.state.poller.as_ref().is_some_and(|poller| poller.has_open_input())
    }
}

impl RetainedState {
    const fn new() -> Self {
        Self {
            round: InputRound::new(),
            poller: None,
            cacheable: None,
            listening: None,
            renegotiated: false,
            due: None,
        }
    }

    fn weight(&self) -> usize {
        self.round.weight()
            + self.cacheable.as_ref().map_or(0, |(_, key)| key.len())
            + self.poller.as_ref().map_or(0, |poller| poller.weight())
            + self.listening.as_ref().map_or(0, |listening| listening.weight())
    }

    const fn is_plain(&self) -> bool {
        self.poller.is_none() && self.cacheable.is_none() && self.listening.is_none()
    }
}

impl Default for RetainedState {
    fn default() -> Self {
        Self::new()
    }
}

impl StaticDefault for RetainedState {
    const EMPTY: &'static Self = &Self::new();
}

/// The table of retained requests.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    calls: WindowMap<RetainedCall>,
    /// The call to send again once there is a session, and the error that it ends with if it cannot be sent there.
    deferred: Option<(CallId, ErrorObject)>,
    /// The calls to send again, by due time.
    due: BTreeSet<(Timestamp, CallId)>,
    /// The calls that have become tasks, by task id.
    tasks: BTreeSet<(String, CallId)>,
    /// The latest requests whose response was a task but arrived after they had ended, and the `tasks/cancel` calls for
    /// those tasks.
    dismissed: VecDeque<(u64, CallId)>,
    /// The memory that all retained requests take, in bytes.
    bytes: usize,
    spare: Vec<Vec<u8>>,
    /// Whether a subscription has ended. Changes may have been missed since.
    pub(crate) may_have_missed_changes: bool,
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
            calls: WindowMap::new(),
            deferred: None,
            due: BTreeSet::new(),
            tasks: BTreeSet::new(),
            dismissed: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
            may_have_missed_changes: false,
        }
    }

    /// Returns an empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a buffer for reuse.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE && (1..=SPARE_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    pub(crate) fn begin(
        &mut self,
        call: CallId,
        version: ProtocolVersion,
        method: MethodName<'static>,
        (params, extra): (Vec<u8>, MetaOptions),
    ) {
        let retained = RetainedCall { method, version, params, extra, state: LazyBox::default() };
        self.bytes += retained.params.len();
        self.calls.insert(call.as_u64(), retained);
    }

    pub(crate) fn end(&mut self, call: CallId) {
        let Some(retained) = self.calls.remove(call.as_u64()) else { return };
        self.bytes -= retained.weight();
        self.deferred.take_if(|(deferred, _)| *deferred == call);
        if let Some(state) = retained.state.allocated() {
            if let Some(due) = state.due {
                self.due.remove(&(due, call));
            }
            if let Some(poller) = &state.poller {
                self.tasks.remove(&(poller.task().to_string(), call));
            }
        }
        self.recycle(retained.params);
    }

    /// Records that a call has become a task, and drops its params, which are not needed any more.
    pub(crate) fn add_poller(&mut self, call: CallId, poller: Box<TaskPoller>) {
        self.tasks.insert((poller.task().to_string(), call));
        let params = self.change(call, |retained| {
            retained.state.poller = Some(poller);
            // Requests about a task do not request log messages.
            retained.extra.level = None;
            core::mem::take(&mut retained.params)
        });
        self.recycle(params.unwrap_or_default());
    }

    /// Returns the calls that have become this task.
    pub(crate) fn calls_of_task(&self, task: &str) -> Vec<CallId> {
        let from = (task.to_string(), CallId::from_raw(0));
        self.tasks.range(from..).take_while(|(found, _)| found == task).map(|(_, call)| *call).collect()
    }

    /// Returns whether the engine polls the task if the call becomes one.
    pub(crate) fn follows_tasks(&self, call: CallId) -> bool {
        self.calls.get(call.as_u64()).is_some_and(|retained| retained.extra.follow_task)
    }

    #[cfg(feature = "http")]
    pub(crate) fn has(&self, call: CallId) -> bool {
        self.calls.get(call.as_u64()).is_some()
    }

    pub(crate) fn get(&self, call: CallId) -> Option<&RetainedCall> {
        self.calls.get(call.as_u64())
    }

    /// Changes a retained request and updates the byte count. All changes that affect the weight go through here.
    pub(crate) fn change<R>(&mut self, call: CallId, f: impl FnOnce(&mut RetainedCall) -> R) -> Option<R> {
        let retained = self.calls.get_mut(call.as_u64())?;
        self.bytes -= retained.weight();
        let result = f(retained);
        self.bytes += retained.weight();
        Some(result)
    }

    /// Marks the results of requests in flight as not cacheable, since the principal of the client has changed.
    pub(crate) fn forbid_caching(&mut self) {
        for retained in self.calls.values_mut() {
            if let Some((generation, _)) = retained.state.allocated_mut().and_then(|state| state.cacheable.as_mut()) {
                *generation = Generation::STALE;
            }
        }
    }

    /// Returns whether to cancel the task in the late response to `late`. Each task is cancelled only once, and only
    /// [`DISMISSED`] of these `tasks/cancel` calls may be in flight.
    pub(crate) fn may_dismiss(&self, late: u64, in_flight: impl Fn(CallId) -> bool) -> bool {
        let is_new = self.dismissed.iter().all(|(dismissed, _)| *dismissed != late);
        let is_full = self.dismissed.len() >= DISMISSED;
        is_new && !(is_full && self.dismissed.front().is_some_and(|(_, cancel_call)| in_flight(*cancel_call)))
    }

    /// Records that the task in the late response to `late` was cancelled.
    pub(crate) fn dismiss(&mut self, late: u64, cancel_call: CallId) {
        if self.dismissed.len() >= DISMISSED {
            self.dismissed.pop_front();
        }
        self.dismissed.push_back((late, cancel_call));
    }

    /// Schedules a call to be sent again at this time.
    pub(crate) fn schedule(&mut self, call: CallId, until: Timestamp) {
        let Some(retained) = self.calls.get_mut(call.as_u64()) else { return };
        if let Some(due) = retained.state.due.replace(until) {
            self.due.remove(&(due, call));
        }
        self.due.insert((until, call));
    }

    /// Schedules a call to be sent again once there is a session.
    pub(crate) fn defer(&mut self, call: CallId, error: ErrorObject) {
        self.deferred = Some((call, error));
    }

    pub(crate) fn take_deferred(&mut self) -> Option<(CallId, ErrorObject)> {
        self.deferred.take()
    }

    /// Removes the due time of a call that is sent again now.
    pub(crate) fn unschedule(&mut self, call: CallId) {
        let Some(retained) = self.calls.get_mut(call.as_u64()) else { return };
        if let Some(due) = retained.state.allocated_mut().and_then(|state| state.due.take()) {
            self.due.remove(&(due, call));
        }
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Removes and returns the next call that is due.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<CallId> {
        let (_, call) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.pop_first();
        if let Some(state) = self.calls.get_mut(call.as_u64()).and_then(|retained| retained.state.allocated_mut()) {
            state.due = None;
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
