//! Lists that come page by page.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration, vec};

use mcp_proto::{connection::ClientEnd, rpc::Timestamp};

use crate::{CallError, Link, Peer};

/// How far a list is followed. A server decides how long its lists are, so somebody has to say when it is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageLimits {
    /// Pages. Default 1,000.
    pub pages: usize,
    /// Items. Default 100,000.
    pub items: usize,
    /// Time for all pages together. Default 5 minutes.
    pub time: Duration,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { pages: 1000, items: 100_000, time: Duration::from_secs(300) }
    }
}

/// The items of a page, and where the next one starts.
type Page<T> = Result<(Vec<T>, Option<String>), CallError>;
type Fetch<T> = Box<dyn FnMut(Option<&str>) -> Page<T> + Send>;

/// Everything in a list of the server, page by page as far as it is looked at. Blocks for each page.
///
/// A list ends without a cursor, up to 2025-11-25 also with an empty one. One that comes back to a cursor it has had, or that is longer than
/// the [limits](Self::limits), ends with [`CallError::Invalid`]. After an error there is nothing more.
pub struct Pages<T> {
    link: Arc<dyn Link<ClientEnd>>,
    fetch: Fetch<T>,
    limits: PageLimits,
    items: vec::IntoIter<T>,
    /// Where to go on.
    next: Next,
    seen: HashSet<String>,
    pages: usize,
    count: usize,
    until: Timestamp,
}

enum Next {
    First,
    Cursor(String),
    End,
}

impl<T> Pages<T> {
    pub(super) fn new(peer: &Peer<ClientEnd>, fetch: impl FnMut(Option<&str>) -> Page<T> + Send + 'static) -> Self {
        let this = Self {
            link: peer.link().clone(),
            fetch: Box::new(fetch),
            limits: PageLimits::default(),
            items: Vec::new().into_iter(),
            next: Next::First,
            seen: HashSet::new(),
            pages: 0,
            count: 0,
            until: Timestamp::ZERO,
        };
        this.limits(PageLimits::default())
    }

    /// Other limits than the default ones. The time counts from now on.
    #[must_use]
    pub fn limits(mut self, limits: PageLimits) -> Self {
        self.until = self.link.run(|_, now| now) + limits.time;
        self.limits = limits;
        self
    }

    fn turn_page(&mut self) -> Result<(), CallError> {
        let invalid = |why: &str| Err(CallError::Invalid(why.into()));
        if self.pages >= self.limits.pages {
            return invalid("the list has too many pages");
        }
        if self.link.run(|_, now| now) >= self.until {
            return invalid("the list takes too long");
        }
        let cursor = match &self.next {
            Next::Cursor(cursor) => Some(cursor.as_str()),
            Next::First | Next::End => None,
        };
        let (items, next) = (self.fetch)(cursor)?;
        self.pages += 1;
        self.count += items.len();
        if self.count > self.limits.items {
            return invalid("the list has too many items");
        }
        let version = self.link.run(|conn, _| conn.version());
        let leads_on =
            |cursor: &str| !cursor.is_empty() || version.is_some_and(|version| !version.takes_empty_cursor_for_none());
        self.next = match next.filter(|cursor| leads_on(cursor)) {
            None => Next::End,
            Some(cursor) if self.seen.insert(cursor.clone()) => Next::Cursor(cursor),
            Some(_) => return invalid("the list comes back to where it was"),
        };
        self.items = items.into_iter();
        Ok(())
    }
}

impl<T> Iterator for Pages<T> {
    type Item = Result<T, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(Ok(item));
            }
            if matches!(self.next, Next::End) {
                return None;
            }
            if let Err(error) = self.turn_page() {
                self.next = Next::End;
                return Some(Err(error));
            }
        }
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("pages", &self.pages).field("items", &self.count).finish_non_exhaustive()
    }
}
