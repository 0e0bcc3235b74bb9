//! The test support crate of `mcp-proto`: code that tests of several crates share.
//!
//! - [`testbed`]: a client and a server in memory, under a virtual clock, over [`link`]s with finite buffers
//! - [`message`]: messages as JSON
//! - [`methods`]: the methods of 2026-07-28, as the specification lists them
//! - [`monitor`]: checks the output of a server against its input
//! - [`model`]: a reference model of a peer
//! - [`modern`]: configurations of clients of 2026-07-28, and messages of their servers
//! - [`explore`]: exploration of all orders of events
//! - [`hostile`]: peers that attack
//! - [`simulate`]: simulated runs of one server and many clients, drawn from a seed
//! - [`sessions`]: clients over HTTP that stall, disconnect, resume and cancel
//! - [`harness`]: one side of a connection; the test is the peer
//! - [`requirements`]: the tables of `tests/requirements` and which of their rows count for coverage
//! - [`citations`]: the `// req:` comments above the tests
//! - [`outline`]: the functions of a source file
//! - [`listing`]: the test programs, and the tests that they list
//! - [`coverage`]: the report made from both
//! - [`structure`]: the import circles, layers and lengths of each crate
//! - [`http_server`]: an HTTP server in memory; the test is the client
//! - [`http_client`]: an HTTP client in memory; the test is the server
//! - [`http_pair`]: both of them, connected
//! - [`workspace`]: the files of this workspace

pub mod citations;
pub mod coverage;
pub mod explore;
pub mod harness;
pub mod hostile;
pub mod http_client;
pub mod http_pair;
pub mod http_server;
pub mod link;
pub mod listing;
pub mod message;
pub mod methods;
pub mod model;
pub mod modern;
pub mod monitor;
pub mod outline;
pub mod requirements;
pub mod sessions;
pub mod simulate;
pub mod structure;
pub mod testbed;
pub mod workspace;
