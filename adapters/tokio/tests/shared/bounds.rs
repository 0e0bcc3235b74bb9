//! Limits of session stores, for each kind of store: bytes of one session, of one client, and of all.

use std::{io, pin::Pin, sync::Arc, time::Duration};

use mcp_driver::{
    Holder,
    http::{EventStore, Retention, SessionRecord, SessionStore, StoreLimits, StoreUsage},
};
use mcp_tokio::http::{MemoryStore, RedisStore};
use tokio::time::timeout;

use crate::LONG;

const BOUNDS: Retention = Retention { max_messages: 1024, bytes: 1 << 20, time: LONG };

/// A store of either kind.
pub(crate) trait Store: SessionStore + EventStore {
    fn used(&self) -> Pin<Box<dyn Future<Output = StoreUsage> + '_>>;
}

impl Store for MemoryStore {
    fn used(&self) -> Pin<Box<dyn Future<Output = StoreUsage> + '_>> {
        Box::pin(async { self.usage() })
    }
}

impl Store for RedisStore {
    fn used(&self) -> Pin<Box<dyn Future<Output = StoreUsage> + '_>> {
        Box::pin(async { self.usage().await.expect("it answers") })
    }
}

/// Creates a store with limits.
pub(crate) type Make<'a> = &'a mut dyn FnMut(StoreLimits) -> Arc<dyn Store>;

pub(crate) type Test = for<'a> fn(Make<'a>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) const TESTS: [(&str, Test); 12] = [
    ("messages_of_a_session_are_bounded", |make| Box::pin(messages_of_a_session(make))),
    ("messages_of_a_client_are_bounded", |make| Box::pin(messages_of_a_client(make))),
    ("messages_of_all_are_bounded", |make| Box::pin(messages_of_all(make))),
    ("sessions_of_a_client_are_bounded", |make| Box::pin(sessions_of_a_client(make))),
    ("sessions_of_all_are_bounded", |make| Box::pin(sessions_of_all(make))),
    ("fields_of_a_session_are_bounded", |make| Box::pin(fields_of_a_session(make))),
    ("rejected_entries_evict_nothing", |make| Box::pin(rejected_entries_evict_nothing(make))),
    ("messages_do_not_evict_sessions", |make| Box::pin(messages_do_not_evict_sessions(make))),
    ("messages_are_kept_for_their_time", |make| Box::pin(messages_in_time(make))),
    ("missing_messages_are_noticed", |make| Box::pin(missing_messages(make))),
    ("what_is_over_is_not_waited_for", |make| Box::pin(what_is_over(make))),
    ("expired_sessions_and_messages_are_not_counted", |make| Box::pin(expired(make))),
];

fn limits(bytes_each: usize, bytes: usize) -> StoreLimits {
    let mut limits = StoreLimits::default();
    (limits.bytes_each, limits.bytes) = (bytes_each, bytes);
    limits
}

fn principal(id: &str) -> Holder {
    Holder::Principal(id.into())
}

/// Returns a record of this many bytes.
fn fields(bytes: usize) -> SessionRecord {
    SessionRecord::from([("client".to_owned(), "x".repeat(bytes - "client".len()))])
}

async fn begin(store: &Arc<dyn Store>, id: &str, holder: &Holder) {
    store.begin(id, holder, fields(100), LONG).await.expect("there is room");
}

async fn is_there(store: &Arc<dyn Store>, id: &str) -> bool {
    store.find(id, LONG).await.expect("it answers").is_some()
}

/// Keeps a message of this many bytes.
async fn keep(store: &Arc<dyn Store>, id: &str, stream: u64, bytes: usize) -> io::Result<()> {
    store.keep(id, stream, 1, vec![b'x'; bytes], BOUNDS).await
}

/// Returns how many bytes are kept of these streams, all of which have one message.
async fn kept(store: &Arc<dyn Store>, id: &str, streams: std::ops::RangeInclusive<u64>) -> usize {
    let mut bytes = 0;
    for stream in streams {
        let passage = store.follow(id, stream, 0, false).await.expect("nothing is said to be done");
        bytes += passage.messages.iter().map(|(_, message)| message.len()).sum::<usize>();
    }
    bytes
}

