//! A `tools/call` through both machines of HTTP: a request's head and body, a response's head and body.

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
