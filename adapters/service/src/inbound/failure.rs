//! Failures of handlers.

use std::{
    any::Any,
    error::Error,
    fmt::{Display, Write as _},
    io,
};

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::Map,
    wire::{ErrorCode, ErrorObject, Json},
};

use super::log;

/// The failure of a handler.
///
/// Any type that implements `Display` becomes one with `?`: its text is the reason. The failure of a tool reaches the
/// model, as a result with `isError`; the failure of another handler is the message of an error -32603. An
/// [`ErrorObject`] remains an error of the protocol.
///
/// The text is written as `{:#}`, with which errors such as those of `anyhow` and `eyre` have the texts of their
/// causes. A `Box<dyn Error>` has them, too. For another type of error, [`with_causes`](Self::with_causes) adds them.
///
/// Clients get these texts unless the service [masks failures](crate::ServiceBuilder::mask_failures). Then they get
/// only those that handlers write for them: [`new`](Self::new), text literals, errors of the protocol, and failed
/// results.
#[derive(Debug)]
pub struct Failure(Box<Kind>);

#[derive(Debug)]
enum Kind {
    /// A text for the peer.
    Text(String),
    /// The text of an error, perhaps with its causes.
    Error(String),
    /// An error whose text is not for the peer.
    Masked,
    Rpc(ErrorObject),
    NoResource(String),
}

impl Failure {
    /// Creates a failure. It is boxed, so that the results of handlers stay small.
    fn of(kind: Kind) -> Self {
        Self(Box::new(kind))
    }

    /// Creates a failure with this reason, which is also sent if failures are
    /// [masked](crate::ServiceBuilder::mask_failures).
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self::of(Kind::Text(what.into()))
    }

    /// Creates a failure from an error, with the texts of its [causes](Error::source).
    ///
    /// ```
    /// use mcp_service::Failure;
    ///
    /// fn load() -> Result<String, Failure> {
    ///     let file = std::fs::File::open("settings.json").map_err(|error| Failure::with_causes(&error))?;
    ///     std::io::read_to_string(file).map_err(|error| Failure::with_causes(&error))
    /// }
    /// ```
    #[must_use]
    pub fn with_causes(error: &(dyn Error + 'static)) -> Self {
        /// The most causes that are written.
        const MAX_CAUSES: usize = 16;

        let mut text = error.to_string();
        let mut next = error.source();
        for _ in 0..MAX_CAUSES {
            let Some(cause) = next else { break };
            next = cause.source();
            let cause = cause.to_string();
            // Some errors write their causes themselves.
            if !text.ends_with(&cause) {
                // A `String` takes every text.
                let _ = write!(text, ": {cause}");
            }
        }
        Self::of(Kind::Error(text))
    }

    /// Creates a failure that is an error of the protocol, which models do not see.
    #[must_use]
    pub fn rpc(error: ErrorObject) -> Self {
        Self::of(Kind::Rpc(error))
    }

    /// Creates the failure of a request for an unknown resource. Its code depends on the revision.
    #[must_use]
    pub fn resource_not_found(uri: impl Into<String>) -> Self {
        Self::of(Kind::NoResource(uri.into()))
    }

    /// Creates the failure of a `sampling/createMessage` that the user has rejected (-1).
    #[must_use]
    pub fn rejected() -> Self {
        Self::rpc(ErrorObject::new(ErrorCode::USER_REJECTED, "User rejected the request"))
    }

    /// Returns the failure of a request for a resource, with this URI and the code of the client's revision if the
    /// error says that there is no such resource.
    pub(crate) fn for_resource(self, uri: String) -> Self {
        let has_uri = |error: &ErrorObject| {
            let data = error.data.as_ref().and_then(|data| data.decode::<Map<Json>>().ok());
            data.is_some_and(|data| data.get("uri").is_some())
        };
        match *self.0 {
            Kind::Rpc(error)
                if error.code == ErrorCode::RESOURCE_NOT_FOUND
                    || error.code == ErrorCode::INVALID_PARAMS && has_uri(&error) =>
            {
                Self::of(Kind::NoResource(uri))
            }
            kind => Self::of(kind),
        }
    }

    /// Returns the failure without the text of an error, which is logged instead.
    pub(crate) fn masked(self) -> Self {
        match *self.0 {
            Kind::Error(why) => {
                log::failed(&why);
                Self::of(Kind::Masked)
            }
            kind => Self::of(kind),
        }
    }

    /// Returns the text for a model, or else an error of the protocol.
    pub(crate) fn split(self, version: ProtocolVersion) -> Result<String, ErrorObject> {
        match *self.0 {
            Kind::Text(text) | Kind::Error(text) => Ok(text),
            Kind::Masked => Ok("The tool failed".into()),
            kind => Err(Self::of(kind).into_error(version)),
        }
    }

    /// Converts it into an error of the protocol.
    pub(crate) fn into_error(self, version: ProtocolVersion) -> ErrorObject {
        match *self.0 {
            Kind::Text(text) | Kind::Error(text) => ErrorObject::internal(text),
            Kind::Masked => ErrorObject::internal("Internal error"),
            Kind::Rpc(error) => error,
            Kind::NoResource(uri) => resource_not_found(&uri, version),
        }
    }
}

