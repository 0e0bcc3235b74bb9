//! The HTTP bindings, in all revisions that have one. They are one test program, which saves linking.

mod authentication;
mod backpressure;
mod batches;
mod bounds;
mod capacity;
mod client_and_server;
mod client_shares;
mod endpoint;
mod eras;
mod expiry;
mod fallback;
mod http_sse;
mod invariants;
mod listening;
mod memory;
mod mirrored_headers;
mod recovery;
mod remote_replay;
mod requests;
mod resumption;
mod retries;
mod scopes;
mod session;
mod stateless;
mod streams;
mod tasks;
