use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    protocol::{ProtocolVersion, VersionSet},
    schema::LoggingLevel,
    wire::ErrorObject,
};
use serde_json::json;

use super::body;
use super::pair::{Pair, code};
use crate::{
    client::{Host, pages::PageLimits},
    inbound::context::Context,
    outbound::error::CallError,
    server::{prompt::Prompt, resource::Resource, resource_template::ResourceTemplate, service::Service, tool::Tool},
    util::lock::lock,
};

fn long_service() -> Service {
    let mut builder = Service::builder("test", "1").page_size(2);
    for i in 0..5 {
        builder = builder
            .tool(Tool::new(format!("t{i}"), || ()))
            .prompt(Prompt::new(format!("p{i}"), || ""))
            .resource(Resource::new(format!("r://{i}"), "r", || ""))
            .template(ResourceTemplate::new(format!("u://{i}/{{x}}"), "u", || ""));
    }
    builder.build().expect("a good service")
}

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

// req: PAGE-001 PAGE-003 PAGE-009 PAGE-010 RES-030 M-PAGE-001 M-CACHE-003 M-CACHE-025
#[test]
fn every_list_is_paginated() {
    let service = long_service();
    for version in ProtocolVersion::ALL {
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let mut cursors = Vec::new();
        for (method, member) in LISTS {
            let (mut seen, mut params) = (Vec::new(), json!({}));
            loop {
                let page = body(version, true, pair.send_request(method, params));
                let items = page[member].as_array().expect("an array");
                assert!((1..=2).contains(&items.len()));
                seen.extend(items.iter().cloned());
                let Some(next) = page.get("nextCursor") else { break };
                cursors.push((method, next.clone()));
                params = json!({"cursor": next});
            }
            assert_eq!(seen.len(), 5);
            assert!((1..5).all(|i| !seen[..i].contains(&seen[i])));
        }
        for (method, _) in LISTS {
            for bad in [json!("x"), json!(""), json!("t99"), json!(7)] {
                assert_eq!(code(&pair.send_request(method, json!({"cursor": bad}))), -32602);
            }
            let foreign = cursors.iter().find(|(other, _)| *other != method).map(|(_, cursor)| cursor.clone());
            assert_eq!(code(&pair.send_request(method, json!({"cursor": foreign}))), -32602);
        }
        pair.assert_clean();
    }
}

// req: PAGE-005 PAGE-006 TOOL-040 PROMPT-019
#[test]
fn client_fetches_all_pages() {
    for version in ProtocolVersion::LEGACY {
        let service = long_service();
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let server = pair.to_server();
        let walk = std::thread::spawn(move || {
            let tools: Result<Vec<_>, CallError> = server.all_tools().collect();
            let prompts = server.all_prompts().count();
            let resources = server.all_resources().count();
            let templates = server.all_resource_templates().count();
            (tools.expect("all of them"), prompts, resources, templates)
        });
        let (tools, prompts, resources, templates) = pair.finish(walk);
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["t0", "t1", "t2", "t3", "t4"]);
        assert_eq!((prompts, resources, templates), (5, 5, 5));
    }
}

/// Reads a list from a server whose cursors come from `next`. Returns the number of items, and the error if there is
/// one.
fn walk(limits: PageLimits, next: impl FnMut(usize) -> Option<String> + Send + 'static) -> (usize, Option<CallError>) {
    walk_in(ProtocolVersion::LATEST_LEGACY, limits, next)
}

fn walk_in(
    version: ProtocolVersion,
    limits: PageLimits,
    mut next: impl FnMut(usize) -> Option<String> + Send + 'static,
) -> (usize, Option<CallError>) {
    let mut page = 0;
    let host = Host::builder("client", "1").versions(VersionSet::only(version)).build();
    let pair = Pair::scripted(&host, move |method, params| {
        assert_eq!(method, "tools/list");
        assert_eq!(params.get("cursor").is_some(), page > 0, "cursors come back");
        page += 1;
        let tool = json!({"name": format!("strange name {page}"), "inputSchema": {"type": "object"}});
        Ok(match next(page) {
            Some(cursor) => json!({"tools": [tool], "nextCursor": cursor}),
            None => json!({"tools": [tool]}),
        })
    });
    let server = pair.to_server();
    let walk = std::thread::spawn(move || {
        let (mut count, mut last) = (0, None);
        for tool in server.all_tools().limits(limits) {
            match tool {
                Ok(_) => count += 1,
                Err(error) => last = Some(error),
            }
        }
        (count, last)
    });
    pair.finish(walk)
}

