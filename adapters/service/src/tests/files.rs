//! Files as results of tools and as contents of resources.

use mcp_proto::protocol::ProtocolVersion;
use serde_json::{Value, json};

use super::pair::Pair;
use crate::{
    client::Host,
    server::{file::File, resource::Resource, service::Service, tool::Tool},
};

fn pair(file: &File, version: ProtocolVersion) -> Pair {
    let (of_tool, of_resource) = (file.clone(), file.clone());
    let service = Service::builder("test", "1")
        .tool(Tool::new("get", move || of_tool.clone()))
        .resource(Resource::new("a://file", "file", move || of_resource.clone()))
        .build()
        .expect("a good service");
    Pair::new(&Host::builder("client", "1").build(), &service, version)
}

// req: RES-010
#[test]
fn files_have_the_form_of_their_media_type() {
    let embedded = |resource: Value| json!({"type": "resource", "resource": resource});
    let rows = [
        (File::new("a.png", [1, 2, 3]), json!({"type": "image", "data": "AQID", "mimeType": "image/png"})),
        (File::new("a.WAV", [1, 2, 3]), json!({"type": "audio", "data": "AQID", "mimeType": "audio/wav"})),
        (
            File::new("a b.svg", "<svg/>"),
            embedded(json!({"uri": "file:///a%20b.svg", "mimeType": "image/svg+xml", "text": "<svg/>"})),
        ),
        (
            File::new("a.txt", [0xff]),
            embedded(json!({"uri": "file:///a.txt", "mimeType": "text/plain", "blob": "/w=="})),
        ),
        (
            File::new("a.pdf", "%PDF").uri("docs://a"),
            embedded(json!({"uri": "docs://a", "mimeType": "application/pdf", "blob": "JVBERg=="})),
        ),
        (
            File::new("a.pdf", "{}").mime_type("application/ld+json"),
            embedded(json!({"uri": "file:///a.pdf", "mimeType": "application/ld+json", "text": "{}"})),
        ),
    ];
    for version in [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        for (file, expected) in &rows {
            let pair = pair(file, version);
            let result = pair.send_request("tools/call", json!({"name": "get"})).expect("a result");
            assert_eq!(result["content"], json!([expected]), "{version}");
            let contents = pair.send_request("resources/read", json!({"uri": "a://file"})).expect("contents");
            assert_eq!(contents["contents"][0]["mimeType"], file.media_type(), "{version}");
            assert_eq!(contents["contents"][0]["uri"], "a://file", "{version}");
            let is_text = expected["resource"].get("text").is_some();
            assert_eq!(contents["contents"][0].get("text").is_some(), is_text, "{version} {contents}");
        }
    }
}

#[test]
fn a_missing_file_is_a_failure() {
    let tool = Tool::new("get", || File::read("no such file"));
    let service = Service::builder("test", "1").tool(tool).build().expect("a good service");
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2025_11_25);
    let result = pair.send_request("tools/call", json!({"name": "get"})).expect("a result");
    assert_eq!(result["isError"], true);
}
