//! The negotiated revision for every pair of version sets.

use mcp_proto::{
    connection::{CloseReason, Event},
    protocol::{ProtocolVersion, VersionSet},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{request_with, result},
    testbed::Testbed,
};
use serde_json::json;

/// Returns every non-empty set of revisions with a handshake, oldest first.
fn sets() -> Vec<Vec<ProtocolVersion>> {
    let member = |set: u8, at: usize| set & (1 << at) != 0;
    (1..1u8 << ProtocolVersion::LEGACY.len())
        .map(|set| {
            let versions = ProtocolVersion::LEGACY.into_iter().enumerate();
            versions.filter(|(at, _)| member(set, *at)).map(|(_, version)| version).collect()
        })
        .collect()
}

// req: LIFE-010 LIFE-011 LIFE-012 LIFE-013 LIFE-014 LIFE-015 LIFE-016 LIFE-039
#[test]
fn negotiation_picks_offered_or_newest_revision() {
    for client_speaks in sets() {
        for server_speaks in sets() {
            let (mut client, mut server) = (full_client(), full_server());
            client.settings.versions = client_speaks.iter().copied().collect::<VersionSet>();
            server.settings.versions = server_speaks.iter().copied().collect::<VersionSet>();
            let mut testbed = Testbed::new(client, server, Default::default(), Default::default());
            testbed.settle();
            let context = format!("client {client_speaks:?}, server {server_speaks:?}");

            let offered = *client_speaks.last().expect("it speaks something");
            let newest = *server_speaks.last().expect("it speaks something");
            let chosen = if server_speaks.contains(&offered) { offered } else { newest };
            assert!(testbed.client.log[0].contains(offered.as_str()), "{context}: {}", testbed.client.log[0]);
            assert!(testbed.server.log[0].contains(chosen.as_str()), "{context}: {}", testbed.server.log[0]);
            let events = testbed.client.take_events();
            if client_speaks.contains(&chosen) {
                assert_eq!(events, [Event::Ready], "{context}");
                assert_eq!(testbed.client.conn.version(), Some(chosen), "{context}");
                assert_eq!(testbed.server.conn.version(), Some(chosen), "{context}");
                assert!(testbed.server.conn.is_ready(), "{context}");
            } else {
                let reason = CloseReason::UnsupportedVersion(chosen.as_str().to_owned());
                assert_eq!(events, [Event::Closed(reason)], "{context}");
                assert_eq!(testbed.client.log.len(), 1, "nothing is said behind the offer: {context}");
                assert!(!testbed.server.conn.is_ready(), "{context}");
            }
        }
    }
}

// req: LIFE-013 LIFE-014 LIFE-017
#[test]
fn server_answers_unknown_offers_with_its_newest() {
    let offers = ["", "1", "2025-03-26 ", " 2025-03-26", "2025-3-26", "2025_03_26", "DRAFT-2026", "9999-12-31", "🦀"];
    for speaks in sets() {
        let newest = *speaks.last().expect("it speaks something");
        for offer in offers {
            let mut config = full_server();
            config.settings.versions = speaks.iter().copied().collect::<VersionSet>();
            let mut server = Harness::server(config);
            let client = json!({"name": "c", "version": "1"});
            let params = json!({"protocolVersion": offer, "capabilities": {}, "clientInfo": client});
            server.feed(&request_with(1, "initialize", params));
            assert_eq!(server.sent()[0]["result"]["protocolVersion"], newest.as_str(), "{offer:?}");
        }
    }
}

// req: LIFE-015
#[test]
fn client_accepts_only_supported_revisions() {
    for speaks in sets() {
        for answered in ProtocolVersion::ALL {
            let mut config = full_client();
            config.settings.versions = speaks.iter().copied().collect::<VersionSet>();
            let mut client = Harness::client(config);
            let id = client.sent()[0]["id"].clone();
            let server = json!({"name": "s", "version": "1"});
            let params = json!({"protocolVersion": answered.as_str(), "capabilities": {}, "serverInfo": server});
            client.feed(&result(id, params));
            assert_eq!(client.conn.is_ready(), speaks.contains(&answered), "{answered} of {speaks:?}");
            assert_eq!(client.sent().len(), usize::from(speaks.contains(&answered)));
        }
    }
}

#[test]
fn resource_not_found_code_depends_on_the_era() {
    for version in ProtocolVersion::LEGACY {
        assert_eq!(version.resource_not_found(), -32002, "{version}");
    }
    assert_eq!(ProtocolVersion::V2026_07_28.resource_not_found(), -32602);
}
