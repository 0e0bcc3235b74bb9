//! A `tools/call` through both machines of HTTP: a request's head and body, a response's head and body.

use mcp_proto::protocol::VersionSet;

use crate::{Case, Web};

pub(super) fn cases() -> Vec<Case> {
    let eras = [("a session", VersionSet::LEGACY), ("2026-07-28", VersionSet::MODERN)];
    let mut cases = Vec::new();
    for (era, versions) in eras {
        for (form, streams) in [("JSON", false), ("a stream", true)] {
            let mut web = Web::new(versions, streams);
            web.call();
            web.bytes = 0;
            web.call();
            let bytes = web.bytes;
            cases.push(Case::new("http", format!("{form}, {era}"), (1, bytes), move || web.call()));
        }
    }
    cases
}
