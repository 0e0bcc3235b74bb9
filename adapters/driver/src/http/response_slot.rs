//! The place where a session leaves a response for the task that writes it.

use std::{
    mem,
    sync::Mutex,
    task::{Poll, Waker},
};

use mcp_proto::http::HttpResponse;

use crate::sync::lock;

/// The place where a session leaves the response of an exchange, and the waker of the task that writes it. A task that
/// finds a whole response here, or nothing, does not take the lock of the session, which other exchanges share.
///
/// Its lock may be taken while that of the session is held, and not the other way round.
#[derive(Debug)]
pub(super) struct ResponseSlot(Mutex<Content>);

#[derive(Debug)]
enum Content {
    /// The session has no output for the exchange, and wakes this task when there is some.
    Nothing(Waker),
    /// The session may have output.
    InSession,
    /// The whole response, which the session has forgotten.
    Whole(Box<HttpResponse>),
    /// The whole response was taken.
    Taken,
}

/// The outcome of a poll of a slot.
#[derive(Debug)]
pub(super) enum Found {
    Whole(Box<HttpResponse>),
    /// The session has to be polled, under its lock.
    InSession,
}

impl ResponseSlot {
    /// Creates the slot of an exchange that was not polled yet.
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Content::InSession))
    }

    /// Returns what there is, or keeps the waker of the task.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Found> {
        let mut content = lock(&self.0);
        match &mut *content {
            Content::Nothing(known) if known.will_wake(waker) => Poll::Pending,
            Content::Nothing(known) => {
                let before = mem::replace(known, waker.clone());
                drop(content);
                // It may own the last reference to a task.
                drop(before);
                Poll::Pending
            }
            Content::InSession | Content::Taken => Poll::Ready(Found::InSession),
            Content::Whole(_) => match mem::replace(&mut *content, Content::Taken) {
                Content::Whole(response) => Poll::Ready(Found::Whole(response)),
                _ => Poll::Ready(Found::InSession),
            },
        }
    }

    /// Keeps the waker of a task after the session had no output for it. Returns the whole response if the session has
    /// left it here before. Call it under the lock of the session.
    pub(super) fn wait(&self, waker: &Waker) -> Option<Box<HttpResponse>> {
        let mut content = lock(&self.0);
        match mem::replace(&mut *content, Content::Taken) {
            Content::Whole(response) => Some(response),
            Content::Taken => None,
            // Only the task that polls the exchange keeps a waker here, and it has found none.
            Content::InSession | Content::Nothing(_) => {
                *content = Content::Nothing(waker.clone());
                None
            }
        }
    }

    /// Records that the session may have output for the exchange. Returns the waker of the task that waits for it. Call
    /// it under the lock of the session, and wake the task outside of it.
    #[must_use = "a task waits"]
    pub(super) fn notify(&self) -> Option<Waker> {
        self.leave(Content::InSession)
    }

    /// Leaves the whole response. Returns the waker of the task that waits for it. Call it under the lock of the
    /// session, and wake the task outside of it.
    #[must_use = "a task waits"]
    pub(super) fn fill(&self, response: HttpResponse) -> Option<Waker> {
        self.leave(Content::Whole(Box::new(response)))
    }

    fn leave(&self, content: Content) -> Option<Waker> {
        match mem::replace(&mut *lock(&self.0), content) {
            Content::Nothing(waker) => Some(waker),
            Content::InSession | Content::Whole(_) | Content::Taken => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
    };

    use super::*;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn response(body: &[u8]) -> HttpResponse {
        HttpResponse::new(body.into())
    }

    #[test]
    fn whole_responses_are_found_once() {
        let (slot, waker) = (ResponseSlot::new(), Waker::noop());
        assert!(matches!(slot.poll(waker), Poll::Ready(Found::InSession)), "the session was not polled yet");
        assert!(slot.wait(waker).is_none() && slot.poll(waker).is_pending());
        assert!(slot.fill(response(b"x")).is_some(), "a task waits");
        let Poll::Ready(Found::Whole(found)) = slot.poll(waker) else { panic!("it is there") };
        assert_eq!(found.body(), b"x");
        assert!(matches!(slot.poll(waker), Poll::Ready(Found::InSession)) && slot.wait(waker).is_none());
    }

    /// The response arrives after the task has found nothing here, and before it polls the session.
    #[test]
    fn a_task_that_is_about_to_wait_finds_the_response() {
        let (slot, waker) = (ResponseSlot::new(), Waker::noop());
        assert!(matches!(slot.poll(waker), Poll::Ready(Found::InSession)));
        assert!(slot.fill(response(b"x")).is_none(), "no task waits");
        assert!(slot.wait(waker).is_some_and(|found| found.body() == b"x"));
    }

    #[test]
    fn the_task_that_polled_last_is_woken() {
        let (slot, woken) = (ResponseSlot::new(), <[Arc<Woken>; 2]>::default());
        let [first, last] = woken.clone().map(Waker::from);
        assert!(slot.wait(&first).is_none() && slot.poll(&last).is_pending());
        slot.notify().expect("a task waits").wake();
        assert_eq!(woken.map(|woken| woken.0.load(Ordering::Relaxed)), [0, 1]);
    }

    #[test]
    fn new_output_wakes_the_task_once() {
        let (slot, waker) = (ResponseSlot::new(), Waker::noop());
        for _ in 0..2 {
            assert!(slot.wait(waker).is_none());
            assert!(slot.notify().is_some() && slot.notify().is_none());
            assert!(matches!(slot.poll(waker), Poll::Ready(Found::InSession)));
        }
    }
}