impl<E: Display + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        if let Some(error) = any.downcast_ref::<ErrorObject>() {
            return Self::rpc(error.clone());
        }
        if let Some(text) = any.downcast_ref::<&'static str>() {
            return Self::new(*text);
        }
        match as_error(any) {
            Some(error) => Self::with_causes(error),
            None => Self::of(Kind::Error(format!("{error:#}"))),
        }
    }
}

/// Returns the error, if it is of a type whose causes are known to be there.
fn as_error(error: &dyn Any) -> Option<&(dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return Some(&**error);
    }
    if let Some(error) = error.downcast_ref::<Box<dyn Error>>() {
        return Some(&**error);
    }
    error.downcast_ref::<io::Error>().map(|error| error as &dyn Error)
}

/// Returns the error for an unknown resource.
pub(crate) fn resource_not_found(uri: &str, version: ProtocolVersion) -> ErrorObject {
    let error = ErrorObject::new(ErrorCode(version.resource_not_found()), "Resource not found");
    match Json::new(&NotFound { uri }) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

struct NotFound<'a> {
    uri: &'a str,
}

impl serde_core::Serialize for NotFound<'_> {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("uri", self.uri)])
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// An error with a cause, which it writes itself only as `{:#}`, as the errors of `anyhow` do.
    #[derive(Debug)]
    struct Outer(Inner);

    #[derive(Debug)]
    struct Inner;

    impl Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("loading settings")?;
            if f.alternate() { write!(f, ": {}", self.0) } else { Ok(()) }
        }
    }

    impl Display for Inner {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no such file")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    impl Error for Inner {}

    /// An error that is its own cause.
    #[derive(Debug)]
    struct Endless(std::cell::Cell<u32>);

    impl Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.set(self.0.get() + 1);
            assert!(self.0.get() < 100, "there is no end");
            write!(f, "{}", self.0.get())
        }
    }

    impl Error for Endless {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }

    /// An error that writes its cause itself, or never.
    #[derive(Debug)]
    struct Written(bool);

    impl Display for Written {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(if self.0 { "saving: no such file" } else { "saving" })
        }
    }

    impl Error for Written {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Inner)
        }
    }

    #[test]
    fn each_cause_is_written_once() {
        let text = |failure: Failure| failure.split(ProtocolVersion::LATEST).expect("a text");
        for error in [true, false] {
            let all = "saving: no such file";
            assert_eq!(text(Failure::with_causes(&Written(error))), all);
            assert_eq!(text(Box::<dyn Error>::from(Written(error)).into()), all);
            assert_eq!(text(Box::<dyn Error + Send + Sync>::from(Written(error)).into()), all);
            assert_eq!(text(io::Error::other(Written(error)).into()), all);
        }
        // Other types have only the texts that they write.
        assert_eq!(text(Written(false).into()), "saving");
    }

    #[test]
    fn the_causes_of_an_error_are_bounded() {
        let failure = Failure::with_causes(&Endless(std::cell::Cell::new(0)));
        let text = failure.split(ProtocolVersion::LATEST).expect("a text");
        assert_eq!(text.split(": ").count(), 17, "{text}");
    }

    #[test]
    fn a_failure_has_the_causes_of_its_error() {
        let text = |failure: Failure| failure.split(ProtocolVersion::LATEST).expect("a text");
        let all = "loading settings: no such file";
        assert_eq!(text(Outer(Inner).into()), all);
        assert_eq!(text(Failure::with_causes(&Outer(Inner))), all);
        assert_eq!(text(Failure::from(Box::<dyn Error>::from(Outer(Inner)))), all);
        assert_eq!(text(Failure::from(Box::<dyn Error + Send + Sync>::from(Outer(Inner)))), all);
        assert_eq!(text(Failure::from(io::Error::other(Outer(Inner)))), all);
        // Once is enough.
        assert_eq!(text(Failure::with_causes(&io::Error::other(Inner))), "no such file");
        assert_eq!(text("a text".into()), "a text");
    }

    #[test]
    fn errors_for_missing_resources_get_the_uri_of_the_request() {
        let rpc = |code, data: Option<&str>| {
            let error = ErrorObject::new(code, "bad");
            Failure::rpc(match data {
                Some(data) => error.with_data(Json::parse(data).expect("JSON")),
                None => error,
            })
        };
        let uri = Some(r#"{"uri":"a:other"}"#);
        for (failure, is_missing) in [
            (rpc(ErrorCode::RESOURCE_NOT_FOUND, None), true),
            (rpc(ErrorCode::RESOURCE_NOT_FOUND, uri), true),
            (rpc(ErrorCode::INVALID_PARAMS, uri), true),
            (rpc(ErrorCode::INVALID_PARAMS, None), false),
            (rpc(ErrorCode::INVALID_PARAMS, Some(r#"{"url":"a:b"}"#)), false),
            (rpc(ErrorCode::INVALID_PARAMS, Some("[]")), false),
            (rpc(ErrorCode::INTERNAL_ERROR, uri), false),
            (Failure::new("bad"), false),
        ] {
            let text = format!("{failure:?}");
            let failure = failure.for_resource("a:b".into());
            assert_eq!(matches!(&*failure.0, Kind::NoResource(uri) if uri == "a:b"), is_missing, "{text}");
            assert!(is_missing || format!("{failure:?}") == text, "{text}");
        }
    }
}
