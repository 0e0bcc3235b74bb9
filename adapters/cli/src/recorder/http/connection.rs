//! A connection of a client, and the one to the server that belongs to it. One thread forwards requests, and another
//! one responses, so each side can end the exchange at any time.

use std::{
    collections::VecDeque,
    io::{self, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    Site,
    body::{Content, Framing},
    exchange::{BodyRecorder, Exchange},
    head::{self, Head},
    input::{Input, NoHead},
    server::{ServerReader, ServerWriter},
};
use crate::record::{EndpointRewriter, Origin};

/// How long a connection without an exchange, a request, and a side that does not read may make no progress.
const IDLE: Duration = Duration::from_secs(300);

/// How long one direction may be silent after the other one has ended.
const LINGER: Duration = Duration::from_secs(10);

/// The most requests of one connection that wait for their responses.
const PIPELINED: usize = 16;

/// The stack of a thread.
pub(super) const STACK: usize = 512 << 10;

/// A request that has been forwarded, until its response has ended.
#[derive(Clone, Debug)]
struct Pending {
    exchange: Exchange,
    method: String,
    /// Where the client has the recorder.
    own: head::Origin,
}

#[derive(Debug)]
struct State {
    pending: VecDeque<Pending>,
    /// Whether a response is being written to the client.
    is_writing: bool,
    /// When the last response had been written.
    last_end: Instant,
    requests_ended: bool,
    /// The reason why the client sends no more, if it was the client that ended the requests.
    client_end: Option<String>,
    responses_ended: bool,
    /// Grows with each piece of a response.
    pieces: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            pending: VecDeque::new(),
            is_writing: false,
            last_end: Instant::now(),
            requests_ended: false,
            client_end: None,
            responses_ended: false,
            pieces: 0,
        }
    }
}

impl State {
    /// Returns when the last exchange had ended, or `None` while one is in progress. The last piece of a response is a
    /// part of its exchange until the client has it.
    fn idle_since(&self) -> Option<Instant> {
        (self.pending.is_empty() && !self.is_writing).then_some(self.last_end)
    }

    /// Ends the writing of a response.
    fn end_writing(&mut self) {
        (self.is_writing, self.last_end) = (false, Instant::now());
    }

    /// Returns whether an exchange other than `own`, which the client has broken, is in progress. A response to `own`
    /// that has begun counts, too.
    fn has_others(&self, own: Option<&Exchange>) -> bool {
        self.is_writing || self.pending.iter().any(|it| own.is_none_or(|own| !own.is_same(&it.exchange)))
    }
}

