//! The lifecycle of a legacy session: the messages that may be sent, and the requests that are served, before and after
//! the handshake.

use super::{Capability, CapabilitySet, Method, MethodKind, ProtocolVersion};

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The side that opens the connection and calls the server.
    Client,
    /// The side that offers tools, prompts and resources.
    Server,
}

impl Role {
    /// Returns the role of the other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Returns whether this role sends `method` in any revision.
    #[must_use]
    pub const fn sends(self, method: Method) -> bool {
        match self {
            Self::Client => method.from().is_client(),
            Self::Server => method.from().is_server(),
        }
    }
}

/// The phase of a connection (specification, lifecycle).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// `initialize` has not been answered.
    Opening,
    /// A server has answered `initialize` and waits for `notifications/initialized`.
    Initializing,
    /// Normal operation.
    Ready,
    /// No new request is begun. Requests in flight may still be answered.
    Draining,
    /// The connection is closed.
    Closed,
}

impl Phase {
    /// Returns whether a request may be sent; `None` is a method that the specification does not have.
    ///
    /// The requests of the handshake are not checked here.
    #[must_use]
    pub fn sends_request(self, method: Option<Method>) -> bool {
        match self {
            Self::Opening | Self::Initializing => method == Some(Method::Ping),
            Self::Ready => true,
            Self::Draining | Self::Closed => false,
        }
    }

    /// Returns whether a notification may be sent; `None` is a method that the specification does not have.
    #[must_use]
    pub fn sends_notification(self, method: Option<Method>) -> bool {
        match self {
            Self::Opening | Self::Closed => false,
            Self::Initializing => method == Some(Method::LogMessage),
            Self::Ready | Self::Draining => true,
        }
    }

    /// Returns whether a request of the peer is served, `initialize` and `ping` aside.
    ///
    /// A server serves requests as soon as it has answered `initialize`, because they can overtake
    /// `notifications/initialized`.
    #[must_use]
    pub const fn serves_requests(self) -> bool {
        matches!(self, Self::Initializing | Self::Ready)
    }
}

/// The reason why a method cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodRefusal {
    /// The sender's role does not send the method.
    WrongDirection,
    /// The revision does not have the method.
    NotInRevision,
    /// The capability that the method needs was not declared.
    Undeclared(Capability),
    /// The method belongs to an extension that both sides have to declare, and the side that uses it has not.
    Unshared(Capability),
}

/// Checks that `sender` may send `method` in `version`, given the capabilities that each side has declared.
///
/// # Errors
/// Returns the rule of the method table that forbids the method.
pub fn check(
    method: Method,
    version: ProtocolVersion,
    sender: Role,
    declared: impl Fn(Role) -> CapabilitySet,
) -> Result<(), MethodRefusal> {
    if !sender.sends(method) {
        return Err(MethodRefusal::WrongDirection);
    }
    if !method.versions().contains(version) {
        return Err(MethodRefusal::NotInRevision);
    }
    let Some(needed) = method.needs(version) else { return Ok(()) };
    // The receiver of a request declares its capability, and the sender of a notification. There is one exception.
    let holder = match method.kind() {
        MethodKind::Request => sender.other(),
        MethodKind::Notification if method == Method::ElicitationComplete => sender.other(),
        MethodKind::Notification => sender,
    };
    if !declared(holder).contains(needed) {
        return Err(MethodRefusal::Undeclared(needed));
    }
    if needed.is_mutual() && !declared(holder.other()).contains(needed) {
        return Err(MethodRefusal::Unshared(needed));
    }
    Ok(())
}
