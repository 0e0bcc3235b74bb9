//! A transport of whole messages for runtimes: a thread receives the messages, and some sends are pending at first.

use std::{
    io::{self, ErrorKind},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender},
    },
    task::{Context, Poll, Waker},
    thread,
};

use mcp_driver::MessageTransport;

/// A transport of whole messages.
pub(crate) struct Post {
    incoming: Arc<Mutex<Incoming>>,
    /// `None` after the end.
    outgoing: Option<Sender<Vec<u8>>>,
    reluctant: bool,
}

#[derive(Default)]
struct Incoming {
    messages: std::collections::VecDeque<Vec<u8>>,
    ended: bool,
    waker: Option<Waker>,
}

impl Post {
    pub(crate) fn new(incoming: Receiver<Vec<u8>>, outgoing: Sender<Vec<u8>>) -> Self {
        let shared = Arc::new(Mutex::<Incoming>::default());
        let filled = shared.clone();
        let fill = move |message: Option<Vec<u8>>| {
            let mut incoming = filled.lock().expect("no panics");
            incoming.ended = message.is_none();
            incoming.messages.extend(message);
            if let Some(waker) = incoming.waker.take() {
                waker.wake();
            }
        };
        thread::spawn(move || {
            incoming.iter().for_each(|message| fill(Some(message)));
            fill(None);
        });
        Self { incoming: shared, outgoing: Some(outgoing), reluctant: false }
    }
}

impl MessageTransport for Post {
    fn poll_receive(&mut self, cx: &mut Context<'_>, message: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        assert!(message.is_empty());
        let mut incoming = self.incoming.lock().expect("no panics");
        if let Some(received) = incoming.messages.pop_front() {
            message.extend(received);
            Poll::Ready(Ok(true))
        } else if incoming.ended {
            Poll::Ready(Ok(false))
        } else {
            incoming.waker = Some(cx.waker().clone());
            Poll::Pending
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        self.reluctant = !self.reluctant;
        if self.reluctant {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let outgoing = self.outgoing.as_ref().expect("it is open");
        Poll::Ready(outgoing.send(super::rewritten(message)).map_err(|_| ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing = None;
        Poll::Ready(Ok(()))
    }
}
