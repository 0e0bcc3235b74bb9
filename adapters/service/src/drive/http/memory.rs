//! Sessions that several endpoints of one process share.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_proto::http::server::Passage;

use super::store::{Bounds, Events, Fields, Sessions};
use crate::{Later, drive::Watch};

/// Sessions in the memory of this process: for endpoints that share them within it, and for tests of what is shared. It is
/// cheap to clone, and all clones are one.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Watch<BTreeMap<String, Entry>>>);

struct Entry {
    fields: Fields,
    until: Instant,
    parts: u32,
    streams: BTreeMap<u64, Kept>,
}

struct Kept {
    messages: Vec<(u64, Vec<u8>)>,
    done: bool,
    until: Instant,
}

impl MemoryStore {
    /// How many sessions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let now = Instant::now();
        self.0.look(|all| all.values().filter(|entry| entry.until > now).count())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does something with a session that is there.
    fn with<T>(&self, id: &str, f: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let now = Instant::now();
        self.0.change(|all| all.get_mut(id).filter(|entry| entry.until > now).map(f))
    }

    fn stream(&self, id: &str, stream: u64, within: Bounds, f: impl FnOnce(&mut Kept)) -> Later<io::Result<()>> {
        let now = Instant::now();
        self.with(id, |entry| {
            entry.streams.retain(|_, kept| kept.until > now);
            let until = now + within.time;
            let kept = entry.streams.entry(stream);
            let kept = kept.or_insert_with(|| Kept { messages: Vec::new(), done: false, until });
            kept.until = until;
            f(kept);
        });
        Later::ready(Ok(()))
    }
}

impl Sessions for MemoryStore {
    fn begin(&self, id: &str, fields: Fields, life: Duration) -> Later<io::Result<()>> {
        let now = Instant::now();
        self.0.change(|all| {
            all.retain(|_, entry| entry.until > now);
            let entry = Entry { fields, until: now + life, parts: 0, streams: BTreeMap::new() };
            all.insert(id.to_owned(), entry);
        });
        Later::ready(Ok(()))
    }

    fn find(&self, id: &str, life: Duration) -> Later<io::Result<Option<Fields>>> {
        let found = self.with(id, |entry| {
            entry.until = Instant::now() + life;
            entry.fields.clone()
        });
        Later::ready(Ok(found))
    }

    fn change(&self, id: &str, fields: Fields) -> Later<io::Result<()>> {
        self.with(id, |entry| entry.fields.extend(fields));
        Later::ready(Ok(()))
    }

    fn enter(&self, id: &str) -> Later<io::Result<u32>> {
        let part = self.with(id, |entry| {
            entry.parts += 1;
            entry.parts
        });
        Later::ready(part.ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn end(&self, id: &str) -> Later<io::Result<()>> {
        let ended = self.0.change(|all| all.remove(id));
        drop(ended);
        Later::ready(Ok(()))
    }
}

impl Events for MemoryStore {
    fn keep(&self, id: &str, stream: u64, seq: u64, message: Vec<u8>, within: Bounds) -> Later<io::Result<()>> {
        self.stream(id, stream, within, |kept| {
            kept.messages.push((seq, message));
            let over = kept.messages.len().saturating_sub(within.most.max(1));
            kept.messages.drain(..over);
        })
    }

    fn done(&self, id: &str, stream: u64, within: Bounds) -> Later<io::Result<()>> {
        self.stream(id, stream, within, |kept| kept.done = true)
    }

    fn follow(&self, id: &str, stream: u64, after: u64, wait: bool) -> Later<io::Result<Passage>> {
        let (all, id) = (self.0.clone(), id.to_owned());
        Later::new(async move {
            let found = all.until(|all| {
                let kept = all.get(&id).and_then(|entry| entry.streams.get(&stream));
                let passage = kept.map_or_else(Passage::default, |kept| Passage {
                    messages: kept.messages.iter().filter(|(seq, _)| *seq > after).cloned().collect(),
                    done: kept.done,
                });
                let is_something = passage.done || !passage.messages.is_empty() || !wait || !all.contains_key(&id);
                is_something.then_some(passage)
            });
            Ok(found.await)
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("sessions", &self.len()).finish()
    }
}
