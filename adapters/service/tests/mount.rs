//! A service that offers the items of another one.

use mcp_proto::{protocol::ProtocolVersion, schema::ToolsListChangedParams};
use mcp_service::{
    CallError, CompletionRequest, Context, Failure, Host, IncomingRequest, Next, Prompt, RegisterError, Resource,
    ResourceTemplate, Service, Tool, testing::TestClient,
};

fn part() -> Service {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Sum {
        a: u8,
        b: u8,
    }
    #[derive(serde::Deserialize)]
    struct Id {
        id: u8,
    }
    Service::builder("part", "1.0.0")
        .subscriptions()
        .tool(Tool::new("add", |sum: Sum| u16::from(sum.a) + u16::from(sum.b)))
        .tool(Tool::new_async("count", async |context: Context| {
            context.progress(1.0, None, None).await?;
            Ok::<_, Failure>(context.service().info().name.clone())
        }))
        .prompt(Prompt::new("hello", || "Hello!").description("Says hello"))
        .resource(Resource::new("part://a", "a", || "contents"))
        .template(
            ResourceTemplate::new("part://{id}/b", "b", |id: Id| id.id.to_string())
                .complete("id", |_: CompletionRequest| vec!["7".to_owned()]),
        )
        .build()
        .expect("a service")
}

fn whole(part: &Service) -> Service {
    Service::builder("whole", "1.0.0").subscriptions().mount("p", part).build().expect("a service")
}

#[test]
fn mounted_items_have_the_prefix_and_work() -> Result<(), CallError> {
    let part = part();
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let client = TestClient::of(&whole(&part)).version(version).connect();
        let tools = client.run(client.server().all_tools().try_collect())?;
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["p__add", "p__count"]);
        let sum = client.call_tool("p__add", serde_json::json!({"a": 200, "b": 100}))?;
        assert_eq!(sum.content[0].as_text(), Some("300"));
        // Arguments are checked.
        let wrong = client.call_tool("p__add", serde_json::json!({"a": 1000, "b": 1}));
        assert!(wrong.map_or(true, |result| result.is_error()));
        // The context is that of the whole.
        assert_eq!(client.call_tool("p__count", ())?.content[0].as_text(), Some("whole"));
        assert_eq!(client.get_prompt("p__hello", ())?.messages[0].content.as_text(), Some("Hello!"));
        assert_eq!(client.read_resource("p+part://a")?.contents[0].uri(), "p+part://a");
        assert_eq!(client.read_resource("p+part://7/b")?.contents[0].uri(), "p+part://7/b");
        assert!(client.read_resource("p+part://x/b").is_err_and(|error| error.is_resource_not_found()));
        assert!(client.read_resource("part://a").is_err_and(|error| error.is_resource_not_found()));
        let reference = mcp_proto::schema::ResourceTemplateReference::new("p+part://{id}/b");
        let completed = client.wait(client.server().complete(reference, "id", "", ())?)?;
        assert_eq!(completed.completion.values, ["7"]);
        assert!(client.call_tool("add", ()).is_err(), "it has no other name");
        client.assert_idle();
    }
    Ok(())
}

#[test]
fn changes_of_the_part_are_changes_of_the_whole() -> Result<(), CallError> {
    let part = part();
    let whole = whole(&part);
    let (sent, got) = std::sync::mpsc::channel();
    let host =
        Host::builder("test", "1.0.0").on(move |_: ToolsListChangedParams, _| sent.send(()).expect("open")).build();
    let client = TestClient::of(&whole).host(&host).version(ProtocolVersion::V2025_11_25).connect();
    part.add(Tool::new("new", || "new")).expect("it is new");
    client.settle();
    assert_eq!(got.try_iter().count(), 1);
    assert_eq!(client.call_tool("p__new", ())?.content[0].as_text(), Some("new"));
    // The same name with another handler.
    let update = mcp_service::CatalogUpdate::new().remove_tool("new").add(Tool::new("new", || "newer"));
    part.update(update).expect("it is replaced");
    client.settle();
    assert_eq!(got.try_iter().count(), 1);
    assert_eq!(client.call_tool("p__new", ())?.content[0].as_text(), Some("newer"));
    assert!(part.remove_tool("new"));
    client.settle();
    assert_eq!(got.try_iter().count(), 1);
    assert!(client.call_tool("p__new", ()).is_err());
    client.wait(client.server().subscribe("p+part://a")?)?;
    assert_eq!(part.resource_updated("part://a"), 1);
    client.settle();
    assert!(client.transcript().to_string().contains("p+part://a"));
    Ok(())
}

