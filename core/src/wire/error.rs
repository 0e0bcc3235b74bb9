//! The `error` member of a response.

use alloc::{borrow::Cow, string::String};
use core::fmt;

use super::{Json, excerpt, excerpt_of_error};

/// A JSON-RPC error code. Any number is valid, also one without a constant here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub i64);

impl ErrorCode {
    /// The text is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The JSON is not a request object, or a request that is not allowed now.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// No such method, or its capability was not declared.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The params do not fit the method.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The receiver failed.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// Legacy era: no resource with this URI.
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// 2025-11-25: a url elicitation has to be completed first.
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
    /// 2026-07-28: a mirrored header differs from the body.
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// 2026-07-28: the client lacks a capability that the request needs.
    pub const MISSING_CLIENT_CAPABILITY: Self = Self(-32021);
    /// 2026-07-28: the version of the request is not served.
    pub const UNSUPPORTED_PROTOCOL_VERSION: Self = Self(-32022);
    /// The user said no, as the specification's sampling example has it.
    pub const USER_REJECTED: Self = Self(-1);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a request failed, as its receiver says it: code, one short sentence, and data of any shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorObject {
    /// What kind of failure.
    pub code: ErrorCode,
    /// One short sentence.
    pub message: Cow<'static, str>,
    /// Any detail.
    pub data: Option<Json>,
}

impl ErrorObject {
    /// An error without data.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with data.
    #[must_use]
    pub fn with_data(mut self, data: Json) -> Self {
        self.data = Some(data);
        self
    }

    /// The same error, for what is kept of it: without most of a long message, and without data that are large.
    pub(crate) fn shortened(self) -> Self {
        const DATA: usize = 4 << 10;
        let message = match excerpt_of_error(&self.message) {
            Cow::Owned(message) => Cow::Owned(message),
            Cow::Borrowed(_) => self.message,
        };
        Self { message, data: self.data.filter(|data| data.get().len() <= DATA), ..self }
    }

    /// -32602.
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// -32603.
    #[must_use]
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// -32601. Of a long name only the beginning is repeated.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(ErrorCode::METHOD_NOT_FOUND, String::from("Method not found: ") + &excerpt(method))
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl core::error::Error for ErrorObject {}
