//! Folders of skills, read one level at a time.

use std::collections::BTreeMap;

use mcp_proto::{
    schema::{DIRECTORY, ReadDirectoryParams, ReadDirectoryResult, Resource},
    wire::ErrorObject,
};

use super::{inner::Inner, visible_items::ListedItems};
use crate::{
    inbound::rpc_result::RpcResult,
    util::{lock::read, text_arguments::excerpt},
};

/// The prefix of the cursors of folders, which distinguishes them from those of lists.
const CURSOR: &str = "d:";

impl Inner {
    /// Returns a page of the direct contents of a folder. A folder exists as long as it contains a visible file.
    pub(super) fn directory(
        &self,
        listed: &ListedItems,
        params: &ReadDirectoryParams,
    ) -> RpcResult<ReadDirectoryResult> {
        let folder = &params.uri;
        let start = match params.cursor.as_deref().map(|cursor| cursor.strip_prefix(CURSOR)) {
            None => None,
            Some(Some(name)) if !name.is_empty() && !name.contains('/') => Some(name),
            Some(_) => return Err(ErrorObject::invalid_params("Invalid cursor")),
        };
        let missing = || Err(ErrorObject::invalid_params(excerpt(&format_args!("{folder} is not a directory"))));
        // A scheme is no folder, and none ends with a slash.
        if folder.ends_with(['/', ':']) {
            return missing();
        }
        let prefix = format!("{folder}/");
        // The predicate is not called under the lock of the catalog.
        let files = read(&self.catalog).files_below(&prefix);
        let mut children = BTreeMap::new();
        for file in files.into_iter().filter(|file| listed.contains(self, &**file)) {
            let Some(path) = file.about.uri.strip_prefix(&prefix) else { continue };
            match path.split_once('/') {
                None => _ = children.insert(path.to_owned(), file.about.clone()),
                Some((name, _)) => {
                    let uri = format!("{prefix}{name}");
                    let directory = Resource { mime_type: Some(DIRECTORY.into()), ..Resource::new(uri, name) };
                    children.entry(name.to_owned()).or_insert(directory);
                }
            }
        }
        if children.is_empty() {
            return missing();
        }
        let mut rest = children.into_iter().skip_while(|(name, _)| start.is_some_and(|start| name.as_str() <= start));
        let page: Vec<_> = rest.by_ref().take(self.page_size.max(1)).collect();
        let next_cursor = rest.next().and_then(|_| page.last().map(|(name, _)| format!("{CURSOR}{name}")));
        let page: Vec<_> = page.into_iter().map(|(_, resource)| resource).collect();
        Ok(ReadDirectoryResult { next_cursor, ..ReadDirectoryResult::new(page) })
    }
}
