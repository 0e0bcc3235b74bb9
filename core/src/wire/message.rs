//! The envelope: the kind of message in a frame, found in one pass over its bytes.

use alloc::borrow::Cow;

use super::{
    ErrorCode, ErrorObject, Json, RawJson, Repeated, Repetition, RequestId,
    member_index::{Index, Validated},
    passed_object::read_object,
    scan::{ScanError, Scanner},
    text::string,
};

/// A JSON-RPC message. Method, params and result borrow from the frame.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A request: `method` and `id`.
    Request {
        /// The id, which the response repeats.
        id: RequestId,
        /// The method, unescaped.
        method: Cow<'a, str>,
        /// The params, an object if present.
        params: Option<RawJson<'a>>,
        /// The member `_meta` of the params.
        meta: Option<RawJson<'a>>,
    },
    /// A notification: `method` without `id`.
    Notification {
        /// The method, unescaped.
        method: Cow<'a, str>,
        /// The params, an object if present.
        params: Option<RawJson<'a>>,
    },
    /// A successful response: `id` and `result`.
    Response {
        /// The id of the request.
        id: RequestId,
        /// The result, any value. The sender of the request checks its type.
        result: RawJson<'a>,
    },
    /// An error response: `error`, usually with `id`.
    Error {
        /// The id of the request that failed; `None` if the message has none, since the peer could not read it.
        id: Option<RequestId>,
        /// The reason.
        error: ErrorObject,
    },
}

/// The error in a frame that holds no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MalformedKind {
    /// Not UTF-8, or not JSON: the byte offset of the first error.
    Syntax(usize),
    /// Brackets are nested deeper than the limit.
    TooDeep,
    /// JSON, but neither an object nor an array.
    NotAnObject,
    /// An array where the revision has no batches.
    Array,
    /// `jsonrpc` is missing or is not `"2.0"`.
    Version,
    /// A member of the envelope occurs twice.
    Duplicate,
    /// A member of the params, of the result or of `_meta` that the protocol reads occurs twice. Of other members, such
    /// as arguments, the last one counts.
    DuplicateParam,
    /// `id` is neither a string nor an integer, or too long.
    Id,
    /// `method` is not a string.
    Method,
    /// `params` is neither an object nor null.
    Params,
    /// The members do not make up a request, a notification or a response.
    Shape,
    /// `error` has no integer `code` or no string `message`, or has one of them or `data` twice.
    Error,
}

/// The message in a malformed frame, which decides whether it gets a response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MalformedSubject {
    /// A notification, or a response without a usable id. It never gets a response.
    Nothing,
    /// A response to the request with this id.
    Response(RequestId),
    /// Neither of these, with no id that can be read.
    Unreadable,
    /// A request with this id.
    Request(RequestId),
}

/// A frame that holds no message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// The error in the frame.
    pub kind: MalformedKind,
    /// The message in the frame.
    pub subject: MalformedSubject,
}

impl MalformedKind {
    /// Returns the error code for this kind.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Syntax(_) => ErrorCode::PARSE_ERROR,
            Self::Params | Self::DuplicateParam => ErrorCode::INVALID_PARAMS,
            _ => ErrorCode::INVALID_REQUEST,
        }
    }

    /// Returns a description, one short sentence.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Syntax(_) => "Parse error",
            Self::TooDeep => "Invalid request: nested too deeply",
            Self::NotAnObject => "Invalid request: not an object",
            Self::Array => "Invalid request: batches are not supported",
            Self::Version => "Invalid request: jsonrpc must be \"2.0\"",
            Self::Duplicate => "Invalid request: a member occurs twice",
            Self::DuplicateParam => "Invalid params: a member occurs twice",
            Self::Id => "Invalid request: id must be a string or an integer",
            Self::Method => "Invalid request: method must be a string",
            Self::Params => "Invalid params: params must be an object",
            Self::Shape => "Invalid request: neither a request, a notification nor a response",
            Self::Error => "Invalid request: error needs code and message",
        }
    }
}

