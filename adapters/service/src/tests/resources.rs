use std::sync::{Arc, Mutex};

use mcp_proto::{
    protocol::{Capability, Era, ProtocolVersion, VersionSet},
    schema::{
        BlobResourceContents, ReadResourceResult, ResourceContents, ResourceUpdatedParams, ResourcesListChangedParams,
        TextResourceContents,
    },
};
use serde_json::{Value, json};

use super::body;
use super::pair::{Pair, code};
use crate::{
    client::Host,
    inbound::{context::Context, failure::Failure},
    server::{
        builder::ServiceBuilder, catalog_update::CatalogUpdate, register_error::RegisterError, resource::Resource,
        resource_template::ResourceTemplate, service::Service,
    },
    util::lock::lock,
};

#[derive(serde::Deserialize)]
struct Place {
    id: u32,
}

fn builder() -> ServiceBuilder {
    Service::builder("test", "1")
        .resource(Resource::new("test://text", "text", || "some text").mime_type("text/plain").size(9).title("Text"))
        .resource(Resource::new("test://bytes", "bytes", || vec![0xff_u8, 0]).mime_type("image/png"))
        .resource(Resource::new("test://fails", "fails", |_: Context| Err::<String, _>("disk on fire")))
        .template(
            ResourceTemplate::new("test://template/{id}/data", "data", |place: Place| {
                if place.id == 404 {
                    Err(Failure::resource_not_found("test://template/404/data"))
                } else {
                    Ok(place.id.to_string())
                }
            })
            .mime_type("application/json")
            .complete("id", |_| vec!["123"]),
        )
}

fn pair(service: &Service, version: ProtocolVersion) -> Pair {
    Pair::new(&Host::builder("client", "1").build(), service, version)
}

// req: RES-001 RES-002 RES-003 RES-004 RES-011 RES-012
// req: M-RES-001 M-RES-002 M-RES-006 M-RES-007 M-RES-008 M-RES-009
#[test]
fn resources_and_templates_are_listed() {
    let service = builder().build().expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let declared = pair.to_server().capabilities();
        assert!(declared.contains(Capability::Resources) && !declared.contains(Capability::ResourcesSubscribe));
        let listed = body(version, true, pair.send_request("resources/list", json!({})));
        let text = &listed["resources"][0];
        assert_eq!((&text["uri"], &text["name"], &text["size"]), (&json!("test://text"), &json!("text"), &json!(9)));
        assert_eq!(text.get("title").is_some(), version >= ProtocolVersion::V2025_06_18);
        assert_eq!(listed["resources"].as_array().map(Vec::len), Some(3));
        assert_eq!(
            body(version, true, pair.send_request("resources/templates/list", json!({}))),
            json!({"resourceTemplates":
                [{"uriTemplate": "test://template/{id}/data", "name": "data", "mimeType": "application/json"}]})
        );
    }
}

// req: RES-007 RES-008 RES-009 RES-010 RES-023 RES-025 RES-026 CONT-011
// req: M-BASE-036 M-RES-011 M-RES-012 M-RES-015 M-RES-016 M-RES-021 M-RES-024
#[test]
fn resources_are_read() {
    let several = ReadResourceResult::new([
        ResourceContents::from(TextResourceContents::new("test://several/1", "one")),
        ResourceContents::from(BlobResourceContents::new("test://several/2", "AAAA")),
    ]);
    let service = builder()
        .resource(Resource::new("test://several", "several", move || several.clone()))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let read = |uri: &str| pair.send_request("resources/read", json!({"uri": uri}));
        let contents = |uri: &str| body(version, true, read(uri))["contents"].clone();
        assert_eq!(
            contents("test://text"),
            json!([{"uri": "test://text", "mimeType": "text/plain", "text": "some text"}])
        );
        assert_eq!(contents("test://bytes"), json!([{"uri": "test://bytes", "mimeType": "image/png", "blob": "/wA="}]));
        assert_eq!(
            contents("test://template/123/data"),
            json!([{"uri": "test://template/123/data", "mimeType": "application/json", "text": "123"}])
        );
        assert_eq!(
            contents("test://several"),
            json!([{"uri": "test://several/1", "text": "one"}, {"uri": "test://several/2", "blob": "AAAA"}])
        );
        assert_eq!(code(&read("test://fails")), -32603);
        for missing in
            ["test://nothing", "test://template/abc/data", "test://template/404/data", "test://template//data"]
        {
            let error = read(missing).expect_err("there is none");
            let code = if version.era() == Era::Modern { -32602 } else { -32002 };
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code), &json!(missing)));
        }
        for invalid in ["", "text", "test://a b", "test://ä", "test://text\n", "../etc/passwd"] {
            assert_eq!(code(&read(invalid)), -32602, "{invalid:?}");
        }
        assert_eq!(code(&pair.send_request("resources/read", json!({}))), -32602);
        pair.assert_clean();
    }
}

