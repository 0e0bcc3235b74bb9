//! The HTTP bindings, in all revisions that have one. They are one test program, which saves linking.

mod asking;
mod authentication;
mod batches;
mod bounds;
mod elsewhere;
mod endpoint;
mod eras;
mod expiry;
mod fallback;
mod holdings;
mod invariants;
mod joined;
mod listening;
mod mirroring;
mod old;
mod pressure;
mod recovery;
mod repeated;
mod resumption;
mod room;
mod scopes;
mod session;
mod shares;
mod stateless;
mod streams;
mod tasks;
