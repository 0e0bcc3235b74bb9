//! The test bed of `mcp-proto`: what tests of several crates share.
//!
//! - [`bed`]: a client and a server in memory, under a virtual clock, over [`link`]s with finite buffers
//! - [`message`]: messages as JSON
//! - [`methods`]: the methods of 2026-07-28, as the specification lists them
//! - [`monitor`]: what a server may say, held against what it was told
//! - [`model`]: a peer as the specification has it, to compare with
//! - [`modern`]: what a client of 2026-07-28 is configured with, and what servers say to it
//! - [`explore`]: every order in which things can happen
//! - [`hostile`]: peers that do their worst
//! - [`simulate`]: runs of one server and many clients, drawn from a number
//! - [`sessions`]: clients over HTTP that stall, hang up, come back and cancel, and what they are owed
//! - [`solo`]: one end, played against by hand
//! - [`requirements`]: the tables of `tests/requirements` and which of their rows count for coverage
//! - [`citations`]: the `// req:` comments above the tests
//! - [`outline`]: the functions of a source file
//! - [`listing`]: the test programs, and the tests that they list
//! - [`coverage`]: the report made from both
//! - [`structure`]: the import circles, layers and lengths of each crate
//! - [`web`]: an HTTP server in memory, asked by hand
//! - [`caller`]: an HTTP client in memory, answered by hand
//! - [`net`]: both of them, joined
//! - [`workspace`]: the files of this workspace

pub mod bed;
pub mod caller;
pub mod citations;
pub mod coverage;
pub mod explore;
pub mod hostile;
pub mod link;
pub mod listing;
pub mod message;
pub mod methods;
pub mod model;
pub mod modern;
pub mod monitor;
pub mod net;
pub mod outline;
pub mod requirements;
pub mod sessions;
pub mod simulate;
pub mod solo;
pub mod structure;
pub mod web;
pub mod workspace;
