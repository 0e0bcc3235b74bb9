//! A `tools/call` through the HTTP client and the HTTP server: head and body of the request and of the response.

use mcp_proto::protocol::VersionSet;

use crate::{Case, Web, Work};

pub(super) fn cases() -> Vec<Case> {
    let eras = [("a session", VersionSet::LEGACY), ("2026-07-28", VersionSet::ALL)];
    let forms = [("JSON", false), ("a stream", true)];
    let case = |(era, versions), (form, streams)| {
        Case::new("http", format!("{form}, {era}"), move || {
            let mut web = Web::new(versions, streams);
            web.bytes = 0;
            web.call();
            Work::new(1, web.bytes, move || web.call())
        })
    };
    eras.into_iter().flat_map(|era| forms.map(|form| case(era, form))).collect()
}
