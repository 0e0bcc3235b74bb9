//! The resources that a client has subscribed to, and the subscriptions at other servers that this needs.

use std::{collections::BTreeMap, fmt, sync::Mutex};

use mcp_proto::{rpc::ReplyKey, wire::ErrorObject};

use super::resource::Begun;
use crate::{inbound::rpc_result::RpcResult, util::lock::lock};

/// The resources that the client of a session has subscribed to.
#[derive(Default)]
pub(super) struct ResourceSubscriptions(Mutex<Subscribed>);

#[derive(Default)]
struct Subscribed {
    /// The URIs, with the subscriptions at other servers.
    uris: BTreeMap<String, Begun>,
    /// The length of all URIs.
    bytes: usize,
    /// Whether the connection has ended.
    is_closed: bool,
}

/// The limits of the subscriptions of one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubscriptionLimits {
    pub(super) number: usize,
    /// The length of all URIs.
    pub(super) bytes: usize,
}

impl ResourceSubscriptions {
    pub(super) fn contains(&self, uri: &str) -> bool {
        lock(&self.0).uris.contains_key(uri)
    }

    /// Adds a resource. `begun` is held until the client unsubscribes or its connection ends.
    pub(super) fn insert(&self, uri: String, begun: Begun, limits: SubscriptionLimits) -> RpcResult<()> {
        let (result, unused) = {
            let Subscribed { uris, bytes, is_closed } = &mut *lock(&self.0);
            let sum = bytes.saturating_add(uri.len());
            if *is_closed {
                (Ok(()), begun)
            } else if let Some(known) = uris.get_mut(&uri) {
                // The resource may belong to another server by now.
                (Ok(()), std::mem::replace(known, begun))
            } else if uris.len() >= limits.number || sum > limits.bytes {
                (Err(ErrorObject::internal("Too many subscriptions")), begun)
            } else {
                *bytes = sum;
                uris.insert(uri, begun);
                (Ok(()), None)
            }
        };
        // It wakes tasks, which must not happen under the lock.
        drop(unused);
        result
    }

    pub(super) fn remove(&self, uri: &str) {
        let removed = {
            let Subscribed { uris, bytes, .. } = &mut *lock(&self.0);
            let removed = uris.remove(uri);
            *bytes -= removed.as_ref().map_or(0, |_| uri.len());
            removed
        };
        drop(removed);
    }

    /// Removes all resources, since the connection has ended.
    pub(super) fn close(&self) {
        let removed = {
            let mut subscribed = lock(&self.0);
            (subscribed.is_closed, subscribed.bytes) = (true, 0);
            std::mem::take(&mut subscribed.uris)
        };
        drop(removed);
    }
}

impl fmt::Debug for ResourceSubscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(lock(&self.0).uris.keys()).finish()
    }
}

/// The values that other servers keep for the subscriptions of a client without a session (2026-07-28), by request.
#[derive(Default)]
pub(super) struct ListenRequests(Mutex<Listening>);

#[derive(Default)]
struct Listening {
    requests: BTreeMap<ReplyKey, Vec<Box<dyn Send>>>,
    /// Whether the connection has ended.
    is_closed: bool,
}

impl ListenRequests {
    /// Holds this until the subscription ends.
    pub(super) fn hold(&self, key: ReplyKey, begun: Vec<Box<dyn Send>>) {
        let unused = {
            let mut listening = lock(&self.0);
            if listening.is_closed || begun.is_empty() { Some(begun) } else { listening.requests.insert(key, begun) }
        };
        drop(unused);
    }

    /// Notes that the subscription has ended, or has never begun.
    pub(super) fn release(&self, key: ReplyKey) {
        let released = lock(&self.0).requests.remove(&key);
        drop(released);
    }

    /// Releases all, since the connection has ended.
    pub(super) fn close(&self) {
        let released = {
            let mut listening = lock(&self.0);
            listening.is_closed = true;
            std::mem::take(&mut listening.requests)
        };
        drop(released);
    }
}

