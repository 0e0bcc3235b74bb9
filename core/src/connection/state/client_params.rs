//! The memory that the params of `initialize` take for the lifetime of a session.

use alloc::vec::Vec;

use crate::schema::{At, ClientCapabilities, InitializeParams};

/// Params whose weight is at most this many bytes are counted by their weight, which is cheaper than an exact count.
pub(crate) const SHORT: usize = 4 << 10;

/// Returns an estimate of the bytes that the params of `initialize` take for the lifetime of the session: their text,
/// and an entry for each element of their lists and maps. Unknown members are part of the text. A text with escapes
/// keeps the space that it was written in, so `written` is the length of the params as they were sent, or 0.
pub(crate) fn kept_bytes(params: &InitializeParams, written: usize) -> usize {
    const ENTRY: usize = 160;
    let text = At(params, None).to_json().map_or(usize::MAX, |json| json.get().len()).max(written);
    let icons = params.client_info.icons.as_deref().unwrap_or_default();
    let sizes = icons.iter().filter_map(|icon| icon.sizes.as_ref()).map(Vec::len).sum::<usize>();
    let ClientCapabilities { experimental, extensions, .. } = &params.capabilities;
    let entries =
        experimental.iter().map(|map| map.iter().count()).chain(extensions.iter().map(|map| map.iter().count()));
    text.saturating_add(ENTRY.saturating_mul(icons.len() + sizes + entries.sum::<usize>()))
}
