//! The dispatch table of the steps that only a client takes.

use alloc::vec::Vec;

use crate::{
    connection::{
        engine::Engine,
        state::input_round::InputRequestRef,
        types::{Event, Outcome},
    },
    protocol::Method,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::{ErrorObject, RawJson, Repetition, RequestId},
};

/// A handle to an engine whose methods run the client's steps. On a server they do nothing.
pub(crate) struct AsClient<'a>(&'a mut Engine);

impl Engine {
    pub(crate) const fn as_client(&mut self) -> AsClient<'_> {
        AsClient(self)
    }
}

/// Declares the client's steps, each with the value that a server gets instead.
macro_rules! steps {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $(<$life:lifetime>)? ($($arg:ident: $Type:ty),*) $(-> $Returned:ty)?, else $otherwise:expr;
    )*) => {
        /// The client's steps as function pointers. Only the constructor of a client refers to them, so a program that
        /// only contains servers does not link their code.
        #[derive(Clone, Copy)]
        pub(crate) struct Steps {
            $($name: $(for<$life>)? fn(&mut Engine, $($Type),*) $(-> $Returned)?,)*
        }

        impl Steps {
            pub(crate) const ALL: &'static Self = &Self { $($name: Engine::$name,)* };
        }

        impl AsClient<'_> {
            $(
                $(#[$doc])*
                pub(crate) fn $name $(<$life>)? (self, $($arg: $Type),*) $(-> $Returned)? {
                    match self.0.role_state.steps() {
                        Some(steps) => (steps.$name)(self.0, $($arg),*),
                        None => $otherwise,
                    }
                }
            )*
        }
    };
}

steps! {
    // Handshake and era detection.
    fn accept_server(now: Timestamp, result: &RawJson<'_>) -> Option<Event<'static>>, else None;
    fn handshake_refused(now: Timestamp, error: ErrorObject), else ();
    fn probe_answered(now: Timestamp, result: &RawJson<'_>) -> Option<Event<'static>>, else None;
    fn handle_malformed_probe_response(now: Timestamp), else ();
    fn probe_refused(now: Timestamp, again: bool, error: ErrorObject), else ();
    fn probe_unanswered(now: Timestamp), else ();
    fn renegotiate(now: Timestamp, call: CallId, error: &ErrorObject) -> bool, else false;

    // Requests that are sent again.
    fn receive_modern_result<'a>(call: CallId, method: Option<Method>, result: RawJson<'a>, repetition: Repetition) -> Option<Event<'a>>, else None;
    fn respond_to_input_request(key: ReplyKey, input_request: InputRequestRef, answer: Result<Vec<u8>, &ErrorObject>), else ();
    fn send_due(now: Timestamp), else ();

    // Tasks.
    fn task_refused(call: CallId, error: ErrorObject) -> Option<Event<'static>>, else None;
    fn task_timed_out(call: CallId), else ();
    fn handle_task_status(task: &RawJson<'_>), else ();
    fn end_call<'a>(call: CallId, outcome: Outcome<'a>) -> Option<Event<'a>>, else None;
    fn cancel_task(task: &str) -> Option<CallId>, else None;
    fn dismiss_late_task(id: &RequestId, result: &RawJson<'_>), else ();

    // Subscriptions and the cache.
    fn handle_subscription_message(method: Method, params: &RawJson<'_>) -> Option<Option<Event<'static>>>, else None;
    fn subscription_ended<'a>(call: CallId, outcome: Outcome<'a>) -> Option<Event<'a>>, else None;
    fn stop_listening(call: CallId), else ();
    fn handle_change(change: Method, params: Option<&RawJson<'_>>), else ();
    fn note_refusal(call: CallId, error: &ErrorObject), else ();
}
