//! Records the exchanges of connections.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use super::{super::file::RecordFile, body::Content, head::Head};
use crate::record::{
    EventsMasker, HeadMasker, HttpEvent, Kind, Masker, Origin, Part, Pseudonyms, QueryMasker, Step, What,
};

/// Records all exchanges of a record.
#[derive(Debug)]
pub(super) struct Recorder {
    file: Arc<RecordFile>,
    /// The names of ids, if secrets are masked.
    names: Option<Pseudonyms>,
    /// The number of the last exchange.
    last: Mutex<u64>,
}

impl Recorder {
    pub(super) fn new(file: Arc<RecordFile>, is_masked: bool) -> Self {
        Self { file, names: is_masked.then(Pseudonyms::default), last: Mutex::new(0) }
    }

    fn write(&self, exchange: u64, step: Step) {
        self.file.write(What::Http(HttpEvent { exchange, step }));
    }

    fn masked(&self, head: &[u8]) -> Vec<u8> {
        match &self.names {
            Some(names) => HeadMasker::new(names.clone()).mask(head),
            None => head.to_vec(),
        }
    }

    /// Records the head of a request, and returns its exchange.
    pub(super) fn begin(self: &Arc<Self>, connection: u64, head: &[u8]) -> Exchange {
        let bytes = self.masked(head);
        // Under the lock, so that exchanges are in the order of their numbers.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        let step = Step::Bytes { from: Origin::Client, part: Part::Head, connection: Some(connection), bytes };
        self.write(*last, step);
        Exchange { recorder: Arc::clone(self), number: *last, state: Arc::default() }
    }
}

/// An exchange that is recorded. Both directions of its connection have it.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    recorder: Arc<Recorder>,
    number: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    Over,
}

impl Exchange {
    /// Records the head of a response. There may be several: those before the last one are interim responses.
    pub(super) fn response_head(&self, head: &[u8]) {
        let bytes = self.recorder.masked(head);
        self.recorder
            .write(self.number, Step::Bytes { from: Origin::Server, part: Part::Head, connection: None, bytes });
    }

    /// Begins to record the body of a message with this head. `is_get`: the method of the request is GET.
    pub(super) fn body(&self, from: Origin, head: &Head, is_get: bool) -> BodyRecorder {
        let masks = match &self.recorder.names {
            None => Masks::None,
            Some(_) if head.is_encoded() => Masks::Omit,
            Some(names) => match &*head.media_type() {
                "application/x-www-form-urlencoded" => Masks::Form(QueryMasker::form(names.clone())),
                // Those of Streamable HTTP that are responses to POST have no address, and are recorded at once.
                "text/event-stream" => Masks::Events(Box::new(EventsMasker::new(names.clone(), is_get))),
                media if media.ends_with("json") || media.is_empty() => Masks::Text(Masker::new(Kind::Json)),
                _ => Masks::Text(Masker::new(Kind::Text)),
            },
        };
        BodyRecorder { exchange: self.clone(), from, masks, trailer: Vec::new() }
    }

    /// Records that a side ended the exchange, if it was not over.
    pub(super) fn failed(&self, from: Origin, why: &str) {
        if self.finish() {
            self.recorder.write(self.number, Step::Failed { from, why: why.to_owned() });
        }
    }

    /// Records a response of the recorder itself.
    pub(super) fn answered(&self, status: u16, why: &str) {
        if self.finish() {
            self.recorder.write(self.number, Step::Answered { status: status.into(), why: why.to_owned() });
        }
    }

    pub(super) const fn is_same(&self, other: &Self) -> bool {
        self.number == other.number
    }

    /// Marks the exchange as over. Returns whether it was not.
    fn finish(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        mem::replace(&mut *state, State::Over) == State::Open
    }
}

/// How the secrets of a body are masked.
#[derive(Debug)]
enum Masks {
    None,
    /// No byte is recorded.
    Omit,
    Form(QueryMasker),
    Events(Box<EventsMasker>),
    Text(Masker),
}

/// Records the body of a request or of a response.
#[derive(Debug)]
pub(super) struct BodyRecorder {
    exchange: Exchange,
    from: Origin,
    masks: Masks,
    /// The fields after the body so far, which are masked as a whole. Their length has a limit.
    trailer: Vec<u8>,
}

impl BodyRecorder {
    /// Returns whether the body is compressed and cannot be masked.
    pub(super) const fn is_omitted(&self) -> bool {
        matches!(self.masks, Masks::Omit)
    }

    /// Records bytes. They may be forwarded after it.
    pub(super) fn content(&mut self, content: &mut Content) {
        let data = mem::take(&mut content.data);
        if !data.is_empty() {
            let mut bytes = Vec::with_capacity(data.len());
            match &mut self.masks {
                Masks::None => bytes = data,
                Masks::Omit => self.write(Step::Omitted { from: self.from, len: data.len() as u64 }),
                Masks::Form(masker) => masker.mask(&data, &mut bytes),
                Masks::Events(masker) => masker.mask(&data, &mut bytes),
                Masks::Text(masker) => masker.mask(&data, &mut bytes),
            }
            self.part(Part::Body, bytes);
        }
        self.trailer.append(&mut content.trailer);
    }

    /// Records what was held back. The body has ended, or nothing more of it arrives.
    pub(super) fn flush(&mut self) {
        let mut rest = Vec::new();
        match &mut self.masks {
            Masks::Form(masker) => masker.end(&mut rest),
            Masks::Events(masker) => masker.end(&mut rest),
            _ => {}
        }
        self.part(Part::Body, rest);
        let trailer = mem::take(&mut self.trailer);
        self.part(Part::Trailer, self.exchange.recorder.masked(&trailer));
    }

    fn part(&self, part: Part, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.write(Step::Bytes { from: self.from, part, connection: None, bytes });
        }
    }

    fn write(&self, step: Step) {
        self.exchange.recorder.write(self.exchange.number, step);
    }

    /// Records the end of the body. That of a response is the end of the exchange.
    pub(super) fn end(&mut self) {
        self.flush();
        // The client may have gone already.
        if self.from == Origin::Client || self.exchange.finish() {
            self.write(Step::End { from: self.from });
        }
    }
}

impl Drop for BodyRecorder {
    fn drop(&mut self) {
        self.flush();
    }
}
