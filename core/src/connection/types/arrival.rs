//! The data of a frame besides its bytes, for bindings that have it: stream, principal, headers.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{any::Any, fmt};

use crate::{
    protocol::MirroredHeaders,
    rpc::{CallId, Timestamp},
    wire::Json,
};

/// The circumstances of a frame's arrival, for transports that provide more data than a pipe.
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    /// The stream for responses to the frame. Every message that belongs to the frame has it in
    /// [`Transmit::stream`](crate::connection::Transmit::stream).
    pub stream: Option<u64>,
    /// The authenticated sender, if there is one.
    pub principal: Option<Arc<Principal>>,
    /// The headers that repeat parts of the body. If they are set, the frame is of 2026-07-28, and a request must agree
    /// with them. Only those of `tools/call` are kept with the request.
    pub headers: Option<Arc<MirroredHeaders>>,
    /// A value of the binding for the application, such as the head of an HTTP request.
    pub extension: Option<ArrivalExtension>,
    /// The request of this side on whose stream the frame arrived (clients of sessions over Streamable HTTP). See
    /// [`Event::Notification`](crate::connection::Event::Notification).
    pub related_call: Option<CallId>,
}

/// A value of any type that a binding passes to the handler of a request.
#[derive(Clone)]
pub struct ArrivalExtension {
    value: Arc<dyn Any + Send + Sync>,
    weight: usize,
}

impl ArrivalExtension {
    /// Creates an extension of a request. `weight` is its size in bytes, which counts as a part of the request.
    #[must_use]
    pub fn new(value: Arc<dyn Any + Send + Sync>, weight: usize) -> Self {
        Self { value, weight }
    }

    /// Returns the value, if it has this type.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }

    /// Returns its size in bytes.
    #[must_use]
    pub const fn weight(&self) -> usize {
        self.weight
    }
}

/// Extensions are equal if they are the same value.
impl PartialEq for ArrivalExtension {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::addr_eq(Arc::as_ptr(&self.value), Arc::as_ptr(&other.value))
    }
}

impl Eq for ArrivalExtension {}

impl fmt::Debug for ArrivalExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrivalExtension").field("weight", &self.weight).finish_non_exhaustive()
    }
}

impl Arrival {
    /// Returns the bytes that a request retains of its arrival, besides those of its message.
    pub(crate) fn weight(&self) -> usize {
        let extension = self.extension.as_ref().map_or(0, ArrivalExtension::weight);
        let headers = self.headers.as_deref().map_or(0, MirroredHeaders::weight);
        self.principal.as_deref().map_or(0, Principal::weight).saturating_add(extension).saturating_add(headers)
    }
}

/// The sender of a request, as authenticated by the application or a component in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// The identity. Principals with equal ids are the same, and only the principal of a session may use it.
    pub id: String,
    /// The OAuth client that acts for it, if it is known.
    pub client_id: Option<String>,
    /// The scopes that it was granted.
    pub scopes: Vec<String>,
    /// Further data, such as the claims of a token.
    pub claims: Option<Json>,
    /// When its authorization expires, by the clock of the driver. An HTTP session ends streams then that belong to no
    /// request. The endpoints of the adapters convert a time of the system: `Endpoint::timestamp`.
    pub expires: Option<Timestamp>,
}

impl Principal {
    /// Creates a principal with an id, without scopes and claims.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), client_id: None, scopes: Vec::new(), claims: None, expires: None }
    }

    /// Returns the bytes that it takes while a request is in flight, with a copy for the handler.
    pub(crate) fn weight(&self) -> usize {
        let texts = self.scopes.iter().chain([&self.id]).chain(&self.client_id);
        let claims = self.claims.as_ref().map_or(0, |claims| claims.get().len());
        2 * texts.map(|text| size_of::<String>() + text.len()).sum::<usize>().saturating_add(claims)
    }

    /// Returns whether it was granted a scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|granted| granted == scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_of_a_request_counts_each_text_twice() {
        let text = size_of::<String>();
        let mut principal = Principal::new("ada");
        assert_eq!(principal.weight(), 2 * (text + 3));
        principal.client_id = Some("client".into());
        principal.scopes = ["a".into(), "bc".into()].into();
        assert_eq!(principal.weight(), 2 * (4 * text + 3 + 6 + 1 + 2));
        assert!(principal.has_scope("bc") && !principal.has_scope("b"));
        let weight = principal.weight();
        let extension = ArrivalExtension::new(Arc::new(7_u32), 1000);
        assert_eq!(extension.weight(), 1000);
        assert_eq!(alloc::format!("{extension:?}"), "ArrivalExtension { weight: 1000, .. }");
        let other = ArrivalExtension::new(Arc::new(7_u32), 1000);
        assert!(extension == extension.clone() && extension != other);
        let arrival = |principal: bool, has_extension: bool| {
            let arrival = Arrival {
                principal: principal.then(|| Arc::new(Principal { scopes: Vec::new(), ..Principal::new("x") })),
                extension: has_extension.then(|| extension.clone()),
                ..Arrival::default()
            };
            arrival.weight()
        };
        let one = 2 * (text + 1);
        assert_eq!([arrival(false, false), arrival(true, false), arrival(false, true)], [0, one, 1000]);
        assert_eq!(arrival(true, true), one + 1000);
        assert!(weight > one);
    }
}
