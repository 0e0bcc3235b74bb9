use alloc::string::ToString;

use super::*;
use crate::auth::CodeVerifier;

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://mcp.example/mcp";

fn server() -> AuthorizationServer {
    let body = format!(
        r#"{{"issuer":"{ISSUER}","token_endpoint":"https://as.example/token",
        "revocation_endpoint":"https://as.example/revoke"}}"#
    );
    AuthorizationServer::parse(body.as_bytes(), ISSUER).expect("metadata")
}

fn client(method: AuthMethod) -> ClientIdentity {
    ClientIdentity {
        issuer: ISSUER.into(),
        client_id: "a:b c".into(),
        secret: Some(Secret::new("s+/\u{e4}")),
        secret_expires_at: None,
        redirect_uris: Vec::new(),
        auth_method: Some(method),
    }
}

fn resource() -> Url {
    Url::parse(RESOURCE).expect("a URL")
}

fn code() -> AuthorizationCode {
    AuthorizationCode {
        code: Secret::new("c&d"),
        verifier: CodeVerifier::new([2; 32]),
        issuer: ISSUER.into(),
        redirect_uri: Url::parse("http://127.0.0.1:7/cb").expect("a URL"),
        resource: resource(),
        scopes: Scopes::default(),
    }
}

// req: AUTH-014 M-AUTH-026
#[test]
fn request_bodies_are_exact() {
    let code = code();
    let verifier = code.verifier.expose();
    let grant = format!(
        "grant_type=authorization_code&code=c%26d&redirect_uri=http%3A%2F%2F127.0.0.1%3A7%2Fcb&code_verifier={verifier}\
         &resource=https%3A%2F%2Fmcp.example%2Fmcp"
    );
    let jwt = Secret::new("a.b.c");
    for (method, more, authorization) in [
        (AuthMethod::None, "&client_id=a%3Ab+c", None),
        // The pair is `a%3Ab+c:s%2B%2F%C3%A4`.
        (AuthMethod::ClientSecretBasic, "", Some("Basic YSUzQWIrYzpzJTJCJTJGJUMzJUE0")),
        (AuthMethod::ClientSecretPost, "&client_id=a%3Ab+c&client_secret=s%2B%2F%C3%A4", None),
        (
            AuthMethod::PrivateKeyJwt,
            "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer\
             &client_assertion=a.b.c",
            None,
        ),
    ] {
        let request = TokenRequest::new(&Grant::Code(&code), &server(), &client(method), Some(&jwt));
        let request = request.expect("a request");
        assert_eq!(request.body.expose(), format!("{grant}{more}"));
        assert_eq!(request.authorization.as_ref().map(Secret::expose), authorization);
        assert_eq!(request.url.as_str(), "https://as.example/token");
        assert!(!format!("{request:?}").contains("c%26d"), "{request:?}");
    }
}

#[test]
fn grants_have_their_parameters() {
    let (token, scopes) = (Secret::new("t"), Scopes::parse("a b").expect("scopes"));
    let (resource, id) = ("&resource=https%3A%2F%2Fmcp.example%2Fmcp", &resource());
    for (grant, expected) in [
        (Grant::Refresh { token: &token, resource: id }, format!("grant_type=refresh_token&refresh_token=t{resource}")),
        (
            Grant::ClientCredentials { resource: id, scopes: &scopes },
            format!("grant_type=client_credentials{resource}&scope=a+b"),
        ),
        (
            Grant::Assertion { assertion: &token, resource: id, scopes: &Scopes::default() },
            format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=t{resource}"),
        ),
        (
            Grant::IdentityAssertion {
                subject: &token,
                subject_type: "urn:ietf:params:oauth:token-type:id_token",
                audience: "https://other.example",
                resource: id,
                scopes: &scopes,
            },
            format!(
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange\
                 &requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid-jag&subject_token=t\
                 &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token\
                 &audience=https%3A%2F%2Fother.example{resource}&scope=a+b"
            ),
        ),
    ] {
        let request = TokenRequest::new(&grant, &server(), &client(AuthMethod::ClientSecretBasic), None);
        assert_eq!(request.expect("a request").body.expose(), expected);
    }
    let revocation =
        TokenRequest::revocation(&token, "refresh_token", &server(), &client(AuthMethod::ClientSecretBasic), None);
    let revocation = revocation.expect("a request");
    assert_eq!(revocation.body.expose(), "token=t&token_type_hint=refresh_token");
    assert_eq!(revocation.url.as_str(), "https://as.example/revoke");
}