#[test]
fn what_cannot_be_mounted_is_refused() {
    let part = part();
    let service = whole(&part);
    assert_eq!(service.mount("p", &part), Err(RegisterError::Taken("p".into())));
    assert_eq!(service.mount("p__q", &part), Err(RegisterError::Prefix("p__q".into())));
    // Without a prefix, names decide. Nothing was changed then.
    service.add(Tool::new("count", || "own")).expect("it is new");
    assert_eq!(service.mount("", &part), Err(RegisterError::Taken("count".into())));
    let client = TestClient::new(&service);
    let tools = client.run(client.server().all_tools().try_collect()).expect("a list");
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["p__add", "p__count", "count"]);
    // No service contains itself.
    assert!(matches!(service.mount("s", &service), Err(RegisterError::Mount(_))));
    assert!(matches!(part.mount("s", &service), Err(RegisterError::Mount(_))));
    // Middleware and visibility would be bypassed.
    let layered = Service::builder("layered", "1.0.0")
        .layer(async |_: IncomingRequest, next: Next| Ok(next.run().await))
        .build()
        .expect("a service");
    let hidden = Service::builder("hidden", "1.0.0").visible(|_, _| false).build().expect("a service");
    for part in [layered, hidden] {
        assert!(matches!(service.mount("x", &part), Err(RegisterError::Mount(_))));
    }
}

#[test]
fn masking_services_are_mounted_only_by_masking_ones() {
    let service = |name: &str| {
        let fail = Tool::new("fail", || Err::<String, Failure>(std::io::Error::other("the key is 1234").into()));
        Service::builder(name, "1.0.0").tool(fail)
    };
    let part = service("part").mask_failures().build().expect("a service");
    let open = service("open").build().expect("a service");
    assert!(matches!(open.mount("p", &part), Err(RegisterError::Mount(why)) if why.contains("mask")));
    assert!(service("built").mount("p", &part).build().is_err());
    let client = TestClient::new(&open);
    let tools = client.run(client.server().all_tools().try_collect()).expect("a list");
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["fail"]);
    let whole = service("whole").mask_failures().mount("p", &part).mount("o", &open).build().expect("a service");
    let client = TestClient::new(&whole);
    for name in ["p__fail", "o__fail"] {
        let failed = client.call_tool(name, ()).expect("a result");
        assert!(failed.is_error() && !format!("{failed:?}").contains("1234"), "{name}: {failed:?}");
    }
    // Nor can it be reached through a third one.
    assert!(matches!(open.mount("w", &whole), Err(RegisterError::Mount(_))));
}

/// Counted, not timed: each change copies only the items that it is about.
#[test]
fn cost_of_a_change_is_independent_of_mounted_items() {
    let allocations = |count: usize| {
        let part = Service::builder("part", "1.0.0").enable_tools().build().expect("a service");
        let inner = Service::builder("inner", "1.0.0").enable_tools().mount("p", &part).build().expect("a service");
        let whole = Service::builder("whole", "1.0.0").enable_tools().mount("i", &inner).build().expect("a service");
        let measured = allocation_counter::measure(|| {
            for number in 0..count {
                part.add(Tool::new(format!("tool-{number}"), || "text")).expect("it is new");
            }
            for number in 0..count {
                assert!(part.remove_tool(&format!("tool-{number}")));
            }
            part.add(Tool::new("last", || "text")).expect("it is new");
        });
        let client = TestClient::new(&whole);
        let tools = client.run(client.server().all_tools().try_collect()).expect("a list");
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["i__p__last"]);
        measured.count_total
    };
    let (some, more) = (allocations(100), allocations(400));
    assert!(more < 5 * some, "4 times as many changes cost {more} allocations instead of {some}");
}

#[test]
fn mounted_resources_keep_their_cache_times() -> Result<(), CallError> {
    use mcp_proto::schema::CacheScope;

    let hour = std::time::Duration::from_secs(3600);
    let part = Service::builder("part", "1.0.0")
        .resource(Resource::new("part://a", "a", || "contents").cache_for(hour, CacheScope::Public))
        .template(
            ResourceTemplate::new("part://{id}/b", "b", |_: serde_json::Value| "b").cache_for(hour, CacheScope::Public),
        )
        .build()
        .expect("a service");
    let client = TestClient::of(&whole(&part)).version(ProtocolVersion::V2026_07_28).connect();
    for uri in ["p+part://a", "p+part://7/b"] {
        let read = client.read_resource(uri)?;
        assert_eq!((read.ttl_ms, read.cache_scope), (Some(3_600_000), Some(CacheScope::Public)), "{uri}");
    }
    Ok(())
}

#[test]
fn changes_of_a_part_reach_each_service_that_offers_it() -> Result<(), CallError> {
    let part = part();
    let wholes = [whole(&part), whole(&part), whole(&part)];
    part.add(Tool::new("new", || "new")).expect("it is new");
    for whole in &wholes {
        assert_eq!(TestClient::new(whole).call_tool("p__new", ())?.content[0].as_text(), Some("new"));
    }
    Ok(())
}
