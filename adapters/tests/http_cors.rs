//! Web pages of other origins (CORS), on any runtime. The including test has the adapter as
//! `crate::adapter`, and its runtime as `crate::run`.

use mcp_service::Service;
use serde_json::Value;

use crate::{
    adapter::http::{Endpoint, EndpointOptions, Policy},
    http_protected::{ask, endpoint, initialize, request},
    run,
};

#[test]
fn cors_admits_allowed_origins() {
    run(async {
        let service = Service::builder("cors", "1").build().expect("no names");
        let endpoint = endpoint(&service);
        let document = "/.well-known/oauth-protected-resource/mcp";
        let page = |method: &str, path: &str, token: Option<&str>, origin: &str| {
            request(method, path, token).header("origin", origin)
        };
        for path in ["/mcp", "/sse", document] {
            let preflight = |origin: &str| {
                let requested = page("OPTIONS", path, None, origin).header("access-control-request-method", "POST");
                requested.header("access-control-request-headers", "authorization, content-type, mcp-param-row")
            };
            let received = ask(&endpoint, preflight("https://app.example"), &Value::Null).await;
            assert_eq!(
                (received.status, received.header("access-control-allow-origin")),
                (204, Some("https://app.example"))
            );
            assert_eq!(received.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
            let allowed = received.header("access-control-allow-headers").expect("it is there");
            for name in ["authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-param-row"] {
                assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}: {allowed}");
            }
            let received = ask(&endpoint, preflight("https://evil.example"), &Value::Null).await;
            assert_eq!((received.status, received.header("access-control-allow-origin")), (403, None));
        }
        let received = ask(
            &endpoint,
            page("OPTIONS", "/elsewhere", None, "https://app.example").header("access-control-request-method", "POST"),
            &Value::Null,
        );
        assert_eq!(received.await.status, 404);
        // The headers that a page may read: the challenge, the session id, the document.
        let begins = initialize("2025-11-25");
        for (token, path, status, header) in [
            (None, "/mcp", 401, "www-authenticate"),
            (Some("ada"), "/mcp", 200, "mcp-session-id"),
            (None, document, 200, "content-type"),
        ] {
            let (method, body) = if path == "/mcp" { ("POST", &begins) } else { ("GET", &Value::Null) };
            let received = ask(&endpoint, page(method, path, token, "https://app.example"), body).await;
            assert_eq!(
                (received.status, received.header("access-control-allow-origin")),
                (status, Some("https://app.example"))
            );
            assert!(received.header(header).is_some() && received.header("vary") == Some("origin"));
            let exposed = received.header("access-control-expose-headers").expect("it is there");
            assert!(header == "content-type" || exposed.contains(header), "{exposed}");
            let without = ask(&endpoint, request(method, path, token), body).await;
            assert_eq!((without.status, without.header("access-control-allow-origin")), (status, None));
            assert_eq!(without.header("vary"), Some("origin"), "a cache does not give it to a page");
        }
        endpoint.close().await;
    });
}

/// The layer in front of the endpoint answers browsers. Pages of other origins are refused as before.
#[test]
fn endpoint_without_cors_checks_origins() {
    run(async {
        let service = Service::builder("cors", "1").build().expect("no names");
        let policy = Policy::hosts(["mcp.example"]).and_then(|policy| policy.allow_origin("https://app.example"));
        let options = EndpointOptions::new(policy.expect("an origin").without_cors());
        let endpoint = Endpoint::new(&service, options).expect("there is a runtime");
        let begins = initialize("2025-11-25");
        for (method, origin, status) in [
            ("POST", "https://app.example", 200),
            ("POST", "https://evil.example", 403),
            ("OPTIONS", "https://app.example", 405),
            ("OPTIONS", "https://evil.example", 403),
        ] {
            let head = request(method, "/mcp", None).header("origin", origin);
            let head = head.header("access-control-request-method", "POST");
            let body = if method == "POST" { &begins } else { &Value::Null };
            let received = ask(&endpoint, head, body).await;
            assert_eq!(received.status, status, "{method} {origin}");
            for name in ["access-control-allow-origin", "access-control-allow-methods", "access-control-expose-headers"]
            {
                assert_eq!(received.header(name), None, "{method} {origin}");
            }
        }
        endpoint.close().await;
    });
}
