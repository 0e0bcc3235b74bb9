//! A reference model of a peer according to the specification, simple and slow.
//!
//! It stores everything in lists, searches them linearly, and builds each frame as a `Value`. Each [`Step`] returns the
//! events for the application ([`AppEvent`]) and the reason of a rejection. The model also lists the frames that may be
//! sent next. `tests/tests/model` applies random lists of steps to the model and to the real connection, and compares
//! the results.
//!
//! The model has the codes of errors, not their texts, and the kinds of violations. Other tests cover invalid frames,
//! discovery, tasks, the cache, automatic pings, and transports.

mod call;
mod modern;
mod output;
mod pause;
mod peer;
mod receive;
mod request;
mod rounds;
mod step;
mod subscriptions;
mod table;

pub use peer::Model;
pub use step::{AppEvent, CancelSource, Ending, Reply, Step, params_of, refusal, result_of};
pub use table::{CALLS, LEVELS, REQUESTS, RESUBSCRIPTIONS, ROUNDS};