/// The state that both directions share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the other direction.
    fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// Waits until a condition holds, at most for a time. Returns whether it does.
    fn wait(&self, most: Duration, mut holds: impl FnMut(&State) -> bool) -> bool {
        let mut state = self.state();
        let deadline = Instant::now() + most;
        while !holds(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Ends the responses, and all exchanges that have none. If the client has ended first, that is the reason.
    fn end_responses(&self, from: Origin, why: &str) {
        // Within one lock, so that no request is added in between.
        self.update(|state| {
            let own = state.client_end.as_deref().filter(|_| from == Origin::Server);
            let (from, why) = own.map_or((from, why), |own| (Origin::Client, own));
            for pending in &state.pending {
                pending.exchange.failed(from, why);
            }
            state.pending.clear();
            state.responses_ended = true;
        });
    }
}

/// Forwards everything between a client and the server until both have ended.
pub(super) fn forward(site: &Arc<Site>, number: u64, client: TcpStream) {
    // Both directions share the descriptor.
    let client = Arc::new(client);
    let _ = client.set_nodelay(true);
    let _ = client.set_write_timeout(Some(IDLE));
    let shared = Arc::new(Shared::default());
    let input = Input::new(Arc::clone(&client), Some(IDLE));
    let mut requests = Requests { site: Arc::clone(site), number, shared, input, output: client, server: None };
    let why = requests.run();
    requests.end(why);
}

/// The reason why the direction of the requests ends.
enum Ended {
    /// The client has closed it.
    Closed,
    /// The client is gone.
    Gone(String),
    /// The client has sent something that is not HTTP, or only a part of this request. It may still read.
    Wrong(String, Option<Exchange>),
    /// Refused with this status, for this reason.
    Refused(u16, &'static str, Option<Exchange>),
    /// The server does not read any more. It may still respond.
    ServerGone,
}

struct Requests {
    site: Arc<Site>,
    number: u64,
    shared: Arc<Shared>,
    input: Input<Arc<TcpStream>>,
    output: Arc<TcpStream>,
    server: Option<(ServerWriter, thread::JoinHandle<()>)>,
}

impl Requests {
    fn run(&mut self) -> Ended {
        loop {
            let shared = &self.shared;
            let bytes = match self.input.head(|| shared.state().idle_since()) {
                Ok(bytes) => bytes,
                Err(NoHead::End) => return Ended::Closed,
                Err(NoHead::TooLong) => return Ended::Refused(431, "the head of the request is too long", None),
                Err(NoHead::Wrong(why)) => return Ended::Wrong(why, None),
                Err(NoHead::Gone(why)) => return Ended::Gone(why),
            };
            let exchange = self.site.recorder.begin(self.number, &bytes);
            if let Err(ended) = self.exchange(bytes, exchange) {
                return ended;
            }
        }
    }

    fn exchange(&mut self, bytes: Vec<u8>, exchange: Exchange) -> Result<(), Ended> {
        let refused = |status, why| Ended::Refused(status, why, Some(exchange.clone()));
        let head = Head::request(bytes).map_err(|why| refused(400, why))?;
        let own = head.authority().map_err(|(status, why)| refused(status, why))?;
        let mut framing = head.request_framing().map_err(|why| refused(400, why))?;
        let own = head::Origin { scheme: "http".into(), authority: own.unwrap_or_else(|| self.site.own.clone()) };
        if self.server.is_none() {
            let (reader, writer) = match self.site.address.connect() {
                Ok(connection) => connection,
                Err(error) => {
                    self.site.note_once("reach", &format!("the server cannot be reached: {error}"));
                    return Err(refused(502, "the server cannot be reached"));
                }
            };
            self.start(reader, writer).map_err(|_| refused(503, "the recorder has no thread left"))?;
        }
        let is_free = |state: &State| state.pending.len() < PIPELINED || state.responses_ended;
        if !self.shared.wait(IDLE, is_free) {
            let why = format!("{PIPELINED} requests wait for their responses");
            exchange.failed(Origin::Server, &why);
            return Err(Ended::Wrong(why, None));
        }
        let forwarded = head.for_server(&own, &self.site.address.origin, self.site.no_compression);
        let pending = Pending { exchange: exchange.clone(), method: head.method().to_owned(), own };
        let is_over = self.shared.update(|state| {
            state.pending.push_back(pending);
            state.responses_ended
        });
        if is_over {
            exchange.failed(Origin::Server, "the connection was closed");
            return Err(Ended::ServerGone);
        }
        let (mut body, mut content) = (exchange.body(Origin::Client, &head, false), Content::default());
        if framing.is_over() {
            body.end();
            return self.write(&forwarded);
        }
        self.write(&forwarded)?;
        let mut held = Vec::new();
        loop {
            let piece = match self.input.piece(&mut framing, &mut content) {
                Ok(piece) => piece,
                Err(error) => {
                    // The fields after the body that are there are forwarded, too.
                    body.flush();
                    let _ = self.write(&held);
                    return Err(match is_gone(&error) {
                        true => Ended::Gone(error.to_string()),
                        false => Ended::Wrong(error.to_string(), Some(exchange.clone())),
                    });
                }
            };
            body.content(&mut content);
            let Some(mut piece) = piece else { break };
            held.append(&mut piece);
            if framing.is_over() {
                // Before the server has all of it and responds.
                body.end();
                return self.write(&held);
            }
            // The fields after a body are recorded as a whole, and forwarded after it.
            if !framing.is_in_trailer() {
                self.write(&std::mem::take(&mut held))?;
            }
        }
        body.end();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        match &mut self.server {
            Some((writer, _)) => writer.write(bytes).map_err(|_| Ended::ServerGone),
            None => Ok(()),
        }
    }

    fn start(&mut self, reader: ServerReader, writer: ServerWriter) -> io::Result<()> {
        let (site, shared, output) = (Arc::clone(&self.site), Arc::clone(&self.shared), Arc::clone(&self.output));
        let mut responses = Responses { site, shared, input: Input::new(reader, None), output };
        let run = move || responses.run();
        let thread = thread::Builder::new().name("responses".into()).stack_size(STACK).spawn(run)?;
        self.server = Some((writer, thread));
        Ok(())
    }

    /// Ends both connections. The responses may go on for as long as something of them arrives.
    fn end(mut self, why: Ended) {
        let mut is_reading = false;
        match why {
            // A client may close only its own direction: its requests still have their responses.
            Ended::Closed => self.shared.update(|state| state.client_end = Some("the connection was closed".into())),
            Ended::Gone(why) => self.abandon(why),
            Ended::Wrong(why, exchange) => {
                is_reading = self.shared.state().has_others(exchange.as_ref());
                if is_reading {
                    self.shared.update(|state| state.client_end = Some(why));
                } else {
                    self.abandon(why);
                }
            }
            Ended::ServerGone => self.discard(),
            Ended::Refused(status, why, exchange) => self.refuse(status, why, exchange.as_ref()),
        }
        self.shared.update(|state| state.requests_ended = true);
        if let Some((mut writer, thread)) = self.server.take() {
            writer.end();
            let mut pieces = self.shared.state().pieces;
            loop {
                let has_moved = self.shared.wait(LINGER, |state| state.responses_ended || state.pieces != pieces);
                if !has_moved {
                    let _ = writer.socket().shutdown(Shutdown::Both);
                    let _ = self.output.shutdown(Shutdown::Both);
                    break;
                }
                let state = self.shared.state();
                if state.responses_ended {
                    break;
                }
                pieces = state.pieces;
            }
            let _ = thread.join();
        }
        if is_reading {
            self.discard();
        }
        let _ = self.output.shutdown(Shutdown::Both);
    }

    /// Ends the connection to the server: no response is waited for.
    fn abandon(&self, why: String) {
        self.shared.update(|state| state.client_end = Some(why));
        if let Some((writer, _)) = &self.server {
            let _ = writer.socket().shutdown(Shutdown::Both);
        }
    }

    /// Responds to a request that is not forwarded, unless the response to an earlier one goes on.
    fn refuse(&mut self, status: u16, why: &str, exchange: Option<&Exchange>) {
        let is_idle = |state: &State| state.idle_since().is_some();
        self.shared.wait(LINGER, |state| state.responses_ended || is_idle(state));
        let is_free = {
            let state = self.shared.state();
            is_idle(&state) && !state.responses_ended
        };
        match exchange {
            Some(exchange) if is_free => exchange.answered(status, why),
            Some(exchange) => exchange.failed(Origin::Client, why),
            None => {}
        }
        if is_free {
            answer(&self.output, status, why);
            self.discard();
        }
    }

    /// Reads what the client still sends, so that a response to it is not lost with a reset.
    fn discard(&mut self) {
        let deadline = Instant::now() + LINGER;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_set = !left.is_zero() && self.output.set_read_timeout(Some(left)).is_ok();
            if !is_set || !matches!(self.input.read(), Ok(1..)) {
                return;
            }
        }
    }
}

/// Returns whether the connection is broken. The other errors are those of what was sent, or of a time.
fn is_gone(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other)
}