/// A member of the envelope.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl Member {
    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"jsonrpc" => Self::Version,
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"params" => Self::Params,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => return None,
        })
    }

    /// Takes the name of a member if it is spelled in the most common way, and the version with its value.
    #[inline(always)]
    fn compact(scanner: &mut Scanner<'_>) -> Option<Self> {
        let (member, taken) = match scanner.peek_name()? {
            b'j' => (Self::Version, scanner.skip_literal("\"jsonrpc\":\"2.0\"").is_ok()),
            b'i' => (Self::Id, scanner.eat_beginning(b"\"id\":")),
            b'm' => (Self::Method, scanner.eat_beginning(b"\"method\":")),
            b'p' => (Self::Params, scanner.eat_beginning(b"\"params\":")),
            b'r' => (Self::Result, scanner.eat_beginning(b"\"result\":")),
            _ => return None,
        };
        taken.then_some(member)
    }
}

/// The members of the envelope, as found.
#[derive(Default)]
struct Envelope<'a, 'r> {
    repeated: Repeated<'r>,
    repetition: Repetition,
    /// The values, in the order of [`Member`].
    values: [Option<&'a str>; 6],
    /// The member `_meta` of the params.
    meta: Option<RawJson<'a>>,
    /// The positions of the members of the params; of the result only the checks that it has passed.
    members: Index,
    /// The version is right, and was spelled in the most common way.
    has_version: bool,
    /// The method is a string without escapes, and its quotes are omitted.
    method_is_plain: bool,
    duplicate: bool,
    /// A member that decides occurs twice in the params, in the result or in `_meta`.
    duplicate_param: bool,
    /// The text ends inside the value of `result` or `error`.
    cut_in_response: bool,
}

impl<'a> Envelope<'a, '_> {
    #[inline(always)]
    const fn get(&self, member: Member) -> Option<&'a str> {
        self.values[member as usize]
    }

    /// Sets the value of a member.
    #[inline(always)]
    fn set(&mut self, member: Member, value: &'a str) {
        self.duplicate |= self.values[member as usize].replace(value).is_some();
    }

    /// Reads the object. On failure, the members before it are kept.
    ///
    /// Inlined, so that the members need not be in memory while they are read: a small call takes 4 percent less.
    #[inline(always)]
    fn read(&mut self, scanner: &mut Scanner<'a>) -> Result<(), ScanError> {
        if scanner.open_object(0)? {
            loop {
                self.read_member(scanner)?;
                if !scanner.another_member()? {
                    break;
                }
            }
        }
        scanner.expect_end()
    }

    #[inline(always)]
    fn read_member(&mut self, scanner: &mut Scanner<'a>) -> Result<(), ScanError> {
        let member = match Member::compact(scanner) {
            Some(Member::Version) => {
                self.set(Member::Version, "\"2.0\"");
                self.has_version = true;
                return Ok(());
            }
            Some(member) => Some(member),
            None => match scanner.member_name()? {
                // A name may be spelled with escapes; the unescaped name counts.
                name if name.escaped => name.text().and_then(|name| Member::of(name.as_bytes())),
                name => Member::of(name.inner),
            },
        };
        let value = if member == Some(Member::Params) && scanner.peek() == Some(b'{') {
            self.read_params(scanner)?
        } else if member == Some(Member::Result) && scanner.peek() == Some(b'{') {
            self.read_result(scanner)?
        } else {
            let start = scanner.position();
            let passed = scanner.pass(1);
            if passed.is_err() {
                self.cut_in_response = matches!(member, Some(Member::Result | Member::Error));
            }
            let is_plain = passed?;
            if member == Some(Member::Method) {
                // A short string without escapes, whose quotes are omitted. A number has no quotes.
                let method = if is_plain { scanner.inside_quotes(start) } else { None };
                self.method_is_plain = method.is_some();
                if let Some(method) = method {
                    self.set(Member::Method, method);
                    return Ok(());
                }
            }
            scanner.since(start)
        };
        if let Some(member) = member {
            self.set(member, value);
        }
        Ok(())
    }

    /// Steps over the params and stores the offsets of their members, and of those of `_meta`.
    fn read_params(&mut self, scanner: &mut Scanner<'a>) -> Result<&'a str, ScanError> {
        let mut twice = false;
        let params = read_object::<true>(scanner, 1, None, &mut self.members, |scanner, name| {
            if !name.is("_meta") {
                return scanner.pass(2).map(drop);
            }
            self.meta = Some(if scanner.peek() == Some(b'{') {
                let (mut members, repeated) = (Index::NOTHING, self.repeated.meta);
                let mut has_token = false;
                let meta = read_object::<true>(scanner, 2, repeated, &mut members, |scanner, name| {
                    has_token |= repeated.is_some() && name.is("progressToken");
                    scanner.pass(3).map(drop)
                })?;
                let repeated = self.repeated.meta.filter(|_| meta.repeats);
                self.repetition = repeated.map_or(Repetition::default(), |repeated| Repetition {
                    is_found: true,
                    has_others: !members.has_only(repeated.run(), u8::from(has_token)),
                });
                twice |= meta.twice;
                RawJson::indexed(meta.text, members.validated(Validated::Names))
            } else {
                RawJson::trusted(scanner.value(2)?)
            });
            Ok(())
        })?;
        self.duplicate_param |= twice | params.twice;
        self.members = self.members.validated(Validated::Meta);
        Ok(params.text)
    }

    /// Steps over the result. The positions of its members are not stored: most results are decoded as a whole.
    fn read_result(&mut self, scanner: &mut Scanner<'a>) -> Result<&'a str, ScanError> {
        // Set until the result is complete: a text that ends before was cut inside of a response.
        self.cut_in_response = true;
        let mut twice = false;
        let result = read_object::<false>(scanner, 1, self.repeated.result, &mut self.members, |scanner, name| {
            if scanner.peek() == Some(b'{') && name.is("_meta") {
                let mut none = Index::NOTHING;
                twice |=
                    read_object::<false>(scanner, 2, None, &mut none, |scanner, _| scanner.pass(3).map(drop))?.twice;
                return Ok(());
            }
            scanner.pass(2).map(drop)
        })?;
        self.cut_in_response = false;
        self.repetition = Repetition { is_found: result.repeats, has_others: true };
        self.duplicate_param |= twice | result.twice;
        self.members = self.members.validated(Validated::Meta);
        Ok(result.text)
    }

    fn malformed(&self, kind: MalformedKind) -> Malformed {
        let response = self.get(Member::Result).is_some() || self.get(Member::Error).is_some() || self.cut_in_response;
        // With a duplicate member the message is ambiguous, so its id is not used.
        let id = if self.duplicate { None } else { self.get(Member::Id).and_then(RequestId::from_token) };
        let subject = match (self.get(Member::Method), self.get(Member::Id)) {
            (None, _) if response => id.map_or(MalformedSubject::Nothing, MalformedSubject::Response),
            (Some(method), None) if (self.method_is_plain || method.starts_with('"')) && !response => {
                MalformedSubject::Nothing
            }
            _ => id.map_or(MalformedSubject::Unreadable, MalformedSubject::Request),
        };
        Malformed { kind, subject }
    }

    /// Returns the params, or an error if they are not an object.
    #[inline(always)]
    fn params(&self) -> Result<Option<RawJson<'a>>, ()> {
        match self.get(Member::Params) {
            None | Some("null") => Ok(None),
            Some(params) if params.starts_with('{') => Ok(Some(RawJson::indexed(params, self.members))),
            Some(_) => Err(()),
        }
    }

    fn classify(&mut self) -> Result<Message<'a>, Malformed> {
        let fail = |kind| Err(self.malformed(kind));
        if self.duplicate {
            return fail(MalformedKind::Duplicate);
        }
        if self.duplicate_param {
            return fail(MalformedKind::DuplicateParam);
        }
        if !self.has_version && self.get(Member::Version).and_then(string).as_deref() != Some("2.0") {
            return fail(MalformedKind::Version);
        }
        match (self.get(Member::Method), self.get(Member::Id), self.get(Member::Result), self.get(Member::Error)) {
            (Some(method), id, None, None) => {
                let method = if self.method_is_plain { Some(Cow::Borrowed(method)) } else { string(method) };
                let Some(method) = method else { return fail(MalformedKind::Method) };
                let Some(token) = id else {
                    let Ok(params) = self.params() else { return fail(MalformedKind::Params) };
                    return Ok(Message::Notification { method, params });
                };
                let Some(id) = RequestId::from_token(token) else { return fail(MalformedKind::Id) };
                let Ok(params) = self.params() else { return fail(MalformedKind::Params) };
                Ok(Message::Request { id, method, params, meta: self.meta.take() })
            }
            (None, Some(id), Some(result), None) => match RequestId::from_token(id) {
                // A response has no params. If there are some, the index may be theirs.
                Some(id) if self.get(Member::Params).is_some() => {
                    Ok(Message::Response { id, result: RawJson::trusted(result) })
                }
                Some(id) => Ok(Message::Response { id, result: RawJson::indexed(result, self.members) }),
                None => fail(MalformedKind::Id),
            },
            (None, id, None, Some(error)) => {
                let id = match id {
                    None | Some("null") => None,
                    Some(token) => match RequestId::from_token(token) {
                        Some(id) => Some(id),
                        None => return fail(MalformedKind::Id),
                    },
                };
                match error_object(error) {
                    Some(error) => Ok(Message::Error { id, error }),
                    None => fail(MalformedKind::Error),
                }
            }
            _ => fail(MalformedKind::Shape),
        }
    }
}

