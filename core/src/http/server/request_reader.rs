//! A request while it is received: it is checked, and refused or read, before other parts of the server see it.

use alloc::{borrow::Cow, boxed::Box, sync::Arc, vec::Vec};
use core::fmt;

use http::request::Parts;

use super::{
    caller::Caller,
    clients::{Client, Share},
    head::{HeaderClaims, RequestKind, too_large, transport},
    message::Parsed,
    options::EndpointOptions,
    target::{BodyKind, Target},
};
use crate::{
    connection::{ArrivalExtension, KnownClient, Principal, ServerConfig},
    http::{HttpResponse, SessionId, fields::Fields, response},
    protocol::Method,
    wire::{self, ArrayIter, Message, MessageOffsets, RawJson, Repetition, RequestId},
};

/// A request whose head was accepted and whose body is being read.
///
/// [Feed](Self::feed) it the body, then [end](Self::end) it.
pub struct RequestReader {
    kind: RequestKind,
    config: Arc<ServerConfig>,
    principal: Option<Arc<Principal>>,
    /// Whether its session was known when its head arrived.
    is_known_here: bool,
    body: Vec<u8>,
    /// The number of bytes of the body that have arrived.
    received: usize,
    share: Share,
    extension: Option<ArrivalExtension>,
    /// The client that has probably sent the request, if that is of the modern era.
    known_client: Option<Arc<KnownClient>>,
}

/// A complete request, ready to be routed.
pub struct Request {
    pub(super) target: Target,
    pub(super) kind: BodyKind,
    pub(super) config: Arc<ServerConfig>,
    pub(super) principal: Option<Arc<Principal>>,
    /// The client that sends it, with the resources that it holds.
    pub(super) client: Arc<Client>,
    /// Whether its session was known here when its head arrived.
    pub(super) is_known_here: bool,
    /// The bytes that the request takes while it is in flight.
    pub(super) weight: usize,
    pub(super) body: Vec<u8>,
    /// The offsets of the message in the body, if it is a request or a notification.
    pub(super) offsets: Option<MessageOffsets>,
    /// The description of the client in a request of the modern era, if it can be found in the next request.
    pub(super) known_client: Option<(Arc<KnownClient>, Repetition)>,
    /// The exposed head.
    pub(super) extension: Option<ArrivalExtension>,
}

impl RequestReader {
    /// Checks the head of a request. `known` returns whether this principal may use a session: `None` if it is not in
    /// the table, and may be in another process.
    pub(super) fn begin(
        options: &EndpointOptions,
        config: &Arc<ServerConfig>,
        head: &Parts,
        caller: Caller,
        client: Arc<Client>,
        known: impl FnOnce(&SessionId, Option<&Principal>) -> Option<bool>,
    ) -> Result<Self, Box<HttpResponse>> {
        let fields = Fields::of(&head.headers);
        let transport = transport(options, config, head, &fields)?;
        let principal = match caller {
            Caller::Anybody | Caller::Anonymous(_) => None,
            Caller::Known(principal) => Some(principal),
            Caller::Refused(challenge) => return Err(Box::new(challenge.response(None))),
        };
        let kind = RequestKind::of(transport, head, &fields, config)?;
        let is_known_here = match kind.session().map(|id| known(id, principal.as_deref())) {
            Some(Some(false)) => return Err(Box::new(response::no_session())),
            Some(Some(true)) => true,
            Some(None) | None => false,
        };
        let share = Share::new(client, options.limits.body_bytes);
        let extension = options.heads.as_ref().map(|heads| {
            let head = heads.expose(head);
            let weight = head.weight();
            ArrivalExtension::new(Arc::new(head), weight)
        });
        let (config, body) = (config.clone(), Vec::new());
        Ok(Self { kind, config, principal, is_known_here, body, received: 0, share, extension, known_client: None })
    }

