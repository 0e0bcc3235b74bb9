//! The lists that have changed since their last notification.

use crate::protocol::Method;

pub(crate) const LISTS: [Method; 4] =
    [Method::ToolsListChanged, Method::PromptsListChanged, Method::ResourcesListChanged, Method::RootsListChanged];

/// A dirty bit for each list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListChanges(pub(crate) u8);

impl ListChanges {
    pub(crate) fn bit(method: Method) -> Option<u8> {
        LISTS.iter().position(|list| *list == method).map(|index| 1 << index)
    }

    pub(crate) fn clear(&mut self) {
        self.0 = 0;
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}
