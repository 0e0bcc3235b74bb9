//! The example `openapi-tokio`: its HTTP client reaches an API on a socket, with the token of the application.

#[path = "../examples/openapi-tokio.rs"]
mod example;

#[tokio::test]
async fn the_example_calls_the_api() {
    let lines = example::run().await.expect("a run");
    assert_eq!(
        lines,
        [
            r#"Rex: {"name": "Rex", "kind": "dog"}"#,
            r#"../../admin: HTTP status 404: {"error": "there is no such pet"}"#,
        ]
    );
}

#[tokio::test]
async fn the_example_sends_no_token_in_place_of_https() {
    let lines = example::call("https://127.0.0.1:1").await.expect("a run");
    assert_eq!(lines[0], "Rex: the scheme of the URL is not http");
}
