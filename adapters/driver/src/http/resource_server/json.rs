//! Members of JSON objects from an authorization server: tokens, keys, responses.

use mcp_proto::wire::{Json, RawJson};

/// The value of a member that an object may have.
pub(super) struct Member(Option<Json>);

/// The error for a member that has another type, or occurs twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// Reads an object; `None` if the bytes are no object.
pub(super) fn object(bytes: &[u8]) -> Option<Json> {
    let text = std::str::from_utf8(bytes).ok()?;
    Json::parse(text).ok().filter(Json::is_object)
}

/// Finds members in one pass. Each of them may occur once.
pub(super) fn members<const N: usize>(object: &Json, names: [&str; N]) -> Result<[Member; N], Invalid> {
    let mut values = [const { Member(None) }; N];
    let is_sole = RawJson::from(object).all_members(|found, value| {
        let member = names.iter().position(|name| *name == found).map(|at| &mut values[at]);
        member.is_none_or(|member| match Json::parse(value) {
            Ok(value) => member.0.replace(value).is_none(),
            Err(_) => false,
        })
    });
    if is_sole { Ok(values) } else { Err(Invalid) }
}

impl Member {
    pub(super) const fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub(super) const fn json(&self) -> Option<&Json> {
        self.0.as_ref()
    }

    pub(super) fn text(&self) -> Result<Option<String>, Invalid> {
        self.0.as_ref().map(|json| json.decode().map_err(|_| Invalid)).transpose()
    }

    /// Returns a text, or the texts of a list.
    pub(super) fn texts(&self) -> Result<Vec<String>, Invalid> {
        let Some(json) = &self.0 else { return Ok(Vec::new()) };
        if let Ok(text) = json.decode::<String>() {
            return Ok(vec![text]);
        }
        json.decode().map_err(|_| Invalid)
    }

    /// Returns a time in seconds since 1970, which may have a fraction (RFC 7519, section 2).
    pub(super) fn seconds(&self) -> Result<Option<f64>, Invalid> {
        let Some(json) = &self.0 else { return Ok(None) };
        json.decode::<f64>().ok().filter(|seconds| seconds.is_finite()).map(Some).ok_or(Invalid)
    }

    pub(super) fn flag(&self) -> Result<Option<bool>, Invalid> {
        self.0.as_ref().map(|json| json.decode().map_err(|_| Invalid)).transpose()
    }

    #[cfg(feature = "jwt")]
    pub(super) fn list(&self) -> Result<Option<Vec<Json>>, Invalid> {
        self.0.as_ref().map(|json| json.decode().map_err(|_| Invalid)).transpose()
    }
}
