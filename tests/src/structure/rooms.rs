//! The rooms of each crate, in layers.

use super::Crate;

/// The published crates, lowest first.
pub const CRATES: [Crate; 6] = [
    Crate {
        name: "mcp-proto",
        folder: "core",
        rooms: &[
            &["codec"],
            &["wire"],
            &["rpc"],
            &["protocol"],
            &["schema"],
            &["cache"],
            &["connection"],
            &["http"],
            &["auth"],
        ],
    },
    Crate {
        name: "mcp-service",
        folder: "adapters/service",
        rooms: &[
            &["util"],
            &["json_schema"],
            &["skills"],
            &["driver_api"],
            &["outbound"],
            &["inbound"],
            &["tasks"],
            &["client", "server"],
            &["testing"],
        ],
    },
    Crate {
        name: "mcp-driver",
        folder: "adapters/driver",
        rooms: &[
            &["runtime", "watch", "options", "error", "restart", "tuning"],
            &["unix"],
            &["process"],
            &["event_loop"],
            &["stream"],
            &["http"],
            &["client", "server", "listener", "supervisor", "handle"],
        ],
    },
    Crate { name: "mcp-blocking", folder: "adapters/blocking", rooms: &[] },
    Crate { name: "mcp-smol", folder: "adapters/smol", rooms: &[] },
    Crate { name: "mcp-tokio", folder: "adapters/tokio", rooms: &[] },
];
