//! The channels of Redis that this process follows.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use mcp_driver::Watched;
use redis::{PushInfo, PushKind, Value};

/// The channels that this process follows, by their names.
///
/// Each channel has its own followers. An announcement wakes those of its channel only, however many channels there
/// are.
#[derive(Default)]
pub(super) struct Channels(Mutex<BTreeMap<String, Channel>>);

#[derive(Default)]
struct Channel {
    followers: usize,
    notifications: Notifications,
}

/// The number of announcements on a channel.
pub(super) type Notifications = Arc<Watched<u64>>;

impl Channels {
    /// Adds a follower of a channel.
    pub(super) fn follow(&self, name: &str) -> Notifications {
        self.with(|channels| {
            let channel = channels.entry(name.to_owned()).or_default();
            channel.followers += 1;
            channel.notifications.clone()
        })
    }

    /// Removes a follower of a channel. Returns whether it was the last one.
    pub(super) fn leave(&self, name: &str) -> bool {
        self.with(|channels| {
            let Some(channel) = channels.get_mut(name) else { return false };
            channel.followers -= 1;
            let is_last = channel.followers == 0;
            if is_last {
                channels.remove(name);
            }
            is_last
        })
    }

    /// Returns whether a channel has followers.
    pub(super) fn is_followed(&self, name: &str) -> bool {
        self.with(|channels| channels.contains_key(name))
    }

    /// Counts an announcement of Redis.
    pub(super) fn handle_push(&self, push: &PushInfo) {
        match (&push.kind, push.data.first()) {
            // Something may have been missed before a subscription has begun.
            (PushKind::Message | PushKind::Subscribe, Some(Value::BulkString(name))) => {
                let Ok(name) = std::str::from_utf8(name) else { return };
                let channel = self.with(|channels| channels.get(name).map(|channel| channel.notifications.clone()));
                channel.iter().for_each(count);
            }
            // The subscriptions are made again, and something may have been missed.
            (PushKind::Disconnection, _) => {
                let all: Vec<_> = self.with(|channels| channels.values().map(|it| it.notifications.clone()).collect());
                all.iter().for_each(count);
            }
            _ => {}
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<String, Channel>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts an announcement, and wakes the followers.
fn count(notifications: &Notifications) {
    notifications.update(|notifications| *notifications += 1);
}

/// Waits until there were more announcements on a channel than `seen`.
pub(super) async fn wait_for_more_than(notifications: &Watched<u64>, seen: u64) {
    notifications.wait_for(|notifications| (*notifications > seen).then_some(())).await;
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::Pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Wake, Waker},
    };

    use super::*;

    /// Counts the wake-ups of followers.
    #[derive(Default)]
    struct WakeUps(AtomicUsize);

    impl Wake for WakeUps {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn push(kind: PushKind, name: &str) -> PushInfo {
        PushInfo { kind, data: vec![Value::BulkString(name.into()), Value::BulkString(Vec::new())] }
    }

    /// A follower that waits for the next announcement, with the waker of its task.
    struct Waiting {
        name: String,
        future: Pin<Box<dyn Future<Output = ()>>>,
        wake_ups: Arc<WakeUps>,
    }

    impl Waiting {
        fn new(channels: &Channels, name: String) -> Self {
            let notifications = channels.follow(&name);
            let seen = notifications.read(|seen| *seen);
            let future = Box::pin(async move { wait_for_more_than(&notifications, seen).await });
            let mut waiting = Self { name, future, wake_ups: Arc::default() };
            assert!(!waiting.is_done());
            waiting
        }

        fn is_done(&mut self) -> bool {
            let waker = Waker::from(self.wake_ups.clone());
            self.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        }

        fn wake_ups(&self) -> usize {
            self.wake_ups.0.load(Ordering::Relaxed)
        }
    }

    /// Returns how often followers are woken while each of them begins, gets a message, ends, and begins again, as it
    /// does every few seconds.
    fn wake_ups_of(followers: usize) -> usize {
        let channels = Channels::default();
        let start = |number: usize| Waiting::new(&channels, format!("stream {number}"));
        let mut waiting: Vec<_> = (0..followers).map(start).collect();
        let mut ended = 0;
        for (number, follower) in waiting.iter_mut().enumerate() {
            channels.handle_push(&push(PushKind::Subscribe, &follower.name));
            assert!(follower.is_done());
            ended += follower.wake_ups();
            assert!(channels.leave(&follower.name));
            *follower = start(number);
            channels.handle_push(&push(PushKind::Message, "a stream that is not followed"));
        }
        ended + waiting.iter().map(Waiting::wake_ups).sum::<usize>()
    }

    #[test]
    fn followers_of_other_channels_are_not_woken() {
        assert_eq!((wake_ups_of(50), wake_ups_of(100)), (50, 100));
    }

    #[test]
    fn all_followers_of_a_channel_are_woken() {
        let channels = Channels::default();
        let mut both = [(); 2].map(|()| Waiting::new(&channels, "a".to_owned()));
        channels.handle_push(&push(PushKind::Message, "b"));
        assert!(!both[0].is_done() && !both[1].is_done());
        channels.handle_push(&push(PushKind::Message, "a"));
        assert!(both[0].is_done() && both[1].is_done());
        assert!(!channels.leave("a") && channels.is_followed("a"));
        assert!(channels.leave("a") && !channels.is_followed("a"));
    }

    #[test]
    fn a_lost_connection_wakes_all_followers() {
        let channels = Channels::default();
        let mut both = ["a", "b"].map(|name| Waiting::new(&channels, name.to_owned()));
        channels.handle_push(&PushInfo { kind: PushKind::Disconnection, data: Vec::new() });
        assert!(both[0].is_done() && both[1].is_done());
    }
}
