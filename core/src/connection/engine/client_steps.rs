//! What only clients do about what happens to a connection.

use alloc::vec::Vec;

use crate::{
    connection::{
        engine::Engine,
        state::input_round::InputRequestRef,
        types::{Event, Outcome},
    },
    protocol::Method,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::{ErrorObject, RawJson, RequestId},
};

/// An engine, for what it does if it is that of a client.
pub(crate) struct AsClient<'a>(&'a mut Engine);

impl Engine {
    pub(crate) const fn as_client(&mut self) -> AsClient<'_> {
        AsClient(self)
    }
}

/// Declares what only clients do, and what comes of it where there is none.
macro_rules! steps {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $(<$life:lifetime>)? ($($arg:ident: $Type:ty),*) $(-> $Returned:ty)?, else $otherwise:expr;
    )*) => {
        /// What only clients do. What makes a client brings it along: so a program that only serves has none of it.
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
    // The beginning.
    fn accept_server(now: Timestamp, result: &RawJson<'_>) -> Option<Event<'static>>, else None;
    fn handshake_refused(now: Timestamp, error: ErrorObject), else ();
    fn probe_answered(now: Timestamp, result: &RawJson<'_>) -> Option<Event<'static>>, else None;
    fn probe_answered_badly(now: Timestamp), else ();
    fn probe_refused(now: Timestamp, again: bool, error: ErrorObject), else ();
    fn probe_unanswered(now: Timestamp), else ();
    fn renegotiate(now: Timestamp, call: CallId, error: &ErrorObject) -> bool, else false;

    // Requests that are sent again.
    fn receive_modern_result<'a>(call: CallId, method: Option<Method>, result: RawJson<'a>) -> Option<Event<'a>>, else None;
    fn answer_question(key: ReplyKey, question: InputRequestRef, answer: Result<Vec<u8>, &ErrorObject>), else ();
    fn send_due(now: Timestamp), else ();

    // Tasks.
    fn task_refused(call: CallId, error: ErrorObject) -> Option<Event<'static>>, else None;
    fn task_silent(call: CallId), else ();
    fn told_of_task(task: &RawJson<'_>), else ();
    fn give_up<'a>(call: CallId, outcome: Outcome<'a>) -> Option<Event<'a>>, else None;
    fn cancel_task(task: &str) -> Option<CallId>, else None;
    fn dismiss_late_task(id: &RequestId, result: &RawJson<'_>), else ();

    // Subscriptions, and what is kept until something changes.
    fn subscription_says(method: Method, params: &RawJson<'_>) -> Option<Option<Event<'static>>>, else None;
    fn subscription_ended<'a>(call: CallId, outcome: Outcome<'a>) -> Option<Event<'a>>, else None;
    fn stop_listening(call: CallId), else ();
    fn hear_of_change(change: Method, params: Option<&RawJson<'_>>), else ();
    fn note_refusal(call: CallId, error: &ErrorObject), else ();
}
