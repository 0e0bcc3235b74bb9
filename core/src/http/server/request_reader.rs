//! A request while it is received: it is checked, and refused or read, before other parts of the server see it.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::fmt;

use http::request::Parts;

use super::{
    caller::Caller,
    clients::{Client, Share},
    head::{RequestKind, surface, too_large},
    message::Parsed,
    options::EndpointOptions,
    target::{Kind, Target},
};
use crate::{
    connection::{Principal, ServerConfig, request_weight},
    http::{HttpResponse, SessionId, fields::Fields, response},
    wire::{self, Message, MessageOffsets, RequestId},
};

/// A request whose head was accepted and whose body is being read.
///
/// [Feed](Self::feed) it the body, then [end](Self::end) it.
pub struct RequestReader {
    purpose: RequestKind,
    config: Arc<ServerConfig>,
    principal: Option<Arc<Principal>>,
    /// Whether its session was known when its head arrived.
    is_known_here: bool,
    body: Vec<u8>,
    /// The number of bytes of the body that have arrived.
    received: usize,
    share: Share,
}

/// A complete request, ready to be routed.
pub struct Request {
    pub(super) work: Target,
    pub(super) kind: Kind,
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
}

impl RequestReader {
    /// Checks the head of a request. `known` returns whether this principal may use a session: `None` if it is not
    /// here, and may be in another process.
    pub(super) fn begin(
        options: &EndpointOptions,
        config: &Arc<ServerConfig>,
        head: &Parts,
        caller: Caller,
        client: Arc<Client>,
        known: impl FnOnce(&SessionId, Option<&Principal>) -> Option<bool>,
    ) -> Result<Self, Box<HttpResponse>> {
        let fields = Fields::of(&head.headers);
        let surface = surface(options, config, head, &fields)?;
        let principal = match caller {
            Caller::Anybody | Caller::Anonymous(_) => None,
            Caller::Known(principal) => Some(principal),
            Caller::Refused(challenge) => return Err(Box::new(challenge.response(None))),
        };
        let purpose = RequestKind::of(surface, head, &fields, config)?;
        let is_known_here = match purpose.session().map(|id| known(id, principal.as_deref())) {
            Some(Some(false)) => return Err(Box::new(response::no_session())),
            Some(Some(true)) => true,
            Some(None) | None => false,
        };
        let share = Share::new(client, options.limits.body_bytes);
        Ok(Self { purpose, config: config.clone(), principal, is_known_here, body: Vec::new(), received: 0, share })
    }

    /// Returns the session of the request, as far as its head names one. Sessions of the transport of 2024-11-05 are
    /// left out.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        if matches!(self.purpose, RequestKind::OldPost(_)) { None } else { self.purpose.session() }
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

    /// Returns whether its head says that it is of the modern era.
    pub(super) const fn stands_alone(&self) -> bool {
        self.purpose.is_modern()
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
        if !matches!(self.purpose, RequestKind::Bare(_)) {
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
        let Self { purpose, config, principal, is_known_here, body, share, .. } = self;
        let (work, parsed) = match purpose {
            RequestKind::Bare(work) => (work, Parsed::nothing()),
            RequestKind::OldPost(id) => (Target::OldMessage(id), Parsed::read(&body, &config)?),
            RequestKind::Post { session, declared, headers } => {
                let parsed = Parsed::read(&body, &config)?;
                (parsed.work(session, declared, headers, &config)?, parsed)
            }
        };
        let Parsed { kind, offsets, .. } = parsed;
        let client = share.client().clone();
        let mut request = Request { work, kind, principal, client, is_known_here, weight: 0, body, offsets };
        request.weight = request.body.len().saturating_add(request.described());
        Ok(request)
    }
}

impl fmt::Debug for RequestReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestReader")
            .field("purpose", &self.purpose)
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

    /// Returns whether the request begins a session with an id, made of the `random` bits of
    /// [`route`](super::Endpoint::route).
    #[must_use]
    pub const fn begins(&self) -> bool {
        matches!(self.work, Target::Initialize | Target::OldStream)
    }

    /// Returns the session that the request ends.
    #[must_use]
    pub const fn ends(&self) -> Option<&SessionId> {
        if let Target::End(id) = &self.work { Some(id) } else { None }
    }

    /// Returns the message in the body, if that is a request or a notification.
    pub(super) fn message(&self) -> Option<Message<'_>> {
        self.offsets.as_ref()?.message(wire::text(&self.body).ok()?)
    }

    /// Returns the decoded bytes that a connection counts for a request of the modern era, besides its length.
    fn described(&self) -> usize {
        match (&self.work, self.message()) {
            (Target::Modern(_), Some(message)) => request_weight(&message),
            _ => 0,
        }
    }

    /// Returns the body: the message.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Frees the body after the request was [opened](super::Session::open) and its event was passed on.
    pub fn drop_body(&mut self) {
        (self.body, self.offsets) = (Vec::new(), None);
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
            .field("work", &self.work)
            .field("kind", &self.kind)
            .field("principal", &self.principal)
            .field("id", &self.id())
            .field("method", &self.method())
            .finish_non_exhaustive()
    }
}
