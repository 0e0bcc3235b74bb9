//! The rules of the protocol, in all revisions. They are one test program, which saves linking.

mod arrivals;
mod backpressure;
mod batch;
mod cancellation;
mod capabilities;
mod closing;
mod duplicates;
mod envelope;
mod error_texts;
mod frames;
mod framing;
mod gating;
mod handshake;
mod ids;
mod in_flight;
mod keepalive;
mod lifecycle;
mod limits;
mod logging;
mod negotiation;
mod notifications;
mod output;
mod progress;
mod timeouts;
