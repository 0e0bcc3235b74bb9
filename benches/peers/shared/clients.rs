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
use mcp_proto::protocol::{Era, ProtocolVersion};
use memchr::memmem;
use tokio::net::TcpStream;

use super::{
    AT_ONCE, CALLS, REVISIONS,
    adapters::{arguments, blocking_calls, calls, host, runtime},
    child, name, rounds,
};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The members of `_meta` that each request of 2026-07-28 has.
const META: &str = concat!(
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"client","version":"1.0.0"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
);

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

fn blocking(server: Server, revision: ProtocolVersion, at_once: usize) -> Box<dyn FnMut()> {
    let client = mcp_blocking::Client::connect_http(&server.url(), &host(revision)).expect("a client");
    let arguments = arguments();
    Box::new(move || {
        let _ = &server;
        blocking_calls(&client, &arguments, at_once);
    })
}

fn smol(server: Server, revision: ProtocolVersion, at_once: usize) -> Box<dyn FnMut()> {
    let client = smol::block_on(mcp_smol::Client::connect_http(&server.url(), &host(revision))).expect("a client");
    let arguments = arguments();
    Box::new(move || {
        let _ = &server;
        smol::block_on(calls(&client, &arguments, at_once));
    })
}

fn tokio(server: Server, revision: ProtocolVersion, at_once: usize) -> Box<dyn FnMut()> {
    let runtime = runtime();
    let client = runtime.block_on(mcp_tokio::Client::connect_http(&server.url(), &host(revision))).expect("a client");
    let arguments = arguments();
    Box::new(move || {
        let _ = &server;
        runtime.block_on(calls(&client, &arguments, at_once));
    })
}

/// Returns a request to a server with what every client sends, and with these headers.
fn post(address: &str, headers: &[(&'static str, &str)], body: String) -> Request<Full<Bytes>> {
    let mut request = Request::post("/mcp")
        .header("host", address)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).expect("a request")
}

/// Opens a session of this revision. Returns its id.
async fn session(address: &str, connection: &mut SendRequest<Full<Bytes>>, version: &str) -> String {
    let capabilities = r#""capabilities":{},"clientInfo":{"name":"client","version":"1.0.0"}"#;
    let params = format!(r#"{{"protocolVersion":"{version}",{capabilities}}}"#);
    let initialize = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#);
    let response = connection.send_request(post(address, &[], initialize)).await.expect("a response");
    let session = response.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    read(response).await;
    let headers = [("mcp-session-id", &*session), ("mcp-protocol-version", version)];
    let accepted = connection.send_request(post(address, &headers, INITIALIZED.to_owned())).await.expect("a response");
    read(accepted).await;
    session
}

/// Returns the body of a call, with the `_meta` that the other clients send.
fn call(revision: ProtocolVersion, id: u64) -> String {
    let meta = match revision.era() {
        Era::Legacy => format!(r#"{{"progressToken":{id}}}"#),
        Era::Modern => format!(r#"{{"progressToken":{id},{META}}}"#),
    };
    let params = format!(r#"{{"_meta":{meta},"name":"echo","arguments":{ARGUMENTS}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
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
/// Their requests have the headers and the members that those of the other clients have.
fn bare(server: Server, revision: ProtocolVersion, at_once: usize) -> Box<dyn FnMut()> {
    let (runtime, version) = (runtime(), revision.as_str());
    let mut connections = runtime.block_on(connections(&server.1, at_once));
    let session = match revision.era() {
        Era::Legacy => runtime.block_on(session(&server.1, &mut connections[0], version)),
        Era::Modern => String::new(),
    };
    let mut id = 0;
    Box::new(move || {
        let _ = &server;
        let headers = match revision.era() {
            Era::Legacy => vec![("mcp-session-id", &*session), ("mcp-protocol-version", version)],
            Era::Modern => vec![("mcp-protocol-version", version), ("mcp-method", "tools/call"), ("mcp-name", "echo")],
        };
        runtime.block_on(async {
            for _ in 0..rounds(at_once) {
                let mut responses = Vec::with_capacity(connections.len());
                for connection in &mut connections {
                    id += 1;
                    responses.push(connection.send_request(post(&server.1, &headers, call(revision, id))));
                }
                for response in responses {
                    let body = read(response.await.expect("a response")).await;
                    assert!(memmem::find(&body, TEXT.as_bytes()).is_some());
                }
            }
        });
    })
}

/// A client of a revision and its calls, and how many of them it makes at once.
type Make = fn(Server, ProtocolVersion, usize) -> Box<dyn FnMut()>;

pub(super) fn cases() -> Vec<Case> {
    let clients: [(&str, Make); 4] = [("blocking", blocking), ("smol", smol), ("tokio", tokio), ("hyper", bare)];
    let case = |(client, make): (&str, Make), revision, at_once| {
        let bytes = ARGUMENTS.len() + TEXT.len();
        let work = move || Work::new(CALLS, CALLS * bytes, make(Server::start(), revision, at_once));
        Case::new("client", format!("{client}, {}", name(revision, at_once)), work)
    };
    let of = |revision| AT_ONCE.map(|at_once| clients.map(|client| case(client, revision, at_once)));
    REVISIONS.into_iter().flat_map(of).flatten().collect()
}
