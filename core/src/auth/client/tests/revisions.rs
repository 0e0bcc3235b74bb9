//! How clients find the documents of servers in each revision. What follows is the same in all of them.

use super::*;
use crate::auth::resource_metadata::ResourceMetadata;

/// The revisions in which a resource names its authorization servers.
const REVISIONS: [&str; 2] = ["2025-06-18", "2025-11-25"];

const OPENID: &str = "GET https://as.example/.well-known/openid-configuration";

/// Returns the servers of a revision, and the challenge of the resource.
///
/// In 2025-06-18 each challenge names the metadata of the resource, and authorization servers have metadata of RFC
/// 8414. In 2025-11-25 the metadata of the resource may be at the well-known URI alone, and authorization servers may
/// have metadata of OpenID Connect.
fn servers(revision: &str) -> (World, &'static str) {
    let mut world = World::new();
    if revision == "2025-06-18" {
        let resource = world.responses.remove(RESOURCE).expect("it is there");
        world.responses.insert("GET https://mcp.example/meta".into(), resource);
        (world, r#"Bearer resource_metadata="https://mcp.example/meta""#)
    } else {
        let metadata = world.responses.remove(METADATA).expect("it is there");
        world.responses.insert(OPENID.into(), metadata);
        (world, "Bearer")
    }
}

// req: AUTH-027 AUTH-032 AUTH-039
#[test]
fn a_challenge_leads_to_a_token_in_each_revision() {
    for revision in REVISIONS {
        let (mut world, challenge) = servers(revision);
        let mut client = client(&mut world, settings());
        let mut call = Call::refused(&client, 401, challenge);
        assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait, "{revision}");
        world.consent(&mut client, at(1));
        assert_eq!((call.ask(&mut client, at(1)), token(&client)), (Verdict::Retry, Some("one")), "{revision}");
        let requests: Vec<_> = world.requests.iter().map(|it| format!("{} {}", it.method, it.url.as_str())).collect();
        let expected: &[&str] = match revision {
            "2025-06-18" => &["GET https://mcp.example/meta", METADATA, REGISTER, TOKEN],
            _ => &[RESOURCE, METADATA, OPENID, REGISTER, TOKEN],
        };
        assert_eq!(requests, expected, "{revision}");
    }
}

// req: AUTH-025 AUTH-026
#[test]
fn each_revision_finds_resource_metadata() {
    let server = ResourceMetadata::new(url(SERVER), url("https://as.example"));
    for revision in REVISIONS {
        let mut world = World::new();
        world.responses.remove(RESOURCE);
        let (mut paths, mut challenge) = (server.paths().collect::<Vec<_>>(), "Bearer".to_string());
        if revision == "2025-06-18" {
            paths.truncate(1);
            challenge = server.challenge(None, &Scopes::default());
        }
        for path in paths {
            let body = String::from_utf8(server.document()).expect("text");
            let reply = Reply { status: 200, body, nonce: None };
            world.responses.insert(format!("GET https://mcp.example{path}"), reply);
        }
        let mut client = client(&mut world, settings());
        let verdict = Call::refused(&client, 401, &challenge).wait(&mut world, &mut client, at(0));
        assert_eq!((verdict, world.opened[0].host()), (Verdict::Wait, "as.example"), "{revision}");
    }
}
