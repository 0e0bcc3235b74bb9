//! Tests of the state that both directions of a connection share.

use std::{fs, net::TcpListener};

use super::*;
use crate::{
    record::Header,
    recorder::{
        file::RecordFile,
        http::{exchange::Recorder, pair, server::Address},
    },
};

/// How long a test waits.
const WAIT: Duration = Duration::from_secs(60);

/// Returns a site whose record is at a path, and the server.
fn site(path: &std::path::Path) -> (Site, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let header = Header { started: String::new(), transport: "http".into(), server: url.clone(), masked: false };
    let file = RecordFile::create(path, 1 << 20, true, &header).expect("a file");
    let recorder = Arc::new(Recorder::new(Arc::new(file), false));
    let address = Address::new(&url).expect("an address");
    let site = Site {
        recorder,
        address,
        own: String::new(),
        no_compression: false,
        quiet: true,
        most: 1,
        noted: Mutex::default(),
    };
    (site, listener)
}

#[test]
fn an_exchange_is_in_progress_until_its_response_is_written() {
    let path = std::env::temp_dir().join(format!("mcp-cli-connection-{}.jsonl", std::process::id()));
    let (site, listener) = site(&path);
    let (reader, _writer) = site.address.connect().expect("it listens");
    let mut server = listener.accept().expect("a connection").0;
    let (mut client, output) = pair();
    let (site, shared) = (Arc::new(site), Arc::new(Shared::default()));
    let request = || {
        let own = head::Origin { scheme: "http".into(), authority: "a".into() };
        let exchange = site.recorder.begin(1, b"GET / HTTP/1.1\r\n\r\n");
        shared.update(|state| state.pending.push_back(Pending { exchange, method: "GET".into(), own }));
    };
    let input = Input::new(reader, None);
    let mut responses =
        Responses { site: Arc::clone(&site), shared: Arc::clone(&shared), input, output: Arc::new(output) };
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    assert!(shared.state().idle_since().is_some(), "nothing has begun");
    request();
    assert_eq!(shared.state().idle_since(), None);
    server.write_all(answer).expect("it is read");
    assert!(responses.response().is_ok());
    // Its end is recorded before its last piece is written, so nothing waits for it any more.
    assert!(shared.state().pending.is_empty());
    assert_eq!(shared.state().idle_since(), None);
    // The loop ends the writing.
    request();
    let before = Instant::now();
    server.write_all(answer).expect("it is read");
    let running = thread::spawn(move || responses.run());
    let is_idle = |state: &State| state.idle_since().is_some_and(|since| since >= before);
    assert!(shared.wait(WAIT, is_idle), "the last exchange has not ended");
    shared.update(|state| state.requests_ended = true);
    drop(server);
    running.join().expect("it ends");
    let mut read = String::new();
    io::Read::read_to_string(&mut client, &mut read).expect("text");
    assert_eq!(read.as_bytes(), answer.repeat(2));
    fs::remove_file(path).expect("it is removed");
}