// req: M-AUTH-013
#[test]
fn credentials_are_sent_to_their_issuer_only() {
    let (server, client) = (server(), client(AuthMethod::ClientSecretBasic));
    let foreign_client = ClientIdentity { issuer: "https://as.example/".into(), ..client.clone() };
    let foreign_code = AuthorizationCode { issuer: "https://evil.example".into(), ..code() };
    let request = |code: &AuthorizationCode, client: &ClientIdentity| {
        TokenRequest::new(&Grant::Code(code), &server, client, None).map(|_| ())
    };
    assert_eq!(request(&code(), &foreign_client), Err(NotRequestable::OtherIssuer));
    assert_eq!(request(&foreign_code, &client), Err(NotRequestable::OtherIssuer));
    let no_secret = ClientIdentity { secret: None, ..client.clone() };
    assert_eq!(request(&code(), &no_secret), Err(NotRequestable::NoSecret));
    let jwt = ClientIdentity { auth_method: Some(AuthMethod::PrivateKeyJwt), ..client };
    assert_eq!(request(&code(), &jwt), Err(NotRequestable::NoAssertion));
}

/// Returns an error response of the authorization server.
fn rejected(code: &str, description: Option<&str>) -> TokenReply {
    TokenReply::Rejected(OAuthError { code: code.into(), description: description.map(ToString::to_string) })
}

/// Returns the tokens of a response. The refresh token `malformed` stands for one that is.
fn granted(refresh: Option<&str>, expires: Option<u64>, scope: Option<&str>) -> TokenReply {
    TokenReply::Granted(Tokens {
        access: Secret::new("t"),
        token_type: TokenType::Bearer,
        refresh: refresh.map_or(RefreshToken::Absent, |text| match text {
            "malformed" => RefreshToken::Malformed,
            text => RefreshToken::New(Secret::new(text)),
        }),
        expires_in: expires.map(Duration::from_secs),
        scopes: scope.map(|text| Scopes::parse(text).expect(text)),
        issued_type: None,
    })
}

fn check_responses(cases: &[(u16, &str, TokenReply)]) {
    for (status, body, expected) in cases {
        assert_eq!(TokenReply::parse(*status, body.as_bytes()), *expected, "{status} {body}");
    }
}

