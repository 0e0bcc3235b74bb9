//! Lists of a server, which have pages.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Entry, Probe};
use crate::check::outcome::{Breaks, Outcome, Rules, failed, not_reachable};

/// The most pages of a list that are read.
const MAX_PAGES: usize = 1000;

/// The most bytes of a list.
const MAX_LIST: usize = 32 << 20;

/// The reason why there is no list.
#[derive(Clone, Debug)]
enum NoList {
    /// A request for a page has no result with items.
    NoItems(Outcome),
    /// A cursor leads back to itself, although there are items between.
    Endless(String),
    /// The list has no end that can be read.
    TooLong(String),
}

/// A list or why there is none, and the bytes that brought it.
#[derive(Clone, Debug)]
pub(super) struct ReadList {
    list: Result<Vec<Value>, NoList>,
    entries: Vec<Entry>,
}

impl From<Outcome> for NoList {
    fn from(outcome: Outcome) -> Self {
        Self::NoItems(outcome)
    }
}

impl NoList {
    /// Returns the outcome of a check that needs the list for something else.
    fn in_the_way<T>(self) -> Result<T, Outcome> {
        match self {
            Self::NoItems(outcome) => Err(outcome),
            Self::Endless(why) | Self::TooLong(why) => not_reachable(why),
        }
    }
}

impl Probe {
    /// Reads all pages of a list.
    pub(in crate::check) fn list(&mut self, method: &'static str, member: &str) -> Result<Vec<Value>, Outcome> {
        self.read_once(method, member).or_else(NoList::in_the_way)
    }

    /// Reads all pages of a list. Fails if a page is none.
    pub(in crate::check) fn list_with_items(
        &mut self,
        method: &'static str,
        member: &str,
        rules: Rules,
    ) -> Result<Vec<Value>, Outcome> {
        self.read_once(method, member).or_else(|error| match error {
            NoList::NoItems(Outcome::NotReachable(why)) if !self.has_no_credentials => failed(why).breaks(rules),
            other => other.in_the_way(),
        })
    }

    /// Reads all pages of a list. Fails if a cursor leads back to itself.
    pub(in crate::check) fn list_with_end(
        &mut self,
        method: &'static str,
        member: &str,
        rules: Rules,
    ) -> Result<Vec<Value>, Outcome> {
        self.read_once(method, member).or_else(|error| match error {
            NoList::Endless(why) => failed(why).breaks(rules),
            other => other.in_the_way(),
        })
    }

    /// Reads a list, once in an era. A list without an end is not read again, either.
    fn read_once(&mut self, method: &'static str, member: &str) -> Result<Vec<Value>, NoList> {
        if let Some(read) = self.lists.get(&(self.era, method)) {
            self.observed.add_again(&read.entries);
            return read.list.clone();
        }
        let from = self.observed.len();
        let list = self.read_pages(method, member);
        if !matches!(list, Err(NoList::NoItems(_))) {
            let read = ReadList { list: list.clone(), entries: self.observed.since(from) };
            self.lists.insert((self.era, method), read);
        }
        list
    }

    fn read_pages(&mut self, method: &str, member: &str) -> Result<Vec<Value>, NoList> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        // The cursors, and how many items were before each.
        let (mut cursor, mut cursors) = (None::<String>, HashMap::new());
        for _ in 0..MAX_PAGES {
            let params = cursor.take().map_or(Value::Null, |cursor| json!({"cursor": cursor}));
            let mut reply = self.call(method, params)?;
            reply.result()?;
            bytes += reply.message.to_string().len();
            if bytes > MAX_LIST {
                return Err(NoList::TooLong(format!("{method} has more than {MAX_LIST} bytes")));
            }
            let result = &mut reply.message["result"];
            let Value::Array(items) = result[member].take() else {
                return Ok(not_reachable(format!("the result of {method} has no array `{member}`"))?);
            };
            all.extend(items);
            let Some(next) = result["nextCursor"].as_str() else { return Ok(all) };
            if let Some(before) = cursors.insert(next.to_owned(), all.len()) {
                let why = format!("{method} returns a cursor again, so that it has no end");
                return Err(if before < all.len() { NoList::Endless(why) } else { NoList::TooLong(why) });
            }
            cursor = Some(next.to_owned());
        }
        Err(NoList::TooLong(format!("{method} has more than {MAX_PAGES} pages")))
    }
}
