//! The test bed of `mcp-proto`: what tests of several crates share.
//!
//! - [`requirements`]: the tables of `tests/requirements` and which of their rows count for coverage
//! - [`citations`]: the `// req:` comments above the tests
//! - [`coverage`]: the report made from both
//! - [`workspace`]: the files of this workspace

pub mod citations;
pub mod coverage;
pub mod requirements;
pub mod workspace;