async fn messages_of_a_session(make: Make<'_>) {
    let store = make(StoreLimits::default());
    begin(&store, "a", &principal("me")).await;
    for stream in 1..=300 {
        keep(&store, "a", stream, 40_000).await.expect("there is room");
    }
    let bytes = kept(&store, "a", 1..=300).await;
    assert_eq!(bytes, BOUNDS.bytes / 40_000 * 40_000, "of 12,000,000");
    assert_eq!(kept(&store, "a", 275..=300).await, bytes, "the latest are there");
    let used = store.used().await;
    assert!(used.bytes >= bytes && used.bytes < BOUNDS.bytes + 8192, "{used:?}");
    // The latest message is kept however large it is, and then no other one is.
    keep(&store, "a", 301, 3 << 20).await.expect("there is room");
    assert_eq!((kept(&store, "a", 1..=300).await, kept(&store, "a", 301..=301).await), (0, 3 << 20));
    // Messages, and ends of streams, are bounded in number.
    let few = Retention { max_messages: 4, ..BOUNDS };
    for stream in 320..=420 {
        store.keep("a", stream, 1, b"x".to_vec(), few).await.expect("there is room");
        store.done("a", stream, 1, few).await.expect("there is room");
    }
    let mut there = Vec::new();
    for stream in 400..=420 {
        match store.follow("a", stream, 0, false).await {
            Ok(chunk) => there.push((stream, chunk.messages.len())),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::NotFound, "nothing follows on a stream that has ended")
            }
        }
    }
    assert_eq!(there, [(419, 1), (420, 1)]);
    assert!(store.follow("a", 421, 0, false).await.is_ok(), "it has not begun");
    // Ended streams without messages are limited to the last 64. One store keeps the ends of streams with messages in
    // addition.
    let mut ended = Vec::new();
    for stream in 320..=418 {
        if store.follow("a", stream, 0, false).await.is_err() {
            ended.push(stream);
        }
    }
    let first = ended.first().copied().unwrap_or_default();
    assert!(first == 355 || first == 357, "{ended:?}");
    assert_eq!(ended, (first..=418).collect::<Vec<_>>());
    let used = store.used().await;
    assert!(used.bytes < StoreLimits::SESSION + 100 + 4 * (StoreLimits::MESSAGE + 1) + 1, "{used:?}");
}

async fn messages_of_a_client(make: Make<'_>) {
    let store = make(limits(1 << 20, 100 << 20));
    for (id, whose) in [("a", "me"), ("b", "me"), ("c", "you")] {
        begin(&store, id, &principal(whose)).await;
        keep(&store, id, 1, 400_000).await.expect("there is room");
        keep(&store, id, 2, 100_000).await.expect("there is room");
    }
    keep(&store, "b", 3, 100_000).await.expect("there is room");
    // The oldest messages of the same client are removed.
    assert_eq!(kept(&store, "a", 1..=3).await, 0);
    assert_eq!((kept(&store, "b", 1..=3).await, kept(&store, "c", 1..=3).await), (600_000, 500_000));
    assert!(is_there(&store, "a").await, "no session gives way to messages");
    assert!(store.used().await.bytes <= 1_200_000);
}

async fn messages_of_all(make: Make<'_>) {
    let store = make(limits(1 << 20, 2 << 20));
    for (id, whose, bytes) in [("a", "first", 500_000), ("b", "most", 900_000), ("c", "third", 500_000)] {
        begin(&store, id, &principal(whose)).await;
        keep(&store, id, 1, bytes).await.expect("there is room");
    }
    begin(&store, "d", &principal("last")).await;
    keep(&store, "d", 1, 400_000).await.expect("there is room");
    // Messages of the client with the most bytes are removed, not the oldest ones.
    for (id, bytes) in [("a", 500_000), ("b", 0), ("c", 500_000), ("d", 400_000)] {
        assert_eq!((kept(&store, id, 1..=1).await, is_there(&store, id).await), (bytes, true), "{id}");
    }
}

