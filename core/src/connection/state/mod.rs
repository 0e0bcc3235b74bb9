//! The state of a connection, one file per topic. Nothing here refers to the engine.

pub(crate) mod batch;
pub(crate) mod client_params;
pub(crate) mod client_start;
pub(crate) mod client_subscription;
pub(crate) mod input_pause;
pub(crate) mod input_round;
pub(crate) mod keepalive;
pub(crate) mod list_changes;
pub(crate) mod modern;
pub(crate) mod outgoing_meta;
pub(crate) mod repeated_parts;
pub(crate) mod retries;
pub(crate) mod stateless_request;
pub(crate) mod streams;
pub(crate) mod subscriptions;
pub(crate) mod tags;
pub(crate) mod task_input_requests;
pub(crate) mod task_poller;
pub(crate) mod task_progress;