fn error_object(text: &str) -> Option<ErrorObject> {
    let mut scanner = Scanner::new(text, super::scan::MAX_DEPTH);
    if !scanner.eat(b'{') {
        return None;
    }
    let (mut code, mut message, mut data) = (None, None, None);
    let (mut first, mut twice) = (true, false);
    while let Some(name) = scanner.next_member(first).ok()? {
        first = false;
        let value = scanner.value(1).ok()?;
        let slot = match name.text().as_deref() {
            Some("code") => &mut code,
            Some("message") => &mut message,
            Some("data") => &mut data,
            _ => continue,
        };
        twice |= slot.replace(value).is_some();
    }
    if twice {
        return None;
    }
    let code = RequestId::from_token(code?)?.as_i64()?;
    let message = string(message?)?.into_owned();
    Some(ErrorObject { code: ErrorCode(code), message: Cow::Owned(message), data: data.map(Json::trusted) })
}

impl<'a> Message<'a> {
    /// Reads one message.
    ///
    /// Member names are compared byte for byte. Members that JSON-RPC does not define are ignored. Nesting deeper than
    /// `max_depth`, or than 128 brackets, is an error.
    ///
    /// # Errors
    /// Returns the kind of the error and the subject of the message, which decides whether the frame gets a response.
    /// An array is a
    /// [`MalformedKind::Array`]: see [`ArrayIter`].
    pub fn parse(text: &'a str, max_depth: u32) -> Result<Self, Malformed> {
        Self::parse_repeating(text, max_depth, Repeated::default(), &mut Repetition::default())
    }