/// Sends a response of the recorder itself.
pub(super) fn answer(mut output: &TcpStream, status: u16, why: &str) {
    let reason = match status {
        400 => "Bad Request",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        _ => "Service Unavailable",
    };
    let body = format!("mcp record: {why}\n");
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let _ = output.set_write_timeout(Some(LINGER));
    let _ = output.write_all(format!("{head}{body}").as_bytes());
    let _ = output.shutdown(Shutdown::Write);
}

struct Responses {
    site: Arc<Site>,
    shared: Arc<Shared>,
    input: Input<ServerReader>,
    output: Arc<TcpStream>,
}

/// The direction of the responses has ended: the side that ended it, and why.
struct Stopped(Origin, String);

impl Responses {
    fn run(&mut self) {
        let Stopped(from, why) = loop {
            if let Err(stopped) = self.response() {
                break stopped;
            }
            self.shared.update(State::end_writing);
        };
        self.shared.end_responses(from, &why);
        if from == Origin::Client {
            // The server has to know soon.
            let _ = self.input.source.socket().shutdown(Shutdown::Both);
        }
        let _ = self.output.shutdown(Shutdown::Write);
        // The client closes its side when it reads the end of ours.
        if !self.shared.wait(LINGER, |state| state.requests_ended) {
            let _ = self.output.shutdown(Shutdown::Both);
        }
    }