// req: PAGE-004 PAGE-007 PAGE-008
#[test]
fn cursors_are_returned_unchanged_per_session() {
    let cursors = ["0", " ", "{\"page\": 2}", "\u{e4}\n\"\\", "a%20b"];
    for version in ProtocolVersion::LEGACY {
        let host = Host::builder("client", "1").versions(VersionSet::only(version)).build();
        // The same client reads the list in one session after the other, in the second one only in part.
        for most in [usize::MAX, 3, usize::MAX] {
            let received = Arc::new(Mutex::new(Vec::new()));
            let seen = received.clone();
            let pair = Pair::scripted(&host, move |method, params| {
                assert_eq!(method, "tools/list");
                let received = &mut *lock(&seen);
                received.push(params.get("cursor").cloned());
                // All pages have different lengths.
                let tools =
                    (0..received.len()).map(|n| json!({"name": format!("{n}"), "inputSchema": {"type": "object"}}));
                let mut page = json!({"tools": tools.collect::<Vec<_>>()});
                if let Some(cursor) = cursors.get(received.len() - 1) {
                    page["nextCursor"] = json!(cursor);
                }
                Ok(page)
            });
            let server = pair.to_server();
            let walk = std::thread::spawn(move || server.all_tools().take(most).filter(Result::is_ok).count());
            assert_eq!(pair.finish(walk), most.min(1 + 2 + 3 + 4 + 5 + 6), "{version}");
            let received = lock(&received).clone();
            let expected = std::iter::once(None).chain(cursors.iter().map(|cursor| Some(json!(cursor))));
            assert_eq!(received, expected.take(received.len()).collect::<Vec<_>>(), "{version}");
            assert_eq!(received.len(), if most == 3 { 2 } else { cursors.len() + 1 }, "{version}");
        }
    }
}

#[test]
fn endless_lists_end_at_page_limits() {
    let limits = PageLimits { pages: 50, ..PageLimits::default() };
    let is_invalid = |error: &Option<CallError>| matches!(error, Some(CallError::Invalid(_)));

    assert_eq!(walk(limits.clone(), |page| (page < 3).then(|| format!("{page} \"\\\u{e4}"))), (3, None));
    assert_eq!(walk(limits.clone(), |page| (page == 1).then(String::new)), (1, None), "an empty cursor is the end");
    let (count, error) = walk(limits.clone(), |_| Some("same".into()));
    assert!(count <= 2 && is_invalid(&error));
    let (count, error) = walk(limits.clone(), |page| Some((page % 3).to_string()));
    assert!(count <= 4 && is_invalid(&error));
    let (count, error) = walk(limits.clone(), |page| Some(page.to_string()));
    assert!(count == 50 && is_invalid(&error));
    let (count, error) = walk(PageLimits { items: 7, ..limits.clone() }, |page| Some(page.to_string()));
    assert!(count == 7 && is_invalid(&error));
    // Cursors count as all of a page does.
    let (count, error) = walk(PageLimits { bytes: 10_000, ..limits.clone() }, |page| Some(format!("{page:03000}")));
    assert!(count == 3 && is_invalid(&error), "{count} {error:?}");
    let (count, error) = walk(PageLimits { time: Duration::ZERO, ..limits }, |page| Some(page.to_string()));
    assert!(count == 0 && is_invalid(&error));
}

// req: M-PAGE-002 M-PAGE-003 M-PAGE-004
#[test]
fn only_a_missing_cursor_ends_a_list() {
    let modern = ProtocolVersion::V2026_07_28;
    let limits = || PageLimits { pages: 50, ..PageLimits::default() };
    assert_eq!(walk_in(modern, limits(), |page| (page == 1).then(String::new)), (2, None));
    assert_eq!(walk_in(modern, limits(), |page| (page < 3).then(|| format!("{page} \"\\\u{e4}"))), (3, None));
    // The empty text is a cursor like any other, so it must not come twice.
    let (count, error) = walk_in(modern, limits(), |_| Some(String::new()));
    assert!(count <= 2 && matches!(error, Some(CallError::Invalid(_))), "{count} {error:?}");
}