async fn sessions_of_a_client(make: Make<'_>) {
    let store = make(limits(20_000, 1 << 20));
    let (me, you) = (principal("me"), principal("you"));
    begin(&store, "yours", &you).await;
    for id in ["used", "idle"] {
        begin(&store, id, &me).await;
    }
    assert!(is_there(&store, "idle").await && is_there(&store, "used").await);
    for count in 0..100 {
        begin(&store, &format!("fresh-{count}"), &me).await;
    }
    // 17 sessions of 1,124 bytes. Those without a second request are removed first.
    let used = store.used().await;
    assert_eq!((used.sessions, used.bytes), (18, 18 * (StoreLimits::SESSION + 100)));
    for (id, expected) in [("used", true), ("yours", true), ("fresh-84", false), ("fresh-85", true), ("fresh-99", true)]
    {
        assert_eq!(is_there(&store, id).await, expected, "{id}");
    }
    // Then the least recently used ones.
    for count in 86..99 {
        assert!(is_there(&store, &format!("fresh-{count}")).await, "{count}");
    }
    assert!(is_there(&store, "used").await);
    begin(&store, "new", &me).await;
    assert_eq!((is_there(&store, "idle").await, is_there(&store, "used").await), (false, true));
    // Messages are removed before any session.
    keep(&store, "used", 1, 200).await.expect("there is room");
    begin(&store, "newer", &me).await;
    assert_eq!(kept(&store, "used", 1..=1).await, 0);
    assert!(is_there(&store, "yours").await);
}

async fn sessions_of_all(make: Make<'_>) {
    let store = make(limits(20_000, 50_000));
    begin(&store, "mine", &principal("me")).await;
    for count in 0..200 {
        begin(&store, &format!("other-{count}"), &Holder::Unknown).await;
    }
    let used = store.used().await;
    assert_eq!(used.sessions, 50_000 / (StoreLimits::SESSION + 100));
    assert!(is_there(&store, "mine").await, "those of the client with most give way");
    assert!(!is_there(&store, "other-0").await && is_there(&store, "other-199").await);
}

async fn fields_of_a_session(make: Make<'_>) {
    let store = make(limits(300_000, 1 << 20));
    let me = principal("me");
    let most = StoreLimits::default().field_bytes;
    store.begin("a", &me, fields(most), LONG).await.expect("there is room");
    let refused = store.begin("b", &me, fields(most + 1), LONG).await.expect_err("it is too large");
    assert_eq!((refused.kind(), store.used().await.sessions), (io::ErrorKind::FileTooLarge, 1));
    // The same applies if it grows.
    let grown = SessionRecord::from([("level".to_owned(), "debug".to_owned())]);
    let refused = store.change("a", grown.clone()).await.expect_err("it is too large");
    assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    store.begin("c", &principal("you"), fields(100), LONG).await.expect("there is room");
    let before = store.used().await.bytes;
    for _ in 0..3 {
        store.change("c", grown.clone()).await.expect("there is room");
    }
    assert_eq!(store.used().await.bytes, before + "leveldebug".len());
}

async fn rejected_entries_evict_nothing(make: Make<'_>) {
    let store = make(limits(100_000, 200_000));
    let me = principal("me");
    begin(&store, "a", &me).await;
    keep(&store, "a", 1, 50_000).await.expect("there is room");
    begin(&store, "b", &me).await;
    let refused = store.begin("c", &me, fields(100_000), LONG).await.expect_err("more than one client may have");
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    let refused = store.begin("d", &Holder::Unknown, fields(200_000), LONG).await.expect_err("more than all may have");
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    let refused = keep(&store, "b", 1, 100_000).await.expect_err("more than one client may have");
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    assert_eq!((kept(&store, "a", 1..=1).await, store.used().await.sessions), (50_000, 2));
}

async fn messages_do_not_evict_sessions(make: Make<'_>) {
    let store = make(limits(20_000, 20_000));
    for count in 0..10 {
        begin(&store, &format!("other-{count}"), &principal("most")).await;
    }
    begin(&store, "mine", &principal("me")).await;
    // There is room for 7,000 bytes more, and another client has more than this one.
    for stream in 1..=40 {
        keep(&store, "mine", stream, 1000).await.expect("its own messages give way");
    }
    assert_eq!(store.used().await.sessions, 11);
    assert!(kept(&store, "mine", 40..=40).await > 0, "the last one is there");
    assert!(store.used().await.bytes <= 20_000);
    // A client without messages of its own cannot keep another one.
    store.end("mine").await.expect("it answers");
    begin(&store, "late", &principal("late")).await;
    for count in 0.. {
        if store.used().await.bytes + StoreLimits::SESSION + 100 > 20_000 {
            break;
        }
        begin(&store, &format!("more-{count}"), &principal("most")).await;
    }
    let sessions = store.used().await.sessions;
    let refused = keep(&store, "late", 1, StoreLimits::SESSION + 100).await.expect_err("there is no room");
    assert_eq!((refused.kind(), store.used().await.sessions), (io::ErrorKind::QuotaExceeded, sessions));
}

