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
            &["sync", "tuning", "options", "stop"],
            &["watch"],
            &["runtime"],
            &["limits"],
            &["event_loop"],
            &["stream"],
            &["unix"],
            &["process"],
            &["error"],
            &["handle"],
            &["client", "server", "supervisor"],
            &["listener"],
            &["http"],
        ],
    },
    Crate {
        name: "mcp-blocking",
        folder: "adapters/blocking",
        rooms: &[
            &["transport"],
            &["fd"],
            &["child"],
            &["thread_driver"],
            &["handle"],
            &["client", "server"],
            &["listener", "supervisor"],
            &["http"],
        ],
    },
    Crate {
        name: "mcp-smol",
        folder: "adapters/smol",
        rooms: &[
            &["executor"],
            &["driver", "io"],
            &["transport"],
            &["child"],
            &["client", "server", "listener"],
            &["supervisor"],
            &["http"],
        ],
    },
    Crate {
        name: "mcp-tokio",
        folder: "adapters/tokio",
        rooms: &[
            &["threads"],
            &["driver", "io"],
            &["transport"],
            &["child"],
            &["client", "server", "listener"],
            &["supervisor"],
            &["http"],
        ],
    },
];