// req: RES-006 RES-028 M-RES-022
#[test]
fn registered_resources_have_unique_valid_uris() {
    let add = |uri: &str| Service::builder("test", "1").resource(Resource::new(uri, "a", || "")).build().map(drop);
    assert_eq!(add("a b"), Err(RegisterError::Uri("a b".into())));
    assert_eq!(add("my-scheme+x.1:path"), Ok(()));
    for bad in ["1a:b", "-a:b", "a_b:c", "\u{e4}:b", ":b", "a", "", "a:b\n", "a:%zz"] {
        assert_eq!(add(bad), Err(RegisterError::Uri(bad.into())));
    }
    let twice = builder().resource(Resource::new("test://text", "again", || "")).build().map(drop);
    assert_eq!(twice, Err(RegisterError::Taken("test://text".into())));
    let exploded = Service::builder("test", "1").template(ResourceTemplate::new("a://{b*}", "b", || "")).build();
    assert!(matches!(exploded, Err(RegisterError::Template { .. })));

    // Items that were added later are checked in the same way, and each is found by its URI.
    for version in ProtocolVersion::LEGACY {
        let service = Service::builder("test", "1").resource(Resource::new("my-scheme+x.1:a", "a", || "a")).build();
        let service = service.expect("a good service");
        service.add(Resource::new("my-scheme+x.1:b", "b", || "b")).expect("its URI is free");
        let again = service.add(Resource::new("my-scheme+x.1:a", "c", || "c"));
        assert_eq!(again, Err(RegisterError::Taken("my-scheme+x.1:a".into())));
        assert_eq!(service.add(Resource::new("1a:b", "c", || "c")), Err(RegisterError::Uri("1a:b".into())));
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let listed = pair.send_request("resources/list", json!({})).expect("a list");
        let uris: Vec<_> = listed["resources"].as_array().expect("resources").iter().map(|it| &it["uri"]).collect();
        assert_eq!(uris, ["my-scheme+x.1:a", "my-scheme+x.1:b"], "{version}");
        for uri in uris {
            let read = pair.send_request("resources/read", json!({"uri": uri})).expect("it is there");
            let said = read["contents"][0]["text"].as_str().expect("a text");
            assert!(uri.as_str().expect("a URI").ends_with(&format!(":{said}")), "{version} {read}");
        }
    }
}

// req: RES-014 RES-016
#[test]
fn resource_changes_are_sent_if_declared() {
    for version in ProtocolVersion::LEGACY {
        let service = builder().build().expect("a good service");
        let received = Arc::new(Mutex::new(0));
        let recorder = received.clone();
        let host =
            Host::builder("client", "1").on(move |_: ResourcesListChangedParams, _| *lock(&recorder) += 1).build();
        let wide = Pair::new(&host, &service, version);
        let narrow = Pair::with(&Host::builder("client", "1").build(), &service, |joining| {
            joining.client.settings.versions = VersionSet::only(version);
            joining.server.capabilities.resources.as_mut().expect("resources").list_changed = None;
        });
        let changes = CatalogUpdate::new()
            .add(Resource::new("test://new", "new", || ""))
            .add(ResourceTemplate::new("test://new/{a}", "new", || ""))
            .remove_resource("test://text")
            .remove_template("test://template/{id}/data");
        service.update(changes).expect("names are free");
        wide.settle();
        narrow.settle();
        let told = json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"});
        assert_eq!(wide.server.take_lines(), [told], "{version}");
        assert_eq!(*lock(&received), 1, "{version}");
        assert_eq!(narrow.server.take_lines(), [Value::Null; 0], "{version}");
        assert!(service.remove_resource("test://new") && service.remove_template("test://new/{a}"));
    }
}