impl fmt::Debug for ListenRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(lock(&self.0).requests.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp_proto::{codec::Frame, connection::Event};

    use super::*;

    #[test]
    fn subscriptions_are_bounded_in_number_and_bytes() {
        let of = |number, bytes| SubscriptionLimits { number, bytes };
        let subscribed = ResourceSubscriptions::default();
        let insert = |uri: &str, limits| subscribed.insert(uri.into(), None, limits);
        let bytes = || lock(&subscribed.0).bytes;
        let full = || Err(ErrorObject::internal("Too many subscriptions"));
        assert_eq!(insert("a:b", of(0, 99)), full());
        assert_eq!(insert("a:b", of(9, 2)), full());
        assert_eq!(insert("a:b", of(1, 3)), Ok(()));
        assert_eq!(insert("a:b", of(1, 3)), Ok(()), "it is there already");
        assert_eq!(insert("a:cd", of(1, 99)), full());
        assert_eq!(insert("a:cd", of(2, 6)), full());
        assert_eq!(insert("a:cd", of(2, 7)), Ok(()));
        assert_eq!((bytes(), subscribed.contains("a:cd"), subscribed.contains("a:c")), (7, true, false));
        assert_eq!(format!("{subscribed:?}"), r#"{"a:b", "a:cd"}"#);
        subscribed.remove("a:none");
        subscribed.remove("a:b");
        assert_eq!((bytes(), subscribed.contains("a:b")), (4, false));
        subscribed.close();
        assert_eq!((bytes(), format!("{subscribed:?}").as_str()), (0, "{}"));
        assert_eq!(insert("a:b", of(0, 0)), Ok(()), "the client is gone");
        assert!(!subscribed.contains("a:b"));
    }

    #[test]
    fn subscriptions_at_other_servers_end_with_their_own() {
        let limits = SubscriptionLimits { number: 2, bytes: 99 };
        let held = Arc::new(());
        let begun = || -> Begun { Some(Box::new(held.clone())) };
        let subscribed = ResourceSubscriptions::default();
        subscribed.insert("a:b".into(), begun(), limits).expect("there is room");
        subscribed.insert("a:b".into(), begun(), limits).expect("it is there");
        subscribed.insert("a:c".into(), begun(), limits).expect("there is room");
        assert_eq!(Arc::strong_count(&held), 3);
        subscribed.remove("a:b");
        assert_eq!(Arc::strong_count(&held), 2);
        subscribed.close();
        assert_eq!(Arc::strong_count(&held), 1);
        subscribed.insert("a:b".into(), begun(), limits).expect("it is ignored");
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn values_of_subscriptions_are_held_until_they_end() {
        let held = Arc::new(());
        let begun = || -> Vec<Box<dyn Send>> { vec![Box::new(held.clone())] };
        let service = crate::Service::builder("test", "1").enable_tools().build().expect("a good service");
        let pair = crate::tests::pair::Pair::simple(&service);
        let key = |id: u8| {
            let line = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/list"}}"#);
            pair.server.with_conn(|conn| match conn.handle_frame(pair.server.now(), Frame::new(line.as_bytes())) {
                Some(Event::Request { key, .. }) => key,
                other => panic!("a request: {other:?}"),
            })
        };
        let requests = ListenRequests::default();
        let [first, second] = [1, 2].map(key);
        requests.hold(first, begun());
        requests.hold(second, Vec::new());
        assert_eq!((lock(&requests.0).requests.len(), Arc::strong_count(&held)), (1, 2));
        requests.hold(second, begun());
        requests.release(first);
        assert_eq!(Arc::strong_count(&held), 2);
        requests.close();
        requests.hold(first, begun());
        assert_eq!((lock(&requests.0).requests.len(), Arc::strong_count(&held)), (0, 1));
    }
}
