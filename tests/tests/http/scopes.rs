//! The scopes that clients need to resume streams.

use std::sync::Arc;

use mcp_proto::{
    connection::{Event, Failure, Outcome, Principal, RequestOptions},
    http::{
        AuthRefusal,
        server::{ReplayChunk, ReplayRequest},
    },
    rpc::ReplyKey,
    schema::{CreateMessageParams, SamplingMessage},
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef},
};
use serde_json::{Value, json};

/// Sends the following requests with a token that has these scopes.
fn authorize(server: &mut HttpServer, scopes: &[&str]) {
    let mut principal = Principal::new("ada");
    principal.scopes = names(scopes);
    server.set_caller(principal);
}

fn names(scopes: &[&str]) -> Vec<String> {
    scopes.iter().map(|scope| (*scope).to_owned()).collect()
}

fn call(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "_meta": {"progressToken": id}}})
}

fn require(server: &mut HttpServer, (session, key): (usize, ReplyKey), scopes: &[&str]) {
    let now = server.now;
    server.sessions.get_mut(&session).expect("it is open").require_scopes(now, key, &names(scopes));
    server.settle();
}

fn progress(server: &mut HttpServer, (session, key): (usize, ReplyKey), progress: u32) {
    let now = server.now;
    let session = server.sessions.get_mut(&session).expect("it is open");
    session.connection(now).progress(key, progress.into(), None, None).expect("it may report");
    server.settle();
}

/// Returns the progress in the messages of a response; 0 is the response itself.
fn seen(server: &HttpServer, sent: RequestRef) -> Vec<u64> {
    server.reply(sent).messages().iter().map(|message| message["params"]["progress"].as_u64().unwrap_or(0)).collect()
}

fn refused(server: &mut HttpServer, id: &str, last: &str) -> (u16, bool) {
    let sent = server.listen(id, Some(last));
    let reply = server.reply(sent);
    (reply.status(), String::from_utf8_lossy(&reply.body).contains("Insufficient scope: read write"))
}

#[test]
fn stream_is_resumed_only_with_the_scopes_of_its_request() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut server = HttpServer::new(full_server());
        authorize(&mut server, &["read", "write", "more"]);
        let id = server.begin(version);
        let sent = server.send_message(&id, &call(1));
        let key = server.take_request();
        require(&mut server, key, &["read", "write"]);
        progress(&mut server, key, 1);
        let first = server.reply(sent).events().pop().expect("an event").2;
        let (stream, _) = first.split_once('-').expect("an id");
        for scopes in [&[][..], &["write"], &["read", "more"]] {
            authorize(&mut server, scopes);
            for last in [&first, &format!("{stream}-0")] {
                assert_eq!(refused(&mut server, &id, last), (403, true), "{version} {scopes:?}");
            }
        }
        progress(&mut server, key, 2);
        assert_eq!(seen(&server, sent), [1, 2], "the stream was not disturbed");
        authorize(&mut server, &["write", "read"]);
        let resumed = server.listen(&id, Some(&first));
        server.respond(key, &json!({"content": []}));
        assert_eq!((seen(&server, resumed), server.reply(resumed).ended), (vec![2, 0], true), "{version}");
        assert!(server.reply(sent).ended);
        // The same holds after the response.
        authorize(&mut server, &["read"]);
        assert_eq!(refused(&mut server, &id, &first), (403, true), "{version}");
        authorize(&mut server, &["write", "read"]);
        let again = server.listen(&id, Some(&first));
        assert_eq!(seen(&server, again), [2, 0], "{version}");
    }
}

#[test]
fn scopes_of_a_batch_add_up() {
    let mut server = HttpServer::new(full_server());
    authorize(&mut server, &["read", "write"]);
    let id = server.begin("2025-03-26");
    let sent = server.send_message(&id, &json!([call(1), call(2)]));
    let keys = server.take_requests();
    require(&mut server, keys[0], &["read"]);
    require(&mut server, keys[1], &["read", "write"]);
    progress(&mut server, keys[0], 1);
    let first = server.reply(sent).events().pop().expect("an event").2;
    for scopes in [&["read"], &["write"]] {
        authorize(&mut server, scopes);
        assert_eq!(refused(&mut server, &id, &first), (403, true), "{scopes:?}");
    }
}

/// No client has received an id of the stream.
#[test]
fn response_that_has_not_begun_is_not_resumed() {
    let mut server = HttpServer::new(full_server());
    authorize(&mut server, &[]);
    let id = server.begin("2025-11-25");
    let streams = [1, 2].map(|number| {
        let sent = server.send_message(&id, &call(number));
        (sent, server.take_request())
    });
    let (first, key) = streams[0];
    progress(&mut server, key, 1);
    let last = server.reply(first).events().pop().expect("an event").2;
    let stream: u64 = last.split_once('-').and_then(|(stream, _)| stream.parse().ok()).expect("an id");
    let (sent, key) = streams[1];
    let guessed = server.listen(&id, Some(&format!("{}-0", stream + 1)));
    assert_eq!(server.reply(guessed).status(), 400);
    server.respond(key, &json!({"content": []}));
    assert_eq!(server.reply(sent).json()["id"], 2, "it is whole");
}

