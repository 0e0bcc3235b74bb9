//! A peer as the specification has it, plain and slow.
//!
//! It keeps everything in lists, looks for things by walking through them, and builds each frame as a `Value`. Whatever
//! happens to it ([`Step`]) gives what the application hears ([`Seen`]), why the application is refused, and the frames
//! that may be sent next. `tests/tests/model` plays random lists of steps on it and on the real connection side by
//! side, and demands the same of both.
//!
//! Of errors it knows the codes and not the texts, of violations the kinds. Left to other tests are frames that are no
//! messages, discovery, tasks, results that are used again, pings that a connection sends by itself, and what a transport
//! adds.

mod call;
mod hear;
mod listening;
mod modern;
mod output;
mod pause;
mod peer;
mod request;
mod rounds;
mod step;
mod table;

pub use peer::Model;
pub use step::{By, Ending, Reply, Seen, Step, params_of, refusal, result_of};
pub use table::{CALLS, LEVELS, REQUESTS, RESUBSCRIPTIONS, ROUNDS};