    /// Returns the session of the request, as far as its head names one. Sessions of the transport of 2024-11-05 are
    /// omitted.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        if matches!(self.kind, RequestKind::OldPost(_)) { None } else { self.kind.session() }
    }

    /// Returns the authenticated sender.
    #[must_use]
    pub const fn principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }

    /// Returns the response for a request whose session was not found anywhere.
    #[must_use]
    pub fn lost(&self) -> Box<HttpResponse> {
        Box::new(response::no_session())
    }

    /// Returns whether the headers claim that the request is of the modern era.
    pub(super) const fn stands_alone(&self) -> bool {
        self.kind.is_modern()
    }

    /// Sets the client that has probably sent the request.
    pub(super) fn expect_client(&mut self, client: Option<Arc<KnownClient>>) {
        self.known_client = client;
    }

    /// Returns the sender of the request.
    pub(super) fn client(&self) -> &Client {
        self.share.client()
    }

    /// Takes in the next part of the body.
    ///
    /// # Errors
    /// Returns the response if the body is larger than the limit, or all bodies that are being read are. The rest of
    /// the body need not be read.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), Box<HttpResponse>> {
        self.received = self.received.saturating_add(chunk.len());
        if self.received > self.config.settings.limits.frame_bytes {
            self.body = Vec::new();
            return too_large();
        }
        // The body of a request that should have none is ignored.
        if !matches!(self.kind, RequestKind::Bare(_)) {
            if !self.share.take(chunk.len()) {
                self.body = Vec::new();
                return Err(Box::new(response::busy("Too much is being read")));
            }
            self.body.extend_from_slice(chunk);
        }
        Ok(())
    }

    /// Ends the body and parses the message.
    ///
    /// # Errors
    /// Returns the response if the body is not a message, or not one that can be sent this way.
    pub fn end(self) -> Result<Request, Box<HttpResponse>> {
        let Self { kind, config, principal, is_known_here, body, share, extension, known_client, .. } = self;
        let known = known_client.as_deref();
        let (target, parsed) = match kind {
            RequestKind::Bare(target) => (target, Parsed::nothing()),
            RequestKind::OldPost(id) => {
                (Target::OldMessage(id), Parsed::read(&body, &config, None, &HeaderClaims::Nothing)?)
            }
            RequestKind::Post { session, declared, headers } => {
                let parsed = Parsed::read(&body, &config, known, &declared)?;
                (parsed.target(session, declared, headers, &config)?, parsed)
            }
        };
        let Parsed { kind, offsets, repetition, weight, .. } = parsed;
        let headers = if let Target::Modern(Some(headers)) = &target { Some(headers.weight()) } else { None };
        // What a request of the modern era takes besides its length: decoded parts, and headers.
        let described = headers.map_or(0, |headers| weight.saturating_add(headers));
        let client = share.client().clone();
        let known_client = known_client.filter(|_| repetition.is_found).map(|client| (client, repetition));
        let mut request = Request {
            target,
            kind,
            config,
            principal,
            client,
            is_known_here,
            weight: 0,
            body,
            offsets,
            known_client,
            extension,
        };
        request.describe_client();
        let principal = request.principal.as_deref().map_or(0, Principal::weight);
        let retained = principal.saturating_add(request.extension.as_ref().map_or(0, ArrivalExtension::weight));
        let retained = if retained == 0 { 0 } else { retained.saturating_mul(request.count()) };
        request.weight = request.body.len().saturating_add(described).saturating_add(retained);
        Ok(request)
    }
}

