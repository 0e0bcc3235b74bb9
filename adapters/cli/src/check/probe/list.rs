//! Lists of a server, which have pages.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use serde_json::{Value, json};

use super::{Entry, Mode, Probe};
use crate::check::outcome::{Breaks, Outcome, Rules, Verdict, ensure, failed, not_reachable};

/// The most pages of a list that are read.
const MAX_PAGES: usize = 1000;

/// The most bytes of a list.
const MAX_LIST: usize = 32 << 20;

/// The reason why there is no list.
#[derive(Clone, Debug)]
enum NoList {
    /// There is no connection.
    NoConnection(Outcome),
    /// A request for a page has no result with items.
    NoItems(Outcome),
    /// A cursor leads back to itself, although there are items between.
    Endless(String),
    /// The list has no end that can be read.
    TooLong(String),
}

/// A list that was read, or why there is none.
#[derive(Clone, Debug)]
pub(super) struct ReadList {
    items: Result<Vec<Value>, NoList>,
    /// A cursor that is not a string. Such a page counts as the last one.
    wrong_cursor: Option<Value>,
    /// The bytes that brought the list.
    entries: Vec<Entry>,
}

impl From<Outcome> for NoList {
    fn from(outcome: Outcome) -> Self {
        Self::NoItems(outcome)
    }
}

impl NoList {
    /// Returns the outcome of a check that is not about what is wrong with the list.
    fn of_other_check<T>(self) -> Result<T, Outcome> {
        match self {
            Self::NoConnection(Outcome::Failed { why, .. } | Outcome::NoResponse(why))
            | Self::NoItems(Outcome::Failed { why, .. } | Outcome::NoResponse(why)) => not_reachable(why),
            Self::NoConnection(outcome) | Self::NoItems(outcome) => Err(outcome),
            Self::Endless(why) | Self::TooLong(why) => not_reachable(why),
        }
    }
}

impl Probe {
    /// Reads all pages of a list.
    pub(in crate::check) fn list(&mut self, method: &'static str, member: &str) -> Result<Vec<Value>, Outcome> {
        self.read_once(method, member).items.or_else(NoList::of_other_check)
    }

    /// Reads all pages of a list. Fails if a page has no array of items.
    pub(in crate::check) fn list_with_items(
        &mut self,
        method: &'static str,
        member: &str,
        rules: Rules,
    ) -> Result<Vec<Value>, Outcome> {
        match self.read_once(method, member).items {
            Err(NoList::NoItems(Outcome::NotReachable(why))) if !self.has_no_credentials => failed(why).breaks(rules),
            Err(NoList::NoItems(outcome)) => Err(outcome).breaks(rules),
            other => other.or_else(NoList::of_other_check),
        }
    }

    /// Fails if a cursor of a list is not a string.
    pub(in crate::check) fn list_with_cursors(&mut self, method: &'static str, member: &str, rules: Rules) -> Verdict {
        let read = self.read_once(method, member);
        let wrong = read.wrong_cursor;
        ensure(wrong.is_none(), || format!("`nextCursor` of {method} is {}", wrong.unwrap_or_default()))
            .breaks(rules)?;
        read.items.map(drop).or_else(NoList::of_other_check)
    }

    /// Fails if a cursor of a list leads back to itself.
    pub(in crate::check) fn list_with_end(&mut self, method: &'static str, member: &str, rules: Rules) -> Verdict {
        match self.read_once(method, member).items {
            Err(NoList::Endless(why)) => failed(why).breaks(rules),
            other => other.map(drop).or_else(NoList::of_other_check),
        }
    }

    /// Reads a list, once in an era, unless what is in the way may be gone later. After a missing response the next
    /// list has a new connection.
    fn read_once(&mut self, method: &'static str, member: &str) -> ReadList {
        if let Some(read) = self.lists.get(&(self.era, method)) {
            self.observed.add_again(&read.entries);
            return read.clone();
        }
        let (count, mut wrong_cursor) = (self.observed.count(), None);
        if let Err(outcome) = self.enter() {
            self.mode = Mode::Unknown;
            return ReadList { items: Err(NoList::NoConnection(outcome)), wrong_cursor, entries: Vec::new() };
        }
        let items = self.read_pages(method, member, &mut wrong_cursor);
        if matches!(items, Err(NoList::NoItems(Outcome::Failed { .. } | Outcome::NoResponse(_)))) {
            self.mode = Mode::Unknown;
        }
        let is_lasting = !matches!(items, Err(NoList::NoItems(Outcome::NotReachable(_) | Outcome::NotApplicable(_))));
        let read = ReadList { items, wrong_cursor, entries: self.observed.since(count) };
        if is_lasting {
            self.lists.insert((self.era, method), read.clone());
        }
        read
    }

    fn read_pages(
        &mut self,
        method: &str,
        member: &str,
        wrong_cursor: &mut Option<Value>,
    ) -> Result<Vec<Value>, NoList> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        // The last page of each cursor, and how many items came before it. Another page may follow the same cursor.
        let (mut cursor, mut pages, hasher) = (None::<String>, HashMap::new(), RandomState::new());
        for _ in 0..MAX_PAGES {
            let params = cursor.as_ref().map_or(Value::Null, |cursor| json!({"cursor": cursor}));
            let mut reply = self.call(method, params)?;
            reply.result()?;
            let result = &mut reply.message["result"];
            bytes += result.to_string().len();
            if bytes > MAX_LIST {
                return Err(NoList::TooLong(format!("{method} has more than {MAX_LIST} bytes")));
            }
            let before = all.len();
            let text = result[member].to_string();
            let Value::Array(items) = result[member].take() else {
                return Err(NoList::NoItems(Outcome::NotReachable(format!(
                    "the result of {method} has no array `{member}`"
                ))));
            };
            all.extend(items);
            let next = match result.get_mut("nextCursor").map(Value::take) {
                None => return Ok(all),
                Some(Value::String(next)) => next,
                Some(other) => {
                    *wrong_cursor = Some(other);
                    return Ok(all);
                }
            };
            let page = hasher.hash_one((text, &next));
            if let Some(cursor) = cursor.replace(next)
                && let Some((first, same)) = pages.insert(cursor, (before, page))
                && same == page
            {
                return Err(if first < before {
                    NoList::Endless(format!("{method} returns the same page for a cursor again, so that it has no end"))
                } else {
                    NoList::TooLong(format!("{method} returns an empty page for a cursor again"))
                });
            }
        }
        Err(NoList::TooLong(format!("{method} has more than {MAX_PAGES} pages")))
    }
}
