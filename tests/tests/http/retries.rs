//! Requests that are sent again after a refusal or a redirect, while their session is replaced.

use std::time::Duration;

use http::Response;
use mcp_proto::connection::{Event, Failure, Outcome};
use mcp_tests::http_client::{HttpClient, header, message, options, stream_response};
use serde_json::json;

use crate::recovery::{SESSIONS, answer, not_found, renewed};

/// A request that is sent again after a refusal or a redirect waits for the next session, if its own was lost
/// meanwhile.
#[test]
fn repeated_requests_wait_for_the_next_session() {
    for version in SESSIONS {
        let mut options = options();
        options.authenticates = true;
        let (mut caller, stream) = HttpClient::in_session_with(version, options);
        caller.head(stream, stream_response());
        let mut calls: Vec<_> = (0..5).map(|_| caller.call("tools/list", &json!({}))).collect();
        let posts = std::mem::take(&mut caller.requests);
        let [refused, late, redirected, resumed, lost] = [0, 1, 2, 3, 4].map(|at: usize| posts[at].0);
        caller.respond(refused, Response::builder().status(401), "");
        caller.respond(late, Response::builder().status(401), "");
        // The stream of this one is resumed, which is refused.
        caller.head(resumed, stream_response());
        caller.body(resumed, "id: 1\nretry: 0\ndata: \n\n");
        caller.end(resumed);
        caller.advance(Duration::ZERO);
        let (resumed, request) = caller.request();
        assert_eq!(header(&request, "last-event-id"), Some("1"));
        caller.respond(resumed, Response::builder().status(401), "");
        caller.respond(lost, not_found(), "");
        let now = caller.now;
        for exchange in [refused, resumed] {
            assert_eq!(caller.core.retry(now, exchange), None);
        }
        caller.respond(redirected, Response::builder().status(307).header("location", "/mcp"), "");
        // What was on the lost stream is not in the next session.
        let call = calls.remove(3);
        assert_eq!(caller.take_events(), [Event::Response { call, outcome: Outcome::Failed(Failure::SessionLost) }]);
        let again = renewed(&mut caller, version);
        assert_eq!(caller.take_events(), [Event::Renewed]);
        let next = caller.core.retry(now, late).expect("there is a session");
        let (exchange, request) = caller.request();
        assert_eq!((exchange, header(&request, "mcp-session-id")), (next, Some("s-2")));
        let mut posts: Vec<_> = again.into_iter().filter(|(_, request)| request.method() == "POST").collect();
        posts.push((exchange, request));
        for (exchange, request) in posts {
            caller.answer(exchange, &answer(&message(&request)["id"]));
        }
        let is_answered = |event: &Event<'_>| match event {
            Event::Response { call, outcome: Outcome::Result(_) } => *call,
            other => panic!("{other:?}"),
        };
        let mut answered: Vec<_> = caller.take_events().iter().map(is_answered).collect();
        answered.sort();
        assert_eq!(answered, calls);
    }
}