#[test]
fn parses_token_responses() {
    let missing = |name| TokenReply::Invalid(DocumentError::Missing(name));
    let invalid = |name| TokenReply::Invalid(DocumentError::Invalid(name));
    check_responses(&[
        (200, r#"{"access_token":"t","token_type":"Bearer"}"#, granted(None, None, None)),
        (
            201,
            r#"{"access_token":"t","token_type":"bearer","refresh_token":"r","expires_in":"60","scope":"a b"}"#,
            granted(Some("r"), Some(60), Some("a b")),
        ),
        (200, r#"{"access_token":"t","token_type":"bearer","refresh_token":""}"#, granted(None, None, None)),
        (200, "\r\n\t {\"access_token\":\"t\",\"token_type\":\"bearer\"}\n", granted(None, None, None)),
        (200, "access_token=t&token_type=bearer&scope=a%20b&expires_in=9", granted(None, Some(9), Some("a b"))),
        (200, "error=bad_verification_code&error_description=gone", rejected("bad_verification_code", Some("gone"))),
        (200, r#"{"error":"invalid_grant"}"#, rejected("invalid_grant", None)),
        (200, r#"{"access_token":"t","token_type":"bearer","error":"x"}"#, rejected("x", None)),
        (400, r#"{"error":"invalid_grant","error_description":"used"}"#, rejected("invalid_grant", Some("used"))),
        (401, r#"{"error":"invalid_client"}"#, rejected("invalid_client", None)),
        (500, r#"{"error":"invalid_grant"}"#, rejected("invalid_grant", None)),
        (400, r#"{"error":"temporarily_unavailable"}"#, TokenReply::Transient(400)),
        (500, r#"{"error":"server_error"}"#, TokenReply::Transient(500)),
        (400, "<html>a=b</html>", TokenReply::Status(400)),
        (404, "", TokenReply::Status(404)),
        (302, "", TokenReply::Status(302)),
        (408, "", TokenReply::Transient(408)),
        (429, "slow down", TokenReply::Transient(429)),
        (500, r#"{"access_token":"t","token_type":"bearer"}"#, TokenReply::Transient(500)),
        (503, "<html>", TokenReply::Transient(503)),
        (200, "<html>", TokenReply::Invalid(DocumentError::NotAnObject)),
        (200, "", TokenReply::Invalid(DocumentError::NotAnObject)),
        (200, "[]", TokenReply::Invalid(DocumentError::NotAnObject)),
        (200, "{}", missing("access_token")),
        (200, r#"{"access_token":"t"}"#, missing("token_type")),
        (200, r#"{"access_token":"t","token_type":"mac"}"#, invalid("token_type")),
        (200, r#"{"access_token":"t\r\nx: y","token_type":"bearer"}"#, invalid("access_token")),
    ]);
}

// What is optional and malformed does not take away the tokens.
#[test]
fn parses_malformed_members_of_token_responses() {
    check_responses(&[
        (200, r#"{"access_token":"t","token_type":"bearer","scope":"\u0000"}"#, granted(None, None, Some(""))),
        (
            200,
            r#"{"access_token":"t","token_type":"bearer","refresh_token":"r","scope":["a"]}"#,
            granted(Some("r"), None, Some("")),
        ),
        (
            200,
            r#"{"access_token":"t","token_type":"bearer","refresh_token":"r","expires_in":-1}"#,
            granted(Some("r"), None, None),
        ),
        (
            200,
            r#"{"access_token":"t","token_type":"bearer","refresh_token":"r","expires_in":1e20}"#,
            granted(Some("r"), None, None),
        ),
        (
            200,
            r#"{"access_token":"t","token_type":"bearer","refresh_token":"r\ns"}"#,
            granted(Some("malformed"), None, None),
        ),
        (
            200,
            r#"{"access_token":"t","token_type":"bearer","refresh_token":42}"#,
            granted(Some("malformed"), None, None),
        ),
        (
            200,
            "access_token=t&token_type=bearer&refresh_token=r%00&scope=%00",
            granted(Some("malformed"), None, Some("")),
        ),
        (200, "access_token=t&token_type=bearer&refresh_token=r&expires_in=x", granted(Some("r"), None, None)),
        // An error counts, whatever its description is.
        (400, r#"{"error":"invalid_grant","error_description":42}"#, rejected("invalid_grant", None)),
        (
            200,
            r#"{"access_token":"t","token_type":"bearer","error":"x","error_description":"a","error_description":"b"}"#,
            rejected("x", None),
        ),
        (
            200,
            r#"{"access_token":"t","access_token":"u","token_type":"bearer"}"#,
            TokenReply::Invalid(DocumentError::Duplicate("access_token")),
        ),
        (
            200,
            "access_token=t&access_token=u&token_type=bearer",
            TokenReply::Invalid(DocumentError::Duplicate("access_token")),
        ),
    ]);
}
