//! Clients over HTTP: of each adapter, and of hyper without anything of MCP. All of them call the same server, that of
//! tokio in a process of its own.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use mcp_benches::{ARGUMENTS, Case, TEXT, Work};
use memchr::memmem;
use tokio::net::TcpStream;

use super::{
    AT_ONCE, CALLS,
    adapters::{arguments, blocking_calls, calls, host, runtime},
    child, rounds,
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"client","version":"1.0.0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The server, and its address. Dropping it ends it.
struct Server(Child, String);

impl Server {
    fn start() -> Self {
        let mut server = child("HTTP tokio").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a server");
        let mut address = String::new();
        BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut address).expect("its address");
        Self(server, address.trim().to_owned())
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn blocking(server: Server, at_once: usize) -> Box<dyn FnMut()> {
    let client = mcp_blocking::Client::connect_http(&server.url(), &host()).expect("a client");
    let arguments = arguments();
    Box::new(move || {
        let _ = &server;
        blocking_calls(&client, &arguments, at_once);
    })
}

fn smol(server: Server, at_once: usize) -> Box<dyn FnMut()> {
    let client = smol::block_on(mcp_smol::Client::connect_http(&server.url(), &host())).expect("a client");
    let arguments = arguments();
    Box::new(move || {
        let _ = &server;
        smol::block_on(calls(&client, &arguments, at_once));
    })
}

fn tokio(server: Server, at_once: usize) -> Box<dyn FnMut()> {
    let runtime = runtime();
    let client = runtime.block_on(mcp_tokio::Client::connect_http(&server.url(), &host())).expect("a client");
    let arguments = arguments();
    Box::new(move || {
        let _ = &server;
        runtime.block_on(calls(&client, &arguments, at_once));
    })
}

fn post(session: &str, body: String) -> Request<Full<Bytes>> {
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if !session.is_empty() {
        request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-06-18");
    }
    request.body(Full::new(body.into())).expect("a request")
}

async fn read(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.expect("a body").to_bytes()
}

/// Returns connections to a server.
async fn connections(address: &str, count: usize) -> Vec<SendRequest<Full<Bytes>>> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        connections.push(sender);
    }
    connections
}

/// Makes calls with hyper, each over a connection of its own, and searches the bodies of the responses for the text.
fn bare(server: Server, at_once: usize) -> Box<dyn FnMut()> {
    let runtime = runtime();
    let (mut connections, session) = runtime.block_on(async {
        let mut connections = connections(&server.1, at_once).await;
        let response = connections[0].send_request(post("", INITIALIZE.to_owned())).await.expect("a response");
        let session = response.headers()["mcp-session-id"].to_str().expect("text").to_owned();
        read(response).await;
        let accepted = connections[0].send_request(post(&session, INITIALIZED.to_owned())).await.expect("a response");
        read(accepted).await;
        (connections, session)
    });
    let mut id = 0;
    Box::new(move || {
        let _ = &server;
        runtime.block_on(async {
            for _ in 0..rounds(at_once) {
                let mut responses = Vec::with_capacity(connections.len());
                for connection in &mut connections {
                    id += 1;
                    let params = format!("{{\"name\":\"echo\",\"arguments\":{ARGUMENTS}}}");
                    let call =
                        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}");
                    responses.push(connection.send_request(post(&session, call)));
                }
                for response in responses {
                    let body = read(response.await.expect("a response")).await;
                    assert!(memmem::find(&body, TEXT.as_bytes()).is_some());
                }
            }
        });
    })
}

/// A client and its calls, and how many of them it makes at once.
type Make = fn(Server, usize) -> Box<dyn FnMut()>;

pub(super) fn cases() -> Vec<Case> {
    let clients: [(&str, Make); 4] = [("blocking", blocking), ("smol", smol), ("tokio", tokio), ("hyper", bare)];
    let case = |(name, make): (&str, Make), at_once: usize| {
        let bytes = ARGUMENTS.len() + TEXT.len();
        let work = move || Work::new(CALLS, CALLS * bytes, make(Server::start(), at_once));
        Case::new("client", format!("{name}, {at_once} at once"), work)
    };
    AT_ONCE.into_iter().flat_map(|at_once| clients.map(|client| case(client, at_once))).collect()
}
