//! Paged lists.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration, vec};

use mcp_proto::{
    connection::{ClientRole, SendError},
    rpc::Timestamp,
};

use crate::{
    driver_api::{block_on::block_on_driving, connection_handle::ConnectionHandle},
    outbound::{error::CallError, peer::Peer, pending::Pending},
};

/// Limits for reading a list. A server decides how long its lists are, so the client has to limit them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageLimits {
    /// The most pages. Default 1,000.
    pub pages: usize,
    /// The most items. Default 100,000.
    pub items: usize,
    /// The most bytes of JSON, of all pages together. Default 64 MiB.
    pub bytes: usize,
    /// The most time for all pages together. Default 5 minutes.
    pub time: Duration,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { pages: 1000, items: 100_000, bytes: 64 << 20, time: Duration::from_secs(300) }
    }
}

/// The items of a page, and the cursor of the next one.
type Page<T> = (Vec<T>, Option<String>);
/// Requests a page, which comes with the length of its JSON text.
type Fetch<T> = Box<dyn FnMut(Option<&str>) -> Result<Pending<(Page<T>, usize)>, SendError> + Send>;

/// All items of a list of the server. Pages are requested as their items are taken.
///
/// For threads it is an iterator, which blocks for each page. Tasks take one item after the other with
/// [`try_next`](Self::try_next), or all of them with [`try_collect`](Self::try_collect).
///
/// A list ends without a cursor, up to 2025-11-25 also with an empty one. A list that repeats a cursor, or exceeds the
/// [limits](Self::limits), ends with [`CallError::Invalid`]. After an error there are no more items.
pub struct Pages<T> {
    connection: Arc<dyn ConnectionHandle<ClientRole>>,
    fetch: Fetch<T>,
    limits: PageLimits,
    items: vec::IntoIter<T>,
    /// The next page.
    next: Next,
    seen: HashSet<String>,
    pages: usize,
    count: usize,
    bytes: usize,
    until: Timestamp,
}

enum Next {
    First,
    Cursor(String),
    End,
}

impl<T> Pages<T> {
    pub(super) fn new(
        peer: &Peer<ClientRole>,
        mut fetch: impl FnMut(Option<&str>) -> Result<Pending<Page<T>>, SendError> + Send + 'static,
    ) -> Self
    where
        T: 'static,
    {
        let this = Self {
            connection: peer.connection().clone(),
            fetch: Box::new(move |cursor| Ok(fetch(cursor)?.with_len())),
            limits: PageLimits::default(),
            items: Vec::new().into_iter(),
            next: Next::First,
            seen: HashSet::new(),
            pages: 0,
            count: 0,
            bytes: 0,
            until: Timestamp::ZERO,
        };
        this.limits(PageLimits::default())
    }

    /// Sets other limits than the default ones. Their time begins with this call.
    #[must_use]
    pub fn limits(mut self, limits: PageLimits) -> Self {
        self.until = self.connection.update(|_, now| now) + limits.time;
        self.limits = limits;
        self
    }

    /// Returns the next item, or `None` at the end.
    ///
    /// # Cancel safety
    /// Dropping the future loses no items. The page is requested again.
    ///
    /// # Errors
    /// If a page cannot be fetched. There are no more items then.
    pub async fn try_next(&mut self) -> Result<Option<T>, CallError> {
        loop {
            if let Some(item) = self.items.next() {
                return Ok(Some(item));
            }
            if matches!(self.next, Next::End) {
                return Ok(None);
            }
            if let Err(error) = self.turn_page().await {
                self.next = Next::End;
                return Err(error);
            }
        }
    }

    /// Returns all remaining items.
    ///
    /// # Errors
    /// If a page cannot be fetched.
    pub async fn try_collect(mut self) -> Result<Vec<T>, CallError> {
        let mut all = Vec::new();
        while let Some(item) = self.try_next().await? {
            all.push(item);
        }
        Ok(all)
    }

    async fn turn_page(&mut self) -> Result<(), CallError> {
        let invalid = |why: &str| Err(CallError::Invalid(why.into()));
        if self.pages >= self.limits.pages {
            return invalid("the list has too many pages");
        }
        if self.connection.update(|_, now| now) >= self.until {
            return invalid("the list takes too long");
        }
        let cursor = match &self.next {
            Next::Cursor(cursor) => Some(cursor.as_str()),
            Next::First | Next::End => None,
        };
        let ((items, next), len) = (self.fetch)(cursor)?.await?;
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(len);
        if self.bytes > self.limits.bytes {
            return invalid("the list is too large");
        }
        self.count += items.len();
        if self.count > self.limits.items {
            return invalid("the list has too many items");
        }
        let version = self.connection.read(|conn| conn.version());
        let leads_on =
            |cursor: &str| !cursor.is_empty() || version.is_some_and(|version| !version.takes_empty_cursor_for_none());
        self.next = match next.filter(|cursor| leads_on(cursor)) {
            None => Next::End,
            Some(cursor) if self.seen.insert(cursor.clone()) => Next::Cursor(cursor),
            Some(_) => return invalid("a cursor of the list occurs twice"),
        };
        self.items = items.into_iter();
        Ok(())
    }
}

impl<T> Iterator for Pages<T> {
    type Item = Result<T, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        let connection = self.connection.clone();
        block_on_driving(self.try_next(), |thread| connection.drive(thread)).transpose()
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("pages", &self.pages).field("items", &self.count).finish_non_exhaustive()
    }
}
