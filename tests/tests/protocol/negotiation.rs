//! Which revision two ends agree on, for every pair of sets that they may speak.

use mcp_proto::{
    connection::{CloseReason, Event},
    protocol::{ProtocolVersion, VersionSet},
};
use mcp_tests::{
    bed::Bed,
    message::{request_with, result},
    solo::{Solo, full_client, full_server},
};
use serde_json::json;

/// Every set of revisions with a handshake that is not empty, oldest first.
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
fn two_ends_agree_on_what_the_client_offers_or_on_the_newest_of_the_server_or_part() {
    for client_speaks in sets() {
        for server_speaks in sets() {
            let (mut client, mut server) = (full_client(), full_server());
            client.settings.versions = client_speaks.iter().copied().collect::<VersionSet>();
            server.settings.versions = server_speaks.iter().copied().collect::<VersionSet>();
            let mut bed = Bed::new(client, server, Default::default(), Default::default());
            bed.settle();
            let context = format!("client {client_speaks:?}, server {server_speaks:?}");

            let offered = *client_speaks.last().expect("it speaks something");
            let newest = *server_speaks.last().expect("it speaks something");
            let chosen = if server_speaks.contains(&offered) { offered } else { newest };
            assert!(bed.client.log[0].contains(offered.as_str()), "{context}: {}", bed.client.log[0]);
            assert!(bed.server.log[0].contains(chosen.as_str()), "{context}: {}", bed.server.log[0]);
            let events = bed.client.take_events();
            if client_speaks.contains(&chosen) {
                assert_eq!(events, [Event::Ready], "{context}");
                assert_eq!(bed.client.conn.version(), Some(chosen), "{context}");
                assert_eq!(bed.server.conn.version(), Some(chosen), "{context}");
                assert!(bed.server.conn.is_ready(), "{context}");
            } else {
                let reason = CloseReason::UnsupportedVersion(chosen.as_str().to_owned());
                assert_eq!(events, [Event::Closed(reason)], "{context}");
                assert_eq!(bed.client.log.len(), 1, "nothing is said behind the offer: {context}");
                assert!(!bed.server.conn.is_ready(), "{context}");
            }
        }
    }
}

// req: LIFE-013 LIFE-014 LIFE-017
#[test]
fn whatever_is_offered_a_server_names_a_revision_that_it_speaks() {
    let offers = ["", "1", "2025-03-26 ", " 2025-03-26", "2025-3-26", "2025_03_26", "DRAFT-2026", "9999-12-31", "🦀"];
    for speaks in sets() {
        let newest = *speaks.last().expect("it speaks something");
        for offer in offers {
            let mut config = full_server();
            config.settings.versions = speaks.iter().copied().collect::<VersionSet>();
            let mut server = Solo::server(config);
            let client = json!({"name": "c", "version": "1"});
            let params = json!({"protocolVersion": offer, "capabilities": {}, "clientInfo": client});
            server.feed(&request_with(1, "initialize", params));
            assert_eq!(server.sent()[0]["result"]["protocolVersion"], newest.as_str(), "{offer:?}");
        }
    }
}

// req: LIFE-015
#[test]
fn a_client_takes_no_revision_that_it_does_not_speak() {
    for speaks in sets() {
        for answered in ProtocolVersion::ALL {
            let mut config = full_client();
            config.settings.versions = speaks.iter().copied().collect::<VersionSet>();
            let mut client = Solo::client(config);
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
fn a_resource_that_is_not_there_has_the_code_of_its_era() {
    for version in ProtocolVersion::LEGACY {
        assert_eq!(version.resource_not_found(), -32002, "{version}");
    }
    assert_eq!(ProtocolVersion::V2026_07_28.resource_not_found(), -32602);
}
