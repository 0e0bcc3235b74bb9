//! The `Debug` output of public types: it names the type and says what it is about, without handlers and arguments.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{protocol::ProtocolVersion, schema::SubscriptionFilter};

use crate::{
    client::{Host, roots::Roots},
    driver_api::{deferred::Deferred, waiters::Waiters},
    inbound::{
        context::Context,
        failure::Failure,
        middleware::{IncomingRequest, Next},
        shared_state::State,
    },
    layers::{Audit, AuditRecord, Labels, MaskTexts, Metrics, MetricsRecorder, RateLimit, Retry},
    server::{
        builder::ServiceBuilder, catalog_update::Registration, prompt::Prompt, resource::Resource,
        resource_template::ResourceTemplate, service::Service, tool::Tool,
    },
    testing::TestClient,
    util::{lock::lock, random::Random, wait_queue::WaitQueue},
};

#[derive(serde::Deserialize)]
struct Id {
    id: String,
}

/// Checks the start and the end of a long text.
#[track_caller]
fn is_between(value: &impl Debug, start: &str, end: &str) {
    let text = format!("{value:?}");
    assert!(text.starts_with(start) && text.ends_with(end), "{text}");
}

fn builder() -> ServiceBuilder {
    Service::builder("shown", "1.2.3")
}

#[test]
fn items_and_applications_show_what_they_are() {
    is_between(&Tool::new("a", || "text"), "Tool { about: Tool { name: \"a\"", ", .. }");
    is_between(&Registration::from(Tool::new("a", || "text")), "Tool { about: Tool { name: \"a\"", ", .. }");
    is_between(&Prompt::new("a", || "text"), "Prompt { about: Prompt { name: \"a\"", ", .. }");
    is_between(&Resource::new("test://a", "a", || "text"), "Resource { about: Resource { uri: \"test://a\"", ", .. }");
    let template = ResourceTemplate::new("test://{id}", "a", |id: Id| id.id);
    is_between(&template, "ResourceTemplate { about: ResourceTemplate { uri_template: \"test://{id}\"", ", .. }");
    is_between(
        &builder(),
        "ServiceBuilder { info: Implementation { name: \"shown\", title: None, version: \"1.2.3\"",
        ", .. }",
    );
    let service = builder().build().expect("a service");
    is_between(&service, "Service { info: Implementation { name: \"shown\", title: None, version: \"1.2.3\"", ", .. }");
    is_between(&service.session(), "Session { app: Service { info: Implementation { name: \"shown\"", ", .. }, .. }");
    let host = || Host::builder("host", "4").on_request("x/own", |_: Id, _| Ok::<_, Failure>("done"));
    is_between(&host(), "HostBuilder { info: Implementation { name: \"host\", title: None, version: \"4\"", ", .. }");
    let end = "custom: CustomMethods { requests: 1, notifications: 0, .. }, .. }";
    is_between(&host().build(), "Host { info: Implementation { name: \"host\", title: None, version: \"4\"", end);
    is_between(&Roots::default(), "Roots([", "])");
}

#[test]
fn layers_show_their_settings() {
    let audit = Audit::new(|_: &AuditRecord<'_>| ()).redact(["Token"]);
    let limit = RateLimit::new(2, Duration::from_secs(10));
    for (text, expected) in [
        (format!("{audit:?}"), "Audit { redacted: {\"token\"}, .. }"),
        (format!("{:?}", Retry::new()), "Retry { attempts: 3, tools: {}, .. }"),
        (format!("{:?}", Retry::default().attempts(7).tools(["a"])), "Retry { attempts: 7, tools: {\"a\"}, .. }"),
        (format!("{:?}", MaskTexts::new(|text| text.into())), "MaskTexts { .. }"),
        (format!("{limit:?}"), "RateLimit { time: 10s, callers: 0, .. }"),
        (format!("{:?}", Metrics::new(NoMetrics)), "Metrics { .. }"),
    ] {
        assert_eq!(text, expected);
    }
}

struct NoMetrics;

impl MetricsRecorder for NoMetrics {
    fn count(&self, _: &'static str, _: &Labels<'_>, _: u64) {}

    fn observe(&self, _: &'static str, _: &Labels<'_>, _: f64) {}

    fn adjust(&self, _: &'static str, _: &Labels<'_>, _: f64) {}
}

#[test]
fn handles_show_their_state() {
    for (text, expected) in [
        (format!("{:?}", Deferred::ready(1)), "Deferred { is_there: true, .. }"),
        (format!("{:?}", Deferred::new(std::future::pending::<()>())), "Deferred { is_there: false, .. }"),
        (format!("{:?}", State::from(7)), "State(7)"),
        (format!("{:?}", Random::default()), "Random { .. }"),
        (format!("{:?}", WaitQueue::default()), "WaitQueue { length: 0, .. }"),
        (format!("{:?}", Waiters::new()), "Waiters { next_deadline: None, .. }"),
    ] {
        assert_eq!(text, expected);
    }
}

#[test]
fn requests_show_their_method_and_name() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (before, after) = (seen.clone(), seen.clone());
    let tool = Tool::new("a", move |context: Context| {
        lock(&before).push(format!("{context:?}"));
        "text"
    });
    let layer = move |request: IncomingRequest, next: Next| {
        let (after, texts) = (after.clone(), [format!("{request:?}"), format!("{next:?}")]);
        async move {
            let completed = next.run().await;
            lock(&after).extend(texts);
            lock(&after).push(format!("{completed:?}"));
            Ok(completed)
        }
    };
    let service = builder().tool(tool).enable_tools().subscriptions().layer(layer).build().expect("a service");
    let client = TestClient::of(&service).version(ProtocolVersion::V2026_07_28).connect();
    assert_eq!(format!("{client:?}"), "TestClient { elapsed: 0ns, .. }");
    let server = client.server();
    is_between(&server, "Peer { calls: Calls { waiting: 0, .. }", ", .. }");
    let call = server.call_tool("a", ()).expect("it is sent");
    is_between(&call, "Pending { call: ", ", .. }");
    is_between(&call.canceller(), "Canceller { call: ", ", .. }");
    is_between(&server, "Peer { calls: Calls { waiting: 1, .. }", ", .. }");
    client.wait(call).expect("a result");
    let [context, request, next, completed] = &std::mem::take(&mut *lock(&seen))[..] else { panic!("four texts") };
    assert!(context.starts_with("Context { origin: Request(") && context.ends_with(", .. }"), "{context}");
    let id = "IncomingRequest { id: Some(";
    assert!(request.starts_with(id), "{request}");
    assert!(request.ends_with("), method: \"tools/call\", name: Some(\"a\"), .. }"), "{request}");
    assert_eq!((&**next, &**completed), ("Next { method: Some(CallTool), .. }", "Completed { kind: Result, .. }"));
    is_between(&server.all_tools(), "Pages { pages: 0, items: 0, .. }", "");
    let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let subscription = client.wait(server.listen(filter).expect("it is sent")).expect("a subscription");
    is_between(&subscription, "Subscription { filter: SubscriptionFilter { tools_list_changed: Some(true)", ", .. }");
}
