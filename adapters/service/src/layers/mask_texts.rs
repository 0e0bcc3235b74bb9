//! Masking of the texts for clients.

use std::{borrow::Cow, fmt, sync::Arc};

use mcp_proto::wire::{ErrorObject, Json, JsonObject};

use crate::{
    driver_api::deferred::Deferred,
    inbound::{
        failure::Failure,
        middleware::{Completed, IncomingRequest, Middleware, Next},
    },
    util::json_text::{Text, Value, replace_values},
};

/// A function that returns the text to send.
type Mask = dyn for<'a> Fn(&'a str) -> Cow<'a, str> + Send + Sync;

/// A layer that changes the texts of results and errors before clients and models get them, for example to remove
/// secrets.
///
/// The function is called with each text in the results of handlers and in errors: in contents, structured contents,
/// messages and resources, at any depth. It is not called with members of the protocol such as types, media types and
/// binary data, nor with the names of members. Texts with half of a surrogate pair are replaced by `"[masked]"`.
///
/// To keep the texts of errors from clients, use [`mask_failures`](crate::ServiceBuilder::mask_failures) instead. It
/// does not mask the texts that handlers write for clients: results, also failed ones, the texts of [`Failure::new`],
/// text literals, and each [`ErrorObject`].
///
/// ```
/// use mcp_service::{Service, Tool, layers::MaskTexts};
///
/// let service = Service::builder("vault", "1.0.0")
///     .tool(Tool::new("open", || "the key is hunter2"))
///     .with_layer(MaskTexts::new(|text| text.replace("hunter2", "***").into()))
///     .build()?;
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
///
/// Progress, log messages and requests to the client are not masked.
#[derive(Clone)]
pub struct MaskTexts(Arc<Mask>);

/// Members outside of structured contents that are not masked.
const KEPT: [&str; 7] = ["type", "role", "mimeType", "data", "blob", "resultType", "cacheScope"];

/// The member of a result with data of the application.
const STRUCTURED: &str = "structuredContent";

impl MaskTexts {
    /// Creates a layer from the function that returns the text to send.
    #[must_use]
    pub fn new(f: impl for<'a> Fn(&'a str) -> Cow<'a, str> + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }

    /// Masks a JSON text. Returns `None` if nothing has changed.
    fn mask(&self, json: &str, mut is_data: bool) -> Option<String> {
        let mut has_changed = false;
        let all_is_data = is_data;
        let masked = replace_values(json, |Value { name, depth, text }| {
            if depth == 1 && !all_is_data {
                is_data = name == Some(STRUCTURED);
            }
            if !is_data && name.is_some_and(|name| KEPT.contains(&name)) {
                return None;
            }
            let masked = match text? {
                Text::Readable(text) => {
                    let masked = (self.0)(&text);
                    if *masked == *text {
                        return None;
                    }
                    serde_json::to_string(&*masked).ok()
                }
                Text::Unreadable => None,
            };
            has_changed = true;
            Some(masked.unwrap_or_else(|| "\"[masked]\"".to_owned()))
        });
        has_changed.then_some(masked)
    }

    fn apply(&self, completed: Completed) -> Result<Completed, Failure> {
        if let Some(error) = completed.error() {
            return match self.error(error) {
                Some(error) => Err(Failure::rpc(error)),
                None => Ok(completed),
            };
        }
        let masked = completed.result().and_then(|result| self.mask(result.get(), false));
        let Some(masked) = masked else { return Ok(completed) };
        // Texts were replaced by texts, so the result is valid JSON.
        match JsonObject::parse(masked) {
            Ok(result) => Ok(completed.with_result(result)),
            Err(_) => Err(Failure::rpc(ErrorObject::internal("Internal error"))),
        }
    }

    /// Masks an error. Returns `None` if nothing has changed.
    fn error(&self, error: &ErrorObject) -> Option<ErrorObject> {
        let message = (self.0)(&error.message);
        let data = error.data.as_ref().and_then(|data| self.mask(data.get(), true));
        if *message == *error.message && data.is_none() {
            return None;
        }
        let masked = ErrorObject::new(error.code, message.into_owned());
        match data.map(Json::parse) {
            Some(Ok(data)) => Some(masked.with_data(data)),
            Some(Err(_)) => Some(masked),
            None => Some(error.data.clone().into_iter().fold(masked, ErrorObject::with_data)),
        }
    }
}

impl Middleware for MaskTexts {
    fn handle(&self, _: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        let mask = self.clone();
        let running = next.run();
        match running.try_take() {
            Ok(completed) => Deferred::ready(mask.apply(completed)),
            Err(running) => Deferred::new(async move { mask.apply(running.await) }),
        }
    }
}

impl fmt::Debug for MaskTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskTexts").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer() -> MaskTexts {
        MaskTexts::new(|text| text.replace("secret", "***").into())
    }

    #[test]
    fn texts_are_masked_and_members_of_the_protocol_are_not() {
        let result = r#"{"content":[{"type":"text","text":"a secret"},{"type":"image","data":"secret","mimeType":"secret"}],
            "structuredContent":{"type":"secret","data":["secret",1,{"role":"x secret"}]},"other":{"data":"secret"}}"#;
        let expected = r#"{"content":[{"type":"text","text":"a ***"},{"type":"image","data":"secret","mimeType":"secret"}],
            "structuredContent":{"type":"***","data":["***",1,{"role":"x ***"}]},"other":{"data":"secret"}}"#;
        assert_eq!(layer().mask(result, false).as_deref(), Some(expected));
        assert_eq!(layer().mask(r#"{"content":[{"type":"text","text":"fine"}]}"#, false), None);
        let escaped = r#"{"content":[{"type":"text","text":"s\u0065cret"},{"type":"text","text":"secret \ud800"}]}"#;
        let expected = r#"{"content":[{"type":"text","text":"***"},{"type":"text","text":"[masked]"}]}"#;
        assert_eq!(layer().mask(escaped, false).as_deref(), Some(expected));
    }

    #[test]
    fn errors_are_masked_with_their_data() {
        let data = Json::parse(r#"{"type":"secret","n":1}"#).expect("JSON");
        let error = ErrorObject::internal("a secret").with_data(data);
        let masked = layer().error(&error).expect("it has changed");
        assert_eq!((masked.code, &*masked.message), (error.code, "a ***"));
        assert_eq!(masked.data.as_ref().map(Json::get), Some(r#"{"type":"***","n":1}"#));
        assert!(layer().error(&ErrorObject::internal("fine")).is_none());
    }
}