impl fmt::Debug for RequestReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestReader")
            .field("kind", &self.kind)
            .field("principal", &self.principal)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// Returns the id of the JSON-RPC request in the body, for responses to it.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.offsets.as_ref().and_then(MessageOffsets::id)
    }

    /// Returns the method of the request or notification in the body, so that the driver can check whether the caller
    /// may use it before the message is routed.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        self.offsets.as_ref().and_then(|offsets| offsets.method(&self.body))
    }

    /// Returns the method and the params of each request in the body whose response has no status of its own: those of
    /// a batch (2025-03-26), and over the transport of 2024-11-05. A driver that may refuse requests with a status
    /// checks these before it opens any of them. Others can be [challenged](super::Session::challenge) later.
    pub fn requests_without_status(&self) -> impl Iterator<Item = (Cow<'_, str>, Option<RawJson<'_>>)> {
        let settings = &self.config.settings.limits;
        let (depth, most) = (settings.json_depth, settings.batch_members);
        let single = if matches!(self.target, Target::OldMessage(_)) { self.message() } else { None };
        let is_batch = self.kind == BodyKind::Batch;
        // The text of another body is not validated once more: it may be long.
        let text = if is_batch { wire::text(&self.body).unwrap_or_default() } else { "" };
        let members = move || ArrayIter::new(text, depth);
        let is_batch = is_batch && members().take(most.saturating_add(1)).count() <= most;
        let batch = is_batch.then(members).into_iter().flatten();
        let members = batch.filter_map(move |member| Message::parse(member, depth).ok());
        single.into_iter().chain(members).filter_map(|message| match message {
            Message::Request { method, params, .. } => Some((method, params)),
            Message::Notification { .. } | Message::Response { .. } | Message::Error { .. } => None,
        })
    }

    /// Returns whether the request begins a session with an id, made of the `random` bits of
    /// [`route`](super::Endpoint::route).
    #[must_use]
    pub const fn begins(&self) -> bool {
        matches!(self.target, Target::Initialize | Target::OldStream)
    }

    /// Returns the session that the request ends.
    #[must_use]
    pub const fn ends(&self) -> Option<&SessionId> {
        if let Target::End(id) = &self.target { Some(id) } else { None }
    }

    /// Returns whether the request is one that follows the handshake of its session.
    pub(super) fn uses_session(&self) -> bool {
        let method = || Method::parse(self.method()?);
        match self.target {
            Target::Initialize | Target::OldStream => false,
            Target::Message(_) | Target::OldMessage(_) => {
                !matches!(method(), Some(Method::Initialize | Method::Initialized))
            }
            Target::Modern(_) | Target::Listen(..) | Target::End(_) => true,
        }
    }

    /// Reads the description of the client in a request of the modern era, unless it is known.
    fn describe_client(&mut self) {
        if !matches!((&self.target, self.kind), (Target::Modern(_), BodyKind::Request)) {
            self.known_client = None;
        } else if self.known_client.is_none()
            && let Some(Message::Request { meta: Some(meta), .. }) = self.message()
        {
            let client = KnownClient::read(&meta, self.config.settings.versions);
            self.known_client = client.map(|client| (client, Repetition { is_found: true, has_others: true }));
        }
    }

    /// Returns the message in the body, if that is a request or a notification.
    pub(super) fn message(&self) -> Option<Message<'_>> {
        self.offsets.as_ref()?.message(wire::text(&self.body).ok()?)
    }

    /// Returns how many JSON-RPC requests are in the body.
    pub(super) fn count(&self) -> usize {
        match self.kind {
            BodyKind::Request => 1,
            BodyKind::Batch => self.requests_without_status().count(),
            BodyKind::Nothing | BodyKind::Notification | BodyKind::Response => 0,
        }
    }

    /// Returns the body: the message.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Frees the body after the request was [opened](super::Session::open) and its event was passed on, and the headers
    /// that repeat parts of it.
    pub fn drop_body(&mut self) {
        (self.body, self.offsets) = (Vec::new(), None);
        if let Target::Modern(headers) = &mut self.target {
            *headers = None;
        }
    }

    /// Returns the authenticated sender.
    #[must_use]
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("target", &self.target)
            .field("kind", &self.kind)
            .field("principal", &self.principal)
            .field("id", &self.id())
            .field("method", &self.method())
            .finish_non_exhaustive()
    }
}
