//! The rules of the protocol on the test bed, in all revisions. One program, so that it is linked once.

mod arrivals;
mod backpressure;
mod batch;
mod cancellation;
mod capabilities;
mod closing;
mod duplicates;
mod envelope;
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
mod words;
