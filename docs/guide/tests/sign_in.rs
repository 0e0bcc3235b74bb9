//! The program `sign-in`: a client signs in, and again for a tool that needs another scope.

#[path = "../examples/sign-in.rs"]
mod sign_in;

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use mcp_service::Host;
use mcp_tokio::http::{
    Connector, OAuth,
    auth::{Loopback, Registration, Settings},
};

/// Sends a request as a browser does, and returns the whole response.
fn send(method: &str, url: &str, body: &str) -> String {
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    let head = format!("host: {host}\r\nconnection: close\r\ncontent-length: {length}");
    write!(stream, "{method} /{path} HTTP/1.1\r\n{head}\r\n\r\n{body}").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// The user: reads the page, presses its button, and follows the redirect to the client.
fn agree(url: &str) {
    let page = send("GET", url, "");
    let action = page
        .split("action=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap();
    let origin = url.split("/authorize").next().unwrap();
    let action = format!("{origin}{}", action.replace("&amp;", "&"));
    let allowed = send("POST", &action, "");
    let location = allowed
        .lines()
        .find_map(|line| line.strip_prefix("location: "))
        .unwrap();
    assert!(
        send("GET", location, "").starts_with("HTTP/1.1 200"),
        "{location}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_and_agrees_to_another_scope() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { sign_in::serve(listener).await.unwrap() });

    let agreed = Arc::new(AtomicUsize::new(0));
    let counted = agreed.clone();
    let browser = Loopback::new().unwrap().open_with(move |url| {
        let url = url.as_str().to_owned();
        counted.fetch_add(1, Ordering::SeqCst);
        thread::spawn(move || agree(&url));
        Ok(())
    });
    let mut settings = Settings::default();
    settings.identities.registration = Some(Registration::new("test", []));
    let oauth = OAuth::builder(&url)
        .unwrap()
        .settings(settings)
        .user_agent(browser);
    let oauth: OAuth = oauth.build().unwrap();

    // A token that the server does not know is refused.
    let host = Host::builder("test", "1.0.0").build();
    assert!(
        Connector::new(&url)
            .unwrap()
            .bearer("guessed")
            .unwrap()
            .connect(&host)
            .await
            .is_err()
    );

    let client = Connector::new(&url)
        .unwrap()
        .auth(oauth)
        .connect(&host)
        .await
        .unwrap();
    let who = client.call_tool("whoami", ()).unwrap().await.unwrap();
    let issuer = url.strip_suffix("/mcp").unwrap();
    assert_eq!(who.content[0].as_text(), Some(&*format!("{issuer} ada")));
    assert_eq!(agreed.load(Ordering::SeqCst), 1);
    let forgotten = client.call_tool("forget", ()).unwrap().await.unwrap();
    assert_eq!(forgotten.content[0].as_text(), Some("All notes are gone"));
    assert_eq!(agreed.load(Ordering::SeqCst), 2);
    client.close().await;
}

/// Allows a request with a challenge, and returns the code.
fn code(origin: &str, challenge: &str, redirect: &str) -> Option<String> {
    let query = format!("code_challenge={challenge}&scope=notes&redirect_uri={redirect}");
    let response = send("POST", &format!("{origin}/allow?{query}"), "");
    let (_, rest) = response.split_once("?code=")?;
    rest.split('&').next().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_needs_its_verifier_and_is_used_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { sign_in::serve(listener).await.unwrap() });
    tokio::task::spawn_blocking(move || {
        // The example of RFC 7636, appendix B.
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let redirect = "http://127.0.0.1:1/callback";
        let exchange = |code: &str, verifier: &str| {
            let body = format!("code={code}&code_verifier={verifier}&redirect_uri={redirect}");
            send("POST", &format!("{origin}/token"), &body).contains("access_token")
        };
        let stolen = code(&origin, challenge, redirect).unwrap();
        assert!(!exchange(&stolen, "another"));
        let used = code(&origin, challenge, redirect).unwrap();
        assert!(exchange(&used, verifier));
        assert!(!exchange(&used, verifier));
        for elsewhere in ["https://evil.example/", "http://127.0.0.1:80@evil.example/"] {
            assert_eq!(code(&origin, challenge, elsewhere), None, "{elsewhere}");
        }
    })
    .await
    .unwrap();
}
