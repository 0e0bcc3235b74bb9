//! The user's handlers for notifications, and for methods of his own.

use std::{collections::HashMap, fmt, sync::Arc};

use mcp_proto::{
    connection::Violation,
    wire::{ErrorObject, JsonObject, RawJson, decode_params},
};
use serde_core::{Serialize, de::DeserializeOwned};

use crate::{Context, Failure, Peer, Role};

/// Params as they came.
type Params = Option<RawJson<'static>>;

/// Answers a request.
pub(crate) type Answerer<E> = Arc<dyn Fn(Params, Context<E>) -> Result<JsonObject, Failure> + Send + Sync>;

/// Hears a notification; `false` if it cannot be read.
pub(crate) type Listener<E> = Arc<dyn Fn(&Params, Peer<E>) -> bool + Send + Sync>;

/// Hears what the peer has done wrong.
pub(crate) type Critic = Arc<dyn Fn(Fault) + Send + Sync>;

/// Something that the peer has done wrong, or says that this side has done wrong. The connection lives on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The peer sent something wrong.
    Violation(Violation<'static>),
    /// The peer complains of something that it could not attribute to a request.
    Complaint(ErrorObject),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => violation.fmt(f),
            Self::Complaint(error) => write!(f, "the peer complains: {error}"),
        }
    }
}

/// What an application has registered beside the features of the specification.
pub struct Custom<E: Role> {
    answerers: HashMap<String, Answerer<E>>,
    listeners: HashMap<String, Listener<E>>,
    pub(crate) critic: Option<Critic>,
}

impl<E: Role> Default for Custom<E> {
    fn default() -> Self {
        Self { answerers: HashMap::new(), listeners: HashMap::new(), critic: None }
    }
}

impl<E: Role> Custom<E> {
    /// Registers what answers the requests called `method`. The last one counts.
    pub(crate) fn answer<P, R, F>(
        &mut self,
        method: &str,
        f: impl Fn(P, Context<E>) -> Result<R, F> + Send + Sync + 'static,
    ) where
        P: DeserializeOwned,
        R: Serialize,
        F: Into<Failure>,
    {
        let answerer: Answerer<E> = Arc::new(move |params, context| {
            let params = decode_params(params.as_ref())
                .map_err(|error| Failure::rpc(ErrorObject::invalid_params(format!("Invalid params: {error}"))))?;
            let result = f(params, context).map_err(Into::into)?;
            JsonObject::new(&result).map_err(Failure::from)
        });
        self.answerers.insert(method.to_owned(), answerer);
    }

    /// Registers what hears the notifications called `method`. The last one counts.
    pub(crate) fn listen<P: DeserializeOwned>(&mut self, method: &str, f: impl Fn(P, Peer<E>) + Send + Sync + 'static) {
        let listener: Listener<E> = Arc::new(move |params, peer| match decode_params(params.as_ref()) {
            Ok(params) => {
                f(params, peer);
                true
            }
            Err(_) => false,
        });
        self.listeners.insert(method.to_owned(), listener);
    }

    pub(crate) fn answerer(&self, method: &str) -> Option<&Answerer<E>> {
        self.answerers.get(method)
    }

    pub(crate) fn listener(&self, method: &str) -> Option<&Listener<E>> {
        self.listeners.get(method)
    }
}

impl<E: Role> fmt::Debug for Custom<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom")
            .field("requests", &self.answerers.len())
            .field("notifications", &self.listeners.len())
            .finish_non_exhaustive()
    }
}
