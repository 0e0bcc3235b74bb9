//! The life of a legacy session: what may be sent, and what is served, before and after the handshake.

use super::{Capability, CapabilitySet, Kind, Method, ProtocolVersion};

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It opened the connection, and asks the server.
    Client,
    /// It offers tools, prompts and resources.
    Server,
}

impl Role {
    /// The one at the other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Whether it sends `method`, in whichever revision.
    #[must_use]
    pub const fn sends(self, method: Method) -> bool {
        match self {
            Self::Client => method.from().is_client(),
            Self::Server => method.from().is_server(),
        }
    }
}

/// How far a connection is (specification, lifecycle).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// `initialize` has not been answered.
    Opening,
    /// A server has answered `initialize` and waits for `notifications/initialized`.
    Initializing,
    /// Normal operation.
    Ready,
    /// Nothing new is begun; what is being worked on may still be answered.
    Draining,
    /// It is over.
    Closed,
}

impl Phase {
    /// Whether a request may be sent. The handshake itself is not asked about.
    #[must_use]
    pub fn sends_request(self, method: Option<Method>) -> bool {
        match self {
            Self::Opening | Self::Initializing => method == Some(Method::Ping),
            Self::Ready => true,
            Self::Draining | Self::Closed => false,
        }
    }

    /// Whether a notification may be sent.
    #[must_use]
    pub fn sends_notification(self, method: Option<Method>) -> bool {
        match self {
            Self::Opening | Self::Closed => false,
            Self::Initializing => method == Some(Method::LogMessage),
            Self::Ready | Self::Draining => true,
        }
    }

    /// Whether a request of the peer is served, `initialize` and `ping` aside.
    ///
    /// A server serves them as soon as it has answered `initialize`: `notifications/initialized` can be overtaken.
    #[must_use]
    pub const fn serves_requests(self) -> bool {
        matches!(self, Self::Initializing | Self::Ready)
    }
}

/// Why a method cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sender's side does not send it.
    WrongDirection,
    /// The revision does not have it.
    NotInRevision,
    /// The capability that it needs was not declared.
    Undeclared(Capability),
    /// It belongs to an extension, and its user has not declared that.
    Unshared(Capability),
}

/// Whether `sender` may send `method` in `version`, when the two ends have declared what they have.
///
/// # Errors
/// Says which rule of the table forbids it.
pub fn check(
    method: Method,
    version: ProtocolVersion,
    sender: Role,
    declared: impl Fn(Role) -> CapabilitySet,
) -> Result<(), Refusal> {
    if !sender.sends(method) {
        return Err(Refusal::WrongDirection);
    }
    if !method.versions().contains(version) {
        return Err(Refusal::NotInRevision);
    }
    let Some(needed) = method.needs(version) else { return Ok(()) };
    // The receiver of a request declares its capability, and the sender of a notification. There is one exception.
    let holder = match method.kind() {
        Kind::Request => sender.other(),
        Kind::Notification if method == Method::ElicitationComplete => sender.other(),
        Kind::Notification => sender,
    };
    if !declared(holder).contains(needed) {
        return Err(Refusal::Undeclared(needed));
    }
    if needed.is_mutual() && !declared(holder.other()).contains(needed) {
        return Err(Refusal::Unshared(needed));
    }
    Ok(())
}
