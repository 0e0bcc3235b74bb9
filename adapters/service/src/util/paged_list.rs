//! Paged lists of named items, in the order in which they were added.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use mcp_proto::wire::ErrorObject;

/// A list of named items, oldest first.
///
/// Each item has a sequence number that is never used again. A cursor is the number at which a page begins. So if a
/// list changes while a client pages through it, the client gets every item that was in it all the time exactly once.
pub(crate) struct PagedList<T> {
    /// The first character of the cursors of this list, which distinguishes them from those of other lists.
    kind: char,
    /// The items with their sequence numbers, in order.
    items: Vec<(u64, Arc<T>)>,
    /// The sequence numbers by name. Ordered: the names are those of the application, so a peer cannot choose them to
    /// make lookups slow, and no hash is needed. It does not depend on the type of the items, so that lists of all
    /// types share this code.
    names: BTreeMap<String, u64>,
    next: u64,
}

impl<T> PagedList<T> {
    pub(crate) const fn new(kind: char) -> Self {
        Self { kind, items: Vec::new(), names: BTreeMap::new(), next: 0 }
    }

    /// Adds an item at the end; returns `false` if the name is taken.
    pub(crate) fn insert(&mut self, name: &str, item: Arc<T>) -> bool {
        if self.names.contains_key(name) {
            return false;
        }
        self.names.insert(name.to_owned(), self.next);
        self.items.push((self.next, item));
        self.next += 1;
        true
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<T>> {
        let sequence = self.names.remove(name)?;
        let index = self.index_of(sequence).ok()?;
        Some(self.items.remove(index).1)
    }

    /// Removes several items. Its cost is linear in the number of all items, but for the lookup of names.
    pub(crate) fn remove_all<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let places: HashSet<u64> = names.filter_map(|name| self.names.remove(name)).collect();
        if !places.is_empty() {
            self.items.retain(|(place, _)| !places.contains(place));
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<T>> {
        let index = self.index_of(*self.names.get(name)?).ok()?;
        self.items.get(index).map(|(_, item)| item)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter().map(|(_, item)| item)
    }

    /// Returns the index of a sequence number, or the index where it would be.
    fn index_of(&self, sequence: u64) -> Result<usize, usize> {
        self.items.binary_search_by_key(&sequence, |(sequence, _)| *sequence)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns at most `size` items after the cursor, and the cursor of the next page if there is one.
    pub(crate) fn page(&self, cursor: Option<&str>, size: usize) -> Result<(Vec<Arc<T>>, Option<String>), ErrorObject> {
        let rest = self.after(cursor)?;
        let page = rest.get(..size.max(1)).unwrap_or(rest);
        let next = page.last().filter(|_| page.len() < rest.len()).map(|(sequence, _)| self.cursor_after(*sequence));
        Ok((page.iter().map(|(_, item)| item.clone()).collect(), next))
    }

    /// Returns all items after the cursor, with their sequence numbers.
    pub(crate) fn rest(&self, cursor: Option<&str>) -> Result<Vec<(u64, Arc<T>)>, ErrorObject> {
        self.after(cursor).map(<[_]>::to_vec)
    }

    fn after(&self, cursor: Option<&str>) -> Result<&[(u64, Arc<T>)], ErrorObject> {
        let start = self.start(cursor)?;
        let (Ok(index) | Err(index)) = self.index_of(start);
        Ok(self.items.get(index..).unwrap_or_default())
    }

    /// Returns the cursor of the items after a sequence number.
    pub(crate) fn cursor_after(&self, sequence: u64) -> String {
        format!("{}{:x}", self.kind, sequence + 1)
    }

    fn start(&self, cursor: Option<&str>) -> Result<u64, ErrorObject> {
        match cursor {
            None => Ok(0),
            Some(cursor) => self.parse(cursor).ok_or_else(|| ErrorObject::invalid_params("Invalid cursor")),
        }
    }

    /// Parses a cursor into its sequence number. Only cursors that [`page`](Self::page) could have written are valid.
    fn parse(&self, cursor: &str) -> Option<u64> {
        let digits = cursor.strip_prefix(self.kind)?;
        let canonical = !digits.starts_with(['0', '+']) && !digits.bytes().any(|byte| byte.is_ascii_uppercase());
        u64::from_str_radix(digits, 16).ok().filter(|sequence| canonical && *sequence < self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(names: &[&str]) -> PagedList<String> {
        let mut list = PagedList::new('t');
        for name in names {
            assert!(list.insert(name, Arc::new((*name).to_owned())));
        }
        list
    }

    fn walk(list: &PagedList<String>, size: usize, mut between: impl FnMut(usize)) -> Vec<String> {
        let (mut found, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let (page, next) = list.page(cursor.as_deref(), size).expect("our own cursor");
            assert!(page.len() <= size);
            found.extend(page.iter().map(|item| item.to_string()));
            pages += 1;
            between(pages);
            cursor = match next {
                Some(next) => Some(next),
                None => return found,
            };
        }
    }

    // req: PAGE-003 PAGE-010 M-PAGE-010
    #[test]
    fn pages_of_any_size_contain_each_item_once() {
        let names = ["e", "a", "d", "b", "c"];
        let list = filled(&names);
        for size in 1..7 {
            assert_eq!(walk(&list, size, |_| ()), names);
        }
        assert_eq!(walk(&filled(&[]), 3, |_| ()), [""; 0]);
    }

    // req: PAGE-010
    #[test]
    fn cursors_stay_valid_when_the_list_changes() {
        let mut list = filled(&["a", "b", "c", "d"]);
        let (page, next) = list.page(None, 2).expect("the first page");
        assert_eq!(page.iter().map(|item| item.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        // Removed in front of and at the cursor, added at the end.
        list.remove("b");
        list.remove("c");
        assert!(list.insert("e", Arc::new("e".into())));
        assert!(list.insert("b", Arc::new("b".into())));
        let (page, next) = list.page(next.as_deref(), 9).expect("the cursor stays valid");
        assert_eq!(page.iter().map(|item| item.as_str()).collect::<Vec<_>>(), ["d", "e", "b"]);
        assert_eq!(next, None);
        assert!(!list.insert("e", Arc::new("e".into())), "names are unique");
    }

    // req: PAGE-009
    #[test]
    fn rejects_invalid_cursors() {
        let list = filled(&["a", "b", "c"]);
        for bad in ["", "t", "x1", "1", "t0", "t01", "t+1", "t-1", "t3", "tffffffffffffffffff", "T1", "t1 ", "t1\n"] {
            assert!(list.page(Some(bad), 1).is_err(), "{bad:?}");
        }
        assert!(list.page(Some("t1"), 1).is_ok());
    }

    #[test]
    fn pages_have_at_least_one_item_and_exact_cursors() {
        let names: Vec<_> = (0..20).map(|number| format!("name {number:02}")).collect();
        let list = filled(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((list.len(), list.is_empty(), list.iter().count()), (20, false, 20));
        for (cursor, size, count, next) in [
            (None, 0, 1, Some("t1")),
            (None, 1, 1, Some("t1")),
            (None, 16, 16, Some("t10")),
            (None, 19, 19, Some("t13")),
            (None, 20, 20, None),
            (None, 21, 20, None),
            (Some("t10"), 3, 3, Some("t13")),
            (Some("t10"), 4, 4, None),
            (Some("t13"), 9, 1, None),
        ] {
            let (page, cursor) = list.page(cursor, size).expect("a page");
            assert_eq!((page.len(), cursor.as_deref()), (count, next), "{size}");
        }
        assert_eq!(list.rest(Some("t12")).expect("the rest").iter().map(|(at, _)| *at).collect::<Vec<_>>(), [18, 19]);
    }

    #[test]
    fn items_are_found_until_they_are_removed() {
        let mut list = filled(&["a", "b", "c", "d"]);
        assert_eq!(list.get("c").map(|item| item.as_str()), Some("c"));
        assert_eq!(list.remove("b").as_deref().map(String::as_str), Some("b"));
        assert!(list.remove("b").is_none() && list.get("b").is_none());
        list.remove_all(["a", "x", "d"].into_iter());
        assert_eq!(list.iter().map(|item| item.as_str()).collect::<Vec<_>>(), ["c"]);
        list.remove_all(["c"].into_iter());
        assert_eq!((list.is_empty(), list.len(), list.get("c").is_none()), (true, 0, true));
    }
}
