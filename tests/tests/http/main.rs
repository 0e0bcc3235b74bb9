//! The HTTP bindings, in all revisions that have one. One program, so that it is linked once.

mod door;
mod eras;
mod old;
mod resumption;
mod session;
mod stateless;
mod streams;