/// The application handles the request late, after the stream was opened for proxies.
#[test]
fn stream_that_was_resumed_before_its_scopes_are_known_ends() {
    let mut server = HttpServer::new(full_server());
    authorize(&mut server, &["write"]);
    let id = server.begin("2025-11-25");
    let sent = server.send_message(&id, &call(1));
    let key = server.take_request();
    server.advance(std::time::Duration::from_secs(10));
    let last = server.reply(sent).events().pop().expect("an event").2;
    authorize(&mut server, &[]);
    let resumed = server.listen(&id, Some(&last));
    assert_eq!((server.reply(resumed).status(), server.reply(resumed).ended), (200, false));
    require(&mut server, key, &["write"]);
    assert!(server.reply(resumed).ended && !server.reply(resumed).aborted);
    progress(&mut server, key, 1);
    assert!(seen(&server, resumed).is_empty());
    authorize(&mut server, &["write"]);
    let resumed = server.listen(&id, Some(&last));
    server.respond(key, &json!({"content": []}));
    assert_eq!(seen(&server, resumed), [1, 0]);
}

/// A request of the server whose stream has ended does not move to a stream that another token has opened.
#[test]
fn request_of_a_handler_with_scopes_stays_on_its_stream() {
    for scopes in [&[][..], &["write"]] {
        let mut server = HttpServer::new(full_server());
        authorize(&mut server, &["write"]);
        let id = server.begin("2025-11-25");
        let sent = server.send_message(&id, &call(1));
        let (session, key) = server.take_request();
        require(&mut server, (session, key), scopes);
        authorize(&mut server, &[]);
        let listener = server.listen(&id, None);
        let now = server.now;
        let conn = server.sessions.get_mut(&session).expect("it is open").connection(now);
        let params = CreateMessageParams::new([SamplingMessage::user("who?")], 10_u64);
        let options = RequestOptions { related_request: Some(key), ..RequestOptions::default() };
        let requested = conn.request(now, &params, options).expect("the client has sampling");
        conn.respond_error(key, &mcp_proto::wire::ErrorObject::internal("no")).expect("it is open");
        server.settle();
        assert_eq!(server.reply(sent).json()["id"], 1);
        let is_moved = !server.reply(listener).messages().is_empty();
        assert_eq!(is_moved, scopes.is_empty());
        let failed = server.take_events().into_iter().any(|event| match event {
            Event::Response { call, outcome, .. } => {
                call == requested && matches!(outcome, Outcome::Failed(Failure::NoStream))
            }
            _ => false,
        });
        assert_eq!(failed, !scopes.is_empty());
    }
}

/// Another process finds the scopes with the messages.
#[test]
fn stream_of_another_process_is_replayed_only_with_its_scopes() {
    let mut here = HttpServer::new(full_server());
    authorize(&mut here, &[]);
    let id = here.begin("2025-11-25");
    let snapshot = here.last_session().snapshot().expect("its handshake is over");
    let mut server = HttpServer::new(full_server());
    server.endpoint.share();
    let sessions = &mut server.sessions;
    let make = |session| {
        sessions.insert(1, session);
        1
    };
    let (ada, session) = (Arc::new(Principal::new("ada")), mcp_proto::http::SessionId::parse(&id).expect("an id"));
    server.endpoint.adopt(server.now, (&session, 1), Some(&ada), &snapshot, make).expect("there is room");
    /// Passes messages that need the scope, as a driver does. Returns whether the client has it.
    fn found(server: &mut HttpServer, messages: &[u64]) -> bool {
        let now = server.now;
        let ReplayRequest { exchange, .. } = server.last_session().poll_replay_request().expect("it is wanted");
        let messages = messages.iter().map(|seq| (*seq, json!({"n": seq}).to_string().into_bytes())).collect();
        let has_scopes = server.last_session().has_replay_scopes(exchange, &names(&["write"]));
        if has_scopes {
            server.last_session().handle_replay(now, exchange, Some(&ReplayChunk { messages, done: false }));
        } else {
            server.last_session().refuse_replay(now, exchange, &AuthRefusal::forbidden(None));
        }
        server.settle();
        has_scopes
    }
    authorize(&mut server, &["read", "write"]);
    let allowed = server.listen(&id, Some("7-2"));
    assert!(found(&mut server, &[3]));
    authorize(&mut server, &["read"]);
    let denied = server.listen(&id, Some("7-2"));
    // The other exchange looks for messages as well.
    assert!(server.last_session().poll_replay_request().is_some_and(|wanted| wanted.after == 3));
    assert!(!found(&mut server, &[3]));
    assert_eq!((server.reply(denied).status(), server.reply(denied).ended), (403, true));
    assert_eq!((server.reply(allowed).messages().len(), server.reply(allowed).ended), (1, false), "it goes on");
    // Messages that arrive later are not passed either.
    server.disconnect(allowed);
    let waiting = server.listen(&id, Some("7-2"));
    let wanted = server.last_session().poll_replay_request().expect("it is wanted");
    let now = server.now;
    server.last_session().handle_replay(now, wanted.exchange, Some(&ReplayChunk::default()));
    server.settle();
    assert_eq!((server.reply(waiting).status(), server.reply(waiting).ended), (200, false));
    assert!(!found(&mut server, &[3]));
    assert_eq!((server.reply(waiting).messages().len(), server.reply(waiting).ended), (0, true));
    assert!(!server.reply(waiting).aborted && !server.last_session().has_replay_request());
}