async fn messages_in_time(make: Make<'_>) {
    let store = make(StoreLimits::default());
    begin(&store, "a", &principal("me")).await;
    let brief = Retention { time: Duration::from_millis(1), ..BOUNDS };
    store.keep("a", 1, 1, b"x".to_vec(), brief).await.expect("there is room");
    keep(&store, "a", 2, 1).await.expect("there is room");
    // No other message is kept in the time.
    let forgotten = async {
        while kept(&store, "a", 1..=1).await > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, forgotten).await.expect("it is forgotten without anything else that is kept");
    assert_eq!(kept(&store, "a", 2..=2).await, 1);
}

async fn missing_messages(make: Make<'_>) {
    let store = make(StoreLimits::default());
    begin(&store, "a", &principal("me")).await;
    let three = Retention { max_messages: 3, ..BOUNDS };
    for seq in 1..=4 {
        store.keep("a", 1, seq, vec![b'x'], three).await.expect("there is room");
    }
    let passage = store.follow("a", 1, 0, false).await.expect("some are there");
    assert_eq!(passage.messages.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [2, 3, 4]);
    store.done("a", 1, 4, three).await.expect("there is room");
    let end = store.follow("a", 1, 4, false).await.expect("nothing is missing");
    assert_eq!((end.messages.len(), end.done), (0, true));
    // A message that was never kept.
    store.keep("a", 2, 1, vec![b'x'], three).await.expect("there is room");
    store.done("a", 2, 2, three).await.expect("there is room");
    assert_eq!(store.follow("a", 2, 0, false).await.map(|it| it.messages.len()).ok(), Some(1));
    let missing = store.follow("a", 2, 1, true).await.expect_err("the last one is missing");
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

/// A follower that waits on a lost stream would retry for ever.
async fn what_is_over(make: Make<'_>) {
    let store = make(StoreLimits::default());
    begin(&store, "a", &principal("me")).await;
    keep(&store, "a", 1, 1).await.expect("there is room");
    let brief = Retention { max_messages: 1, ..BOUNDS };
    for stream in [1, 2] {
        store.done("a", stream, 1, brief).await.expect("there is room");
    }
    assert!(store.follow("a", 1, 0, false).await.is_err(), "it has ended");
    store.end("a").await.expect("it answers");
    for wait in [false, true] {
        for (id, stream) in [("a", 1), ("a", 2), ("b", 1)] {
            let lost = store.follow(id, stream, 0, wait).await.expect_err("there is no such session");
            assert_eq!(lost.kind(), io::ErrorKind::NotFound);
        }
    }
    // A session with the same id does not inherit any of it.
    begin(&store, "a", &principal("me")).await;
    for stream in [1, 2] {
        assert!(store.follow("a", stream, 0, false).await.is_ok(), "it has not begun");
    }
}

async fn expired(make: Make<'_>) {
    let store = make(StoreLimits::default());
    let short = Duration::from_millis(1);
    for id in ["a", "b", "c"] {
        store.begin(id, &principal("me"), fields(1000), short).await.expect("there is room");
        keep(&store, id, 1, 1000).await.expect("there is room");
    }
    // No request uses the expired sessions: the next one that begins removes them.
    begin(&store, "d", &principal("me")).await;
    while store.used().await.sessions > 1 {
        begin(&store, "d", &principal("me")).await;
    }
    assert_eq!(store.used().await.bytes, StoreLimits::SESSION + 100);
    let brief = Retention { time: short, ..BOUNDS };
    for stream in 1..=9 {
        store.keep("d", stream, 1, vec![b'x'; 1000], brief).await.expect("there is room");
    }
    // Expired messages of an active session are removed when the next one is kept.
    let mut stream = 10;
    while store.used().await.bytes > StoreLimits::SESSION + 100 + 2 * StoreLimits::MESSAGE + 2 {
        stream += 1;
        store.keep("d", stream, 1, vec![b'x'], brief).await.expect("there is room");
    }
    store.end("d").await.expect("it answers");
    assert_eq!(store.used().await, StoreUsage::default());
}
