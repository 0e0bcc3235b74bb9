//! `mcp` with a proxy that the environment names.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use mcp_blocking::http::Listener;

use crate::server;

/// The variables that `mcp` reads.
const VARIABLES: [&str; 8] =
    ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"];

/// Starts a proxy that refuses all requests. Returns its address, and the heads that it receives.
fn refusing_proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let (address, heads) = (listener.local_addr().expect("an address").to_string(), Arc::new(Mutex::default()));
    let received: Arc<Mutex<Vec<String>>> = heads.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let head: Vec<_> = lines.collect();
            received.lock().expect("no panic").push(head.join("\n"));
            let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (address, heads)
}

pub(crate) fn proxy_of_the_environment_is_used() {
    let listener = Listener::bind("127.0.0.1:0").expect("there is a port");
    let (url, stop) = (format!("http://{}/mcp", listener.local_addr()), listener.stop_handle());
    let served = thread::spawn(move || listener.serve(&server::service()).is_ok());
    let (proxy, heads) = refusing_proxy();
    let list = |url: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
        VARIABLES.iter().for_each(|name| _ = command.env_remove(name));
        let output = command.args(["list", url, "tools"]).envs(variables.iter().copied()).output().expect("it runs");
        let received = std::mem::take(&mut *heads.lock().expect("no panic"));
        (output.status.success(), String::from_utf8(output.stderr).expect("text"), received)
    };
    // Without TLS the proxy forwards requests, and with TLS it tunnels connections.
    let named = format!("http://user:canary@{proxy}");
    for (url, first) in
        [(&*url, format!("POST {url} HTTP/1.1")), ("https://a.test/", "CONNECT a.test:443 HTTP/1.1".into())]
    {
        let (is_ok, error, received) = list(url, &[("ALL_PROXY", &named)]);
        assert!(!is_ok && error.contains("502") && !error.contains("canary"), "{error}");
        let authorization = "proxy-authorization: Basic dXNlcjpjYW5hcnk=";
        let is_expected = |head: &String| head.starts_with(&first) && head.contains(authorization);
        assert!(!received.is_empty() && received.iter().all(is_expected), "{received:?}");
    }
    let exempt = list(&url, &[("http_proxy", &proxy), ("NO_PROXY", "other.test,127.0.0.1")]);
    assert!(exempt.0 && exempt.2.is_empty(), "{exempt:?}");
    let (is_ok, error, received) = list(&url, &[("ALL_PROXY", "socks5://canary.test")]);
    assert!(!is_ok && error.contains("no proxy of HTTP") && !error.contains("canary"), "{error}");
    assert!(received.is_empty(), "{received:?}");
    stop();
    assert!(served.join().expect("no panic"), "it was told to stop");
}
