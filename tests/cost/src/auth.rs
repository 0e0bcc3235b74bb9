//! OAuth: challenges, metadata, responses of authorization servers, stored credentials, keys and introspections.

use std::io;

use http::{Request, Response};
use mcp_driver::http::{HttpFetch, IntrospectionVerifier, KeySet, TokenVerifier};
use mcp_proto::auth::{
    Challenge, ClientIdentity, Secret, TokenReply, Url,
    client::Credentials,
    metadata::{AuthorizationServer, ProtectedResource},
};
use mcp_service::{Deferred, block_on};

use super::{Case, Work, list};

const ISSUER: &str = "https://as.example";
const SERVER: &str = "https://mcp.example/mcp";

/// The bytes of a long element of a list. A list of the largest input has no more of them than are read.
const ITEM_LEN: usize = 1024;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "auth/WWW-Authenticate with a text of escapes",
        make: |size| challenges(size, "Bearer a=\"", "\\x", "\""),
    },
    Case { name: "auth/WWW-Authenticate with empty elements", make: |size| challenges(size, "Bearer a=b", ",", ",c") },
    Case { name: "auth/resource metadata, members that are unknown", make: |size| resource(&[], &unknown(size)) },
    Case {
        name: "auth/resource metadata, long issuers",
        make: |size| {
            let path = "a".repeat(ITEM_LEN);
            let issuers: Vec<_> =
                (0..size / ITEM_LEN).map(|index| format!("https://as{index}.example/{path}")).collect();
            resource(&issuers, "\"x\":1")
        },
    },
    Case {
        name: "auth/resource metadata, too many scopes",
        make: |size| resource(&[], &format!("\"scopes_supported\":[{}]", list(size, |index| format!("\"s{index}\"")))),
    },
    Case { name: "auth/server metadata, members that are unknown", make: |size| server(&unknown(size)) },
    Case {
        name: "auth/server metadata, long methods",
        make: |size| {
            let methods = vec![format!("\"{}\"", "m".repeat(ITEM_LEN)); size / ITEM_LEN].join(",");
            server(&format!("\"token_endpoint_auth_methods_supported\":[{methods}]"))
        },
    },
    Case { name: "auth/token response, members that are unknown", make: |size| token(granted(&unknown(size))) },
    Case {
        name: "auth/token response, a scope that is too long",
        make: |size| token(granted(&format!("\"scope\":\"{}\"", "a ".repeat(size / 2)))),
    },
    Case {
        name: "auth/token response, a form of escapes",
        make: |size| token(format!("access_token=t&token_type=bearer&x={}", "%41".repeat(size / 3))),
    },
    Case { name: "auth/registration, members that are unknown", make: registration },
    Case { name: "auth/stored credentials, members that are unknown", make: credentials },
    Case {
        name: "auth/key set, keys of members that are unknown",
        make: |size| {
            let members = unknown(size / KeySet::MAX_KEYS);
            keys(
                &vec![format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\",{members}}}"); KeySet::MAX_KEYS]
                    .join(","),
            )
        },
    },
    Case {
        name: "auth/key set, a long modulus",
        make: |size| keys(&format!("{{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"{}\"}}", "QUJD".repeat(size / 4))),
    },
    Case {
        name: "auth/introspection, many audiences",
        make: |size| {
            let audiences = list(size, |index| format!("\"{index}\""));
            introspection(&format!("\"aud\":[{audiences},\"{SERVER}\"]"))
        },
    },
    Case {
        name: "auth/introspection, members that are unknown",
        make: |size| introspection(&format!("\"aud\":\"{SERVER}\",{}", unknown(size))),
    },
];

/// Members of about `size` bytes.
fn unknown(size: usize) -> String {
    list(size, |index| format!("\"m{:07}\":1", 9_999_999 - index))
}

/// Header values of the largest size that is read, each with one challenge.
fn challenges(size: usize, head: &str, part: &str, tail: &str) -> Work {
    let length = Challenge::MAX_LEN.min(size);
    let count = (length - head.len() - tail.len()) / part.len();
    let value = format!("{head}{}{tail}", part.repeat(count));
    let values = vec![value; size / length];
    Work::new(size, move || drop(Challenge::parse_all(values.iter().map(String::as_bytes))))
}

fn resource(issuers: &[String], members: &str) -> Work {
    let issuers = if issuers.is_empty() { &[ISSUER.to_owned()][..] } else { issuers };
    let issuers: Vec<_> = issuers.iter().map(|issuer| format!("\"{issuer}\"")).collect();
    let issuers = issuers.join(",");
    let body = format!("{{\"resource\":\"{SERVER}\",\"authorization_servers\":[{issuers}],{members}}}");
    let server = Url::parse(SERVER).expect("a URL");
    Work::new(body.len(), move || drop(ProtectedResource::parse(body.as_bytes(), &server).expect("metadata")))
}

fn server(members: &str) -> Work {
    let body = format!("{{\"issuer\":\"{ISSUER}\",\"token_endpoint\":\"{ISSUER}/token\",{members}}}");
    Work::new(body.len(), move || drop(AuthorizationServer::parse(body.as_bytes(), ISSUER).expect("metadata")))
}

fn granted(members: &str) -> String {
    format!("{{\"access_token\":\"t\",\"token_type\":\"Bearer\",{members}}}")
}

fn token(body: String) -> Work {
    Work::new(body.len(), move || {
        let reply = TokenReply::parse(200, body.as_bytes());
        assert!(matches!(reply, TokenReply::Granted(_)), "it is a token");
    })
}

fn registration(size: usize) -> Work {
    let body = format!("{{\"client_id\":\"id\",{}}}", unknown(size));
    Work::new(body.len(), move || {
        drop(ClientIdentity::from_registration(ISSUER, 201, body.as_bytes()).expect("a registration"));
    })
}

fn credentials(size: usize) -> Work {
    let of_issuer = |index: usize| {
        let tokens = format!(
            "{{\"access_token\":\"t\",\"token_type\":\"Bearer\",\"resource\":\"{SERVER}\",\"issued_at\":1,{}}}",
            unknown(size / 8)
        );
        let members = unknown(size / 8);
        format!("\"issuer\":\"https://as{index}.example\",\"client_id\":\"id\",{members},\"tokens\":{tokens}")
    };
    let others: Vec<_> = (1..=Credentials::MAX_OTHERS).map(|index| format!("{{{}}}", of_issuer(index))).collect();
    let json = format!("{{{},\"others\":[{}]}}", of_issuer(0), others.join(","));
    Work::new(json.len(), move || drop(Credentials::from_json(json.as_bytes()).expect("credentials")))
}

fn keys(keys: &str) -> Work {
    let body = format!("{{\"keys\":[{keys}]}}");
    Work::new(body.len(), move || drop(KeySet::parse(body.as_bytes()).expect("a key set")))
}

/// An authorization server with one response, of any size.
struct Fetched(String);

impl HttpFetch for Fetched {
    fn fetch(&self, _: Request<Vec<u8>>, _: usize) -> Deferred<io::Result<Response<Vec<u8>>>> {
        Deferred::ready(Ok(Response::new(self.0.clone().into_bytes())))
    }
}

fn introspection(members: &str) -> Work {
    let body = format!("{{\"active\":true,{members}}}");
    let (input, secret) = (body.len(), Secret::new("s"));
    let url = "https://as.example/introspect";
    let verifier = IntrospectionVerifier::new(url, (ISSUER, SERVER), ("id", &secret), Fetched(body)).expect("a URL");
    Work::new(input, move || drop(block_on(verifier.verify(&Secret::new("t"))).expect("it is active")))
}
