//! The state that the parts of an HTTP connection share.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use crate::{runtime::Timer, sync::lock};

/// The current use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Activity {
    /// It awaits the head of a request, and the time for that was not set yet.
    Idle,
    /// It awaits the head of a request.
    Awaiting,
    /// A request is read or answered.
    Request,
    /// The end of a response is being written.
    Writing,
    /// It is being closed.
    Closing,
}

/// The state of a connection that hyper serves. Only the task of the connection uses it, but the service and the bodies
/// of hyper must be safe to share.
#[derive(Debug)]
pub(super) struct ConnectionState<T> {
    activity: AtomicU8,
    /// Whether the body of the last request was not read to its end.
    is_unread: AtomicBool,
    /// A connection waits for one deadline at a time, so one timer of the runtime serves all of them. Few deadlines
    /// expire, and setting a running timer to a later one costs nothing.
    timer: Mutex<T>,
}

impl<T> ConnectionState<T> {
    pub(super) const fn new(timer: T) -> Self {
        Self {
            activity: AtomicU8::new(Activity::Idle as u8),
            is_unread: AtomicBool::new(false),
            timer: Mutex::new(timer),
        }
    }

    pub(super) fn set(&self, activity: Activity) {
        self.activity.store(activity as u8, Ordering::Relaxed);
    }

    fn is(&self, activity: Activity) -> bool {
        self.activity.load(Ordering::Relaxed) == activity as u8
    }

    /// Notes that hyper has the whole response.
    pub(super) fn end_request(&self) {
        if self.is(Activity::Request) {
            self.set(Activity::Writing);
        }
    }

    /// Notes that everything is written. A client may read a response for longer than a head may take.
    pub(super) fn end_write(&self) {
        if self.is(Activity::Writing) {
            self.set(Activity::Idle);
        }
    }

    /// Returns whether the head of a request is awaited.
    pub(super) fn awaits_head(&self) -> bool {
        self.is(Activity::Idle) || self.is(Activity::Awaiting)
    }

    /// Returns `true` once for each head that is awaited: its time begins.
    pub(super) fn begins_to_await(&self) -> bool {
        let begins = self.is(Activity::Idle);
        if begins {
            self.set(Activity::Awaiting);
        }
        begins
    }

    pub(super) fn set_unread(&self, is_unread: bool) {
        self.is_unread.store(is_unread, Ordering::Relaxed);
    }

    pub(super) fn is_unread(&self) -> bool {
        self.is_unread.load(Ordering::Relaxed)
    }
}

impl<T: Timer> ConnectionState<T> {
    pub(super) fn poll_until(&self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        lock(&self.timer).poll_until(at, cx)
    }
}