    fn response(&mut self) -> Result<(), Stopped> {
        let stopped = |why: &str| Stopped(Origin::Server, why.to_owned());
        let bytes = self.input.head(|| None).map_err(|why| match why {
            NoHead::End => stopped("the connection was closed"),
            NoHead::TooLong => stopped("the head of the response is too long"),
            NoHead::Wrong(why) | NoHead::Gone(why) => Stopped(Origin::Server, why),
        })?;
        let pending = self.shared.update(|state| {
            state.is_writing = true;
            state.pending.front().cloned()
        });
        let Some(pending) = pending else {
            return Err(stopped("a response to no request"));
        };
        let exchange = &pending.exchange;
        exchange.response_head(&bytes);
        let head = Head::response(bytes).map_err(stopped)?;
        if head.status() == 101 {
            return Err(stopped("the server switched to another protocol, which was not asked for"));
        }
        let mut framing = head.response_framing(&pending.method).map_err(stopped)?;
        let is_interim = (100..200).contains(&head.status());
        let forwarded = head.for_client(&pending.own, &self.site.address.origin);
        let mut body = exchange.body(Origin::Server, &head, pending.method == "GET");
        if body.is_omitted() {
            let why = "a body is compressed, so it is not recorded: --no-compression asks the server for others";
            self.site.note_once("compressed", why);
        }
        if !is_interim && framing.is_over() {
            self.finish(&mut body);
        }
        self.write(&forwarded)?;
        if is_interim || matches!(framing, Framing::Length(0)) {
            return Ok(());
        }
        let is_stream = pending.method == "GET" && head.media_type() == "text/event-stream" && !head.is_encoded();
        let server = self.site.address.origin.text();
        // A length cannot change any more. The first event is still forwarded after it is recorded.
        let own = if matches!(framing, Framing::Length(_)) { server.clone() } else { pending.own.text() };
        let mut rewriter = is_stream.then(|| EndpointRewriter::new(&server, &own));
        self.body(&mut framing, &mut body, &mut rewriter)
    }

    fn body(
        &mut self,
        framing: &mut Framing,
        body: &mut BodyRecorder,
        rewriter: &mut Option<EndpointRewriter>,
    ) -> Result<(), Stopped> {
        let (mut content, mut trailer, mut held) = (Content::default(), Vec::new(), Vec::new());
        loop {
            let piece = match self.input.piece(framing, &mut content) {
                Ok(piece) => piece,
                Err(error) => {
                    // What was kept back is in the record then, and the client gets it, too.
                    body.flush();
                    if let Some(rewriter) = rewriter.as_mut() {
                        held.append(&mut cut(rewriter, framing, &trailer));
                    }
                    self.write(&held)?;
                    return Err(Stopped(Origin::Server, error.to_string()));
                }
            };
            let is_end = piece.is_none();
            // It has a limit of its own, and may arrive in several pieces.
            trailer.extend_from_slice(&content.trailer);
            let mut forwarded = match rewriter.as_mut() {
                None => piece.unwrap_or_default(),
                Some(rewriter) => rewritten(rewriter, framing, &content.data, &trailer, is_end),
            };
            // Only between chunks: the size of one that has begun is not known to the client.
            let is_settled = !matches!(framing, Framing::Chunked(_)) || framing.is_between();
            if is_settled && rewriter.as_ref().is_some_and(EndpointRewriter::is_over) {
                *rewriter = None;
            }
            body.content(&mut content);
            held.append(&mut forwarded);
            if is_end || framing.is_over() {
                self.finish(body);
                return self.write(&held);
            }
            // The fields after a body are recorded as a whole, and forwarded after it.
            if !framing.is_in_trailer() {
                self.write(&std::mem::take(&mut held))?;
            }
        }
    }

    /// Ends the response. This is recorded before the client has all of it, because the client may close the
    /// connection then.
    fn finish(&self, body: &mut BodyRecorder) {
        body.end();
        self.shared.update(|state| state.pending.pop_front());
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        let written = (&*self.output).write_all(bytes);
        self.shared.update(|state| state.pieces += 1);
        written.map_err(|error| Stopped(Origin::Client, error.to_string()))
    }
}

/// Returns the bytes of a piece of a stream whose address may change. Chunks are as long as the pieces are.
fn rewritten(
    rewriter: &mut EndpointRewriter,
    framing: &Framing,
    content: &[u8],
    trailer: &[u8],
    is_end: bool,
) -> Vec<u8> {
    let mut data = Vec::new();
    rewriter.rewrite(content, &mut data);
    let is_over = is_end || framing.is_over();
    if is_over {
        rewriter.end(&mut data);
    }
    let mut out = chunk(framing, data);
    if matches!(framing, Framing::Chunked(_)) && framing.is_over() {
        out.extend_from_slice(b"0\r\n");
        out.extend_from_slice(trailer);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Returns what was kept back of a stream that was cut.
fn cut(rewriter: &mut EndpointRewriter, framing: &Framing, trailer: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    rewriter.end(&mut data);
    let mut out = chunk(framing, data);
    if !trailer.is_empty() {
        out.extend_from_slice(b"0\r\n");
        out.extend_from_slice(trailer);
    }
    out
}

/// Returns bytes in the framing of their body.
fn chunk(framing: &Framing, data: Vec<u8>) -> Vec<u8> {
    if !matches!(framing, Framing::Chunked(_)) || data.is_empty() {
        return data;
    }
    [format!("{:x}\r\n", data.len()).as_bytes(), &data, b"\r\n"].concat()
}

#[cfg(test)]
mod tests;