    /// Reads one message as [`parse`](Self::parse) does, and looks for members that the peer repeats: those of earlier
    /// messages that were read with the same `max_depth`. Sets `repetition` to those that were found.
    pub(crate) fn parse_repeating(
        text: &'a str,
        max_depth: u32,
        repeated: Repeated<'_>,
        repetition: &mut Repetition,
    ) -> Result<Self, Malformed> {
        let mut scanner = Scanner::new(text, max_depth);
        scanner.skip_white_space();
        let mut envelope = Envelope { repeated, ..Envelope::default() };
        let outcome = if scanner.peek() == Some(b'{') {
            envelope.read(&mut scanner)
        } else {
            let array = scanner.peek() == Some(b'[');
            match scanner.value(0).and_then(|_| scanner.expect_end()) {
                Ok(()) => {
                    return Err(envelope.malformed(if array {
                        MalformedKind::Array
                    } else {
                        MalformedKind::NotAnObject
                    }));
                }
                Err(error) => Err(error),
            }
        };
        match outcome {
            Ok(()) => {
                *repetition = envelope.repetition;
                envelope.classify()
            }
            Err(ScanError) if scanner.is_too_deep() => Err(envelope.malformed(MalformedKind::TooDeep)),
            // Members before a syntax error may have another meaning.
            Err(ScanError) => Err(Envelope::default().malformed(MalformedKind::Syntax(scanner.position()))),
        }
    }

