//! The `error` member of a response.

use alloc::{borrow::Cow, string::String};
use core::fmt;

use super::{Json, excerpt, excerpt_of_error};

/// A JSON-RPC error code. Any number is valid, even one without a constant here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub i64);

impl ErrorCode {
    /// The text is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The JSON is not a request object, or a request that is not allowed now.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// The method does not exist, or its capability was not declared.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The params do not fit the method.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The receiver of the request failed.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// Legacy era: the resource does not exist.
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// 2025-11-25: a URL elicitation has to be completed first.
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
    /// 2026-07-28: a mirrored header differs from the body.
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// 2026-07-28: the client lacks a capability that the request needs.
    pub const MISSING_CLIENT_CAPABILITY: Self = Self(-32021);
    /// 2026-07-28: the server does not support the revision of the request.
    pub const UNSUPPORTED_PROTOCOL_VERSION: Self = Self(-32022);
    /// The user rejected the request, as in the example of sampling in the specification.
    pub const USER_REJECTED: Self = Self(-1);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The error of a response: a code, one short sentence, and optional data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorObject {
    /// The kind of failure.
    pub code: ErrorCode,
    /// A short description of the failure, one sentence.
    pub message: Cow<'static, str>,
    /// Further details, any JSON value.
    pub data: Option<Json>,
}

impl ErrorObject {
    /// Creates an error without data.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Sets the data of the error.
    #[must_use]
    pub fn with_data(mut self, data: Json) -> Self {
        self.data = Some(data);
        self
    }

    /// Returns the error for storage: with at most the beginning of a long message, and without data of more than 4
    /// KiB.
    pub(crate) fn shortened(self) -> Self {
        const DATA: usize = 4 << 10;
        let message = match excerpt_of_error(&self.message) {
            Cow::Owned(message) => Cow::Owned(message),
            Cow::Borrowed(_) => self.message,
        };
        Self { message, data: self.data.filter(|data| data.get().len() <= DATA), ..self }
    }

    /// Creates an error with the code -32602 (invalid params).
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// Creates an error with the code -32603 (internal error).
    #[must_use]
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// Creates an error with the code -32601 (method not found). The message repeats at most the first 96 bytes of the
    /// name.
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