// req: RES-017 RES-018 RES-020 RES-021 RES-022
#[test]
fn subscribers_receive_resource_updates() {
    for version in ProtocolVersion::LEGACY {
        let service = builder().subscriptions().max_subscriptions(2).build().expect("a good service");
        let received = Arc::new(Mutex::new(Vec::new()));
        let recorder = received.clone();
        let host = Host::builder("client", "1")
            .on(move |updated: ResourceUpdatedParams, _| lock(&recorder).push(updated.uri))
            .build();
        let pair = Pair::new(&host, &service, version);
        let other = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let subscribe = |uri: &str| pair.send_request("resources/subscribe", json!({"uri": uri}));
        let unsubscribe = |uri: &str| pair.send_request("resources/unsubscribe", json!({"uri": uri}));
        let empty = Ok(json!({}));

        assert_eq!(service.resource_updated("test://text"), 0);
        assert_eq!(subscribe("test://text"), empty);
        assert_eq!(subscribe("test://text"), empty, "twice is once");
        assert_eq!(subscribe("test://template/1/data"), empty);
        assert_eq!(code(&subscribe("test://bytes")), -32603, "that is one too many");
        assert_eq!(code(&subscribe("test://nothing")), -32002);
        assert_eq!(code(&subscribe("not a uri")), -32602);

        assert_eq!(service.resource_updated("test://text"), 1);
        assert_eq!(service.resource_updated("test://bytes"), 0);
        assert_eq!(service.resource_updated("test://template/1/data"), 1);
        pair.settle();
        other.settle();
        assert_eq!(*lock(&received), ["test://text", "test://template/1/data"]);
        assert!(other.server.take_lines().is_empty());

        assert_eq!(unsubscribe("test://text"), empty);
        assert_eq!(unsubscribe("test://text"), empty, "it is not an error to be sure");
        assert_eq!(service.resource_updated("test://text"), 0);
        assert_eq!(subscribe("test://bytes"), empty, "there is room again");

        // A server that has not declared it gets no such request, and sends no such notification.
        let service = builder().build().expect("a good service");
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        assert!(pair.to_server().subscribe("test://text").is_err());
        assert_eq!(service.resource_updated("test://text"), 0);
        pair.settle();
        assert!(pair.client.take_lines().is_empty() && pair.server.take_lines().is_empty(), "{version}");
    }
}

#[test]
fn subscriptions_are_bounded_in_bytes() {
    for version in ProtocolVersion::LEGACY {
        let service = builder().subscriptions().build().expect("a good service");
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        // A URI has at most 8 KiB.
        let uri = |number: u32| format!("test://template/{number:08000}/data");
        let subscribe = |number| pair.send_request("resources/subscribe", json!({"uri": uri(number)}));
        let empty = Ok(json!({}));
        let subscribed = (0..40).take_while(|number| subscribe(*number) == empty).count();
        assert_eq!(subscribed, 256 * 1024 / uri(0).len());
        assert_eq!(code(&subscribe(39)), -32603);
        assert_eq!(subscribe(0), empty, "twice is once");
        assert_eq!(pair.send_request("resources/subscribe", json!({"uri": "test://text"})), empty, "a small one fits");
        for _ in 0..2 {
            assert_eq!(pair.send_request("resources/unsubscribe", json!({"uri": uri(0)})), empty);
        }
        assert_eq!(subscribe(39), empty, "there is room again");
        assert_eq!(code(&subscribe(40)), -32603);
    }
}

// req: COMPL-005
#[test]
fn variables_of_templates_are_completed() {
    for version in ProtocolVersion::LEGACY {
        let service = builder().build().expect("a good service");
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let complete = |uri: &str, argument: &str| {
            let reference = json!({"type": "ref/resource", "uri": uri});
            pair.send_request(
                "completion/complete",
                json!({"ref": reference, "argument": {"name": argument, "value": ""}}),
            )
        };
        for uri in ["test://template/{id}/data", "test://template/5/data"] {
            assert_eq!(complete(uri, "id").expect("proposals")["completion"]["values"], json!(["123"]));
        }
        assert_eq!(complete("test://text", "id").expect("none")["completion"]["values"], json!([]));
        assert_eq!(code(&complete("test://template/{id}/data", "other")), -32602);
        assert_eq!(code(&complete("test://nothing", "id")), -32602);
    }
}
