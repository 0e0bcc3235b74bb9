//! Exchanges that are over, and requests that have ended, when the server loses the session.

use mcp_proto::{
    connection::{Event, Outcome},
    protocol::ProtocolVersion,
};
use mcp_tests::http_client::{HttpClient, event, header, message, options, stream_response};
use serde_json::json;

use super::recovery::{SESSIONS, answer, not_found, renewed};

/// The rest of their bodies is read, so that the network connections can be used again.
#[test]
fn finished_exchanges_outlive_a_lost_session() {
    for version in SESSIONS {
        let mut caller = HttpClient::in_session_without_stream(version, options());
        let call = caller.call("tools/list", &json!({}));
        let (answered, request) = caller.posted("tools/list");
        caller.head(answered, stream_response());
        caller.body(answered, event("", &answer(&message(&request)["id"])));
        let events = caller.take_events();
        assert!(
            matches!(events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if ended == call),
            "{events:?}"
        );
        caller.core.connection(caller.now).notify_raw("vendor/news", None).expect("it is ready");
        let (accepted, _) = caller.posted("vendor/news");
        caller.head(accepted, http::Response::builder().status(202));
        caller.call("tools/list", &json!({}));
        let (lost, _) = caller.posted("tools/list");
        caller.respond(lost, not_found(), "");
        assert_eq!((caller.core.usage().exchanges, &caller.aborted[..]), (3, &[][..]), "with `initialize`");
        let again = renewed(&mut caller, version);
        caller.end(answered);
        caller.end(accepted);
        assert_eq!((caller.core.usage().exchanges, again.len(), &caller.aborted[..]), (1, 1, &[][..]));
        assert_eq!(caller.take_events(), [Event::Renewed]);
    }
}

/// The next session does not know the requests of the lost one, so it receives no cancellations of them. The client
/// remembers the last 1,024 of these requests.
#[test]
fn cancellations_of_lost_requests_are_not_sent() {
    for (cancelled, sent) in [(1024, 0), (1025, 1)] {
        let mut options = options();
        options.limits.exchanges = 2000;
        let mut caller = HttpClient::in_session_without_stream(ProtocolVersion::V2025_11_25, options);
        let calls: Vec<_> = (0..=cancelled).map(|_| caller.call("tools/list", &json!({}))).collect();
        let posts = std::mem::take(&mut caller.requests);
        caller.respond(posts[0].0, not_found(), "");
        for call in &calls[1..] {
            caller.core.connection(caller.now).cancel(*call, None).expect("it is in flight");
            caller.settle();
        }
        assert_eq!((caller.aborted.len(), caller.take_events().len()), (cancelled, cancelled));
        let posted = renewed(&mut caller, ProtocolVersion::V2025_11_25);
        let count = |method: &str| posted.iter().filter(|(_, request)| message(request)["method"] == method).count();
        assert_eq!((count("tools/list"), count("notifications/cancelled")), (1, sent), "{cancelled}");
        let oldest = posted.iter().map(|(_, request)| message(request)["params"]["requestId"].clone());
        let oldest: Vec<_> = oldest.filter(|id| !id.is_null()).collect();
        assert_eq!(oldest, vec![json!(calls[1].as_u64()); sent]);
        assert!(posted.iter().all(|(_, request)| header(request, "mcp-session-id") == Some("s-2")));
    }
}
