//! Every message of every revision.

use crate::protocol::{Method, ProtocolVersion, VersionSet};

/// The revisions in which params of `method` occur: also those where they travel inside of a result.
pub(crate) const fn versions(method: Method) -> VersionSet {
    match method {
        Method::CreateMessage | Method::ListRoots | Method::Elicit => {
            method.versions().union(VersionSet::only(ProtocolVersion::V2026_07_28))
        }
        _ => method.versions(),
    }
}
