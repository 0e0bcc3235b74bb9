//! Params and results of every revision, as text and as types.

#[path = "../schema_support/mod.rs"]
mod schema_support;

mod gating;
mod input_requests;
mod results;
mod revisions;
mod shapes;
mod task_shapes;
mod tasks;
mod tolerance;
mod utility_shapes;