#[test]
fn an_error_ends_a_list() {
    let pair = Pair::scripted(&Host::builder("client", "1").build(), |_, _| Err(ErrorObject::internal("no list")));
    let server = pair.to_server();
    let walk = std::thread::spawn(move || server.all_prompts().collect::<Vec<_>>());
    let found = pair.finish(walk);
    assert!(matches!(found.as_slice(), [Err(CallError::Rpc(_))]));
}

// req: LOG-001 LOG-002 LOG-003 LOG-004 LOG-005 LOG-006 LOG-007
#[test]
fn log_messages_respect_the_client_level() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("log", |context: Context| {
            for level in LoggingLevel::ALL {
                context.log(level, Some("test"), json!({"at": level.as_str()})).wait()?;
            }
            context.log(LoggingLevel::Alert, None, "plain").wait()?;
            Ok::<_, crate::inbound::failure::Failure>("logged")
        }))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::LEGACY {
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let logged = || {
            pair.server.take_lines();
            pair.send_request("tools/call", json!({"name": "log"})).expect("a result");
            let mut lines = pair.server.take_lines();
            let answer = lines.pop().expect("the answer");
            assert!(answer.get("result").is_some(), "the answer comes last");
            lines.into_iter().map(|line| line["params"].clone()).collect::<Vec<_>>()
        };
        let all = logged();
        assert_eq!(all.len(), 9, "all of them, until the client sets a level");
        assert_eq!(all[0], json!({"level": "debug", "logger": "test", "data": {"at": "debug"}}));
        assert_eq!(all[8], json!({"level": "alert", "data": "plain"}));
        for (at, level) in LoggingLevel::ALL.into_iter().enumerate() {
            assert_eq!(pair.send_request("logging/setLevel", json!({"level": level.as_str()})), Ok(json!({})));
            let levels: Vec<_> = logged().iter().map(|params| params["level"].clone()).collect();
            let mut expected: Vec<_> = LoggingLevel::ALL[at..].iter().map(|level| json!(level.as_str())).collect();
            expected.extend((level <= LoggingLevel::Alert).then(|| json!("alert")));
            assert_eq!(levels, expected);
        }
        for bad in [json!({"level": "loud"}), json!({"level": "INFO"}), json!({}), json!({"level": 3})] {
            assert_eq!(code(&pair.send_request("logging/setLevel", bad)), -32602);
        }
        pair.assert_clean();
    }
    // Without the capability no message is sent.
    let service = Service::builder("test", "1")
        .tool(Tool::new("log", |context: Context| context.log(LoggingLevel::Error, None, "x").wait()))
        .disable_capability(mcp_proto::protocol::Capability::Logging)
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    assert_eq!(pair.send_request("tools/call", json!({"name": "log"})).expect("a result")["isError"], true);
    assert!(pair.server.take_lines().iter().all(|line| line.get("method").is_none()));
}

#[test]
fn items_are_removed_by_their_exact_names() {
    #[derive(serde::Deserialize)]
    struct Id {
        id: String,
    }
    let service = Service::builder("test", "1")
        .tool(Tool::new("a", || "text"))
        .prompt(Prompt::new("b", || "text"))
        .resource(Resource::new("test://c", "c", || "text"))
        .template(ResourceTemplate::new("test://{id}/d", "d", |id: Id| id.id))
        .build()
        .expect("a good service");
    type Remove = fn(&Service, &str) -> bool;
    let all: [(Remove, &str); 4] = [
        (Service::remove_tool, "a"),
        (Service::remove_prompt, "b"),
        (Service::remove_resource, "test://c"),
        (Service::remove_template, "test://{id}/d"),
    ];
    for (at, (remove, name)) in all.iter().enumerate() {
        for (_, other) in all.iter().filter(|(_, other)| other != name) {
            assert!(!remove(&service, other), "{other} is another kind than {name}");
        }
        assert!(remove(&service, name), "{at}");
        assert!(!remove(&service, name), "{name} is gone");
    }
}