    /// Returns the subject and the kind of error of an oversized frame, as far as its beginning contains them.
    pub(crate) fn beginning(text: &'a str) -> Malformed {
        let mut scanner = Scanner::new(text, super::scan::MAX_DEPTH);
        scanner.skip_white_space();
        let mut envelope = Envelope::default();
        // This fails where the text was cut off. The members that were read before remain in the envelope.
        let _ = envelope.read(&mut scanner);
        match envelope.malformed(MalformedKind::Shape) {
            // The kind of the message may depend on members behind the cut.
            Malformed { subject: MalformedSubject::Request(_) | MalformedSubject::Unreadable, kind }
                if envelope.get(Member::Method).is_none() =>
            {
                Malformed { subject: MalformedSubject::Nothing, kind }
            }
            malformed => malformed,
        }
    }

    /// Returns the code of an error message and whether the message names a request; `None` for any other message.
    #[cfg(feature = "http")]
    pub(crate) fn error_code(text: &[u8]) -> Option<(ErrorCode, bool)> {
        // Most messages are results with a numeric id, which need no parsing.
        let id = text.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":");
        let digits = |id: &[u8]| id.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if id.is_some_and(|id| id[digits(id)..].starts_with(b",\"result\":")) {
            return None;
        }
        let mut scanner = Scanner::new(super::text(text).ok()?, super::scan::MAX_DEPTH);
        scanner.expect(b'{').ok()?;
        let (mut has_id, mut error) = (false, None);
        for first in [true].into_iter().chain(core::iter::repeat(false)) {
            let Some(name) = scanner.next_member(first).ok()? else { break };
            match name.text().as_deref() {
                Some("result" | "method") => return None,
                // The id may follow the error.
                Some("id") => has_id = scanner.value(1).ok()? != "null",
                Some("error") => error = Some(scanner.value(1).ok()?),
                _ => drop(scanner.value(1).ok()?),
            }
        }
        Some((error_object(error?)?.code, has_id))
    }

    /// Returns the request id of the response `text`.
    pub(crate) fn answered(text: &[u8]) -> Option<RequestId> {
        match Message::beginning(core::str::from_utf8(text).ok()?).subject {
            MalformedSubject::Response(id) => Some(id),
            _ => None,
        }
    }
}

/// The messages of a batch, as texts (2025-03-26).
#[derive(Clone)]
pub struct ArrayIter<'a> {
    scanner: Scanner<'a>,
    first: bool,
}

impl<'a> ArrayIter<'a> {
    /// Creates an iterator over the elements of the array `text`, which [`Message::parse`] has refused with
    /// [`MalformedKind::Array`].
    #[must_use]
    pub fn new(text: &'a str, max_depth: u32) -> Self {
        let mut scanner = Scanner::new(text, max_depth);
        scanner.skip_white_space();
        scanner.eat(b'[');
        Self { scanner, first: true }
    }
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let first = core::mem::replace(&mut self.first, false);
        self.scanner.next_element(first, 1).ok().flatten()
    }
}
