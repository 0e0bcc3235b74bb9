//! A connection over a pipe, on a runtime: one task that reads, writes, keeps the time and hands out what happens.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mcp_proto::{connection::Connection, rpc::Timestamp};

use super::{
    Output, Runtime,
    bounds::LAST_READ,
    desk::{BATCH, Desk, Mover, Post},
    hub::Hub,
    wire::Wire,
};
use crate::{Application, Job, sync::lock};

/// How long the end of the output may take.
const CLOSING: Duration = Duration::from_millis(500);

/// One connection, its transport and its jobs.
pub(super) struct Conversation<E: Send + 'static, R: Runtime> {
    desk: Desk<E, Connection<E>, R>,
    pipe: Pipe,
}

/// A transport, what was taken from the connection for it, and how that goes.
struct Pipe {
    wire: Box<dyn Wire>,
    /// Whether there may be more to read.
    reads: bool,
    /// What comes of that which was read at once.
    jobs: Vec<(Job, usize)>,
    out: Output,
    /// Whether all that was written has left.
    flushed: bool,
    failed: Option<Failed>,
}

/// Nothing can be written any more.
struct Failed {
    /// Taken when the connection is told.
    error: Option<io::Error>,
    /// Until when it is read all the same.
    until: Timestamp,
}

impl<E: Send + 'static, R: Runtime> Conversation<E, R> {
    pub(super) fn new(hub: Arc<Hub<E>>, application: Arc<dyn Application<E>>, wire: Box<dyn Wire>, runtime: R) -> Self {
        let pipe = Pipe { wire, reads: true, jobs: Vec::new(), out: Output::default(), flushed: true, failed: None };
        Self { desk: Desk::new(hub, application, runtime), pipe }
    }

    /// Runs the connection to its end, and its transport to its own: `end` comes when the output has ended, and `linger` is how
    /// long the peer may take to end its own after that.
    pub(super) async fn run(self, end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>, linger: Duration) {
        let Self { mut desk, mut pipe } = self;
        let pipe = &mut pipe;
        desk.until_closed(pipe).await;
        let drain = lock(&desk.post.hub.state).carrier.settings().limits.drain;
        desk.until(pipe, Some(drain), |desk, pipe, _| pipe.has_written(&desk.post.hub)).await;
        desk.until(pipe, Some(CLOSING), |_, pipe, cx| pipe.wire.poll_close(cx).is_ready()).await;
        pipe.wire.hang_up();
        if let Some(mut end) = end {
            desk.until(pipe, None, |_, _, cx| end.as_mut().poll(cx).is_ready()).await;
        }
        desk.until(pipe, Some(linger), |_, pipe, _| !pipe.reads).await;
        pipe.reads = false;
        desk.end_jobs(pipe).await;
    }
}

impl Pipe {
    fn has_written<E: 'static>(&self, hub: &Hub<E>) -> bool {
        let has_left = self.out.is_empty() && self.flushed;
        self.failed.is_some() || has_left && lock(&hub.state).carrier.is_drained()
    }

    /// Tells the connection that nothing can be written, once nothing is read any more either.
    fn tell<E: Send + 'static>(&mut self, hub: &Hub<E>) {
        let reads = self.reads;
        if let Some(failed) = self.failed.as_mut().filter(|failed| !reads || failed.until <= hub.now())
            && let Some(error) = failed.error.take()
        {
            lock(&hub.state).carrier.handle_lost(error.to_string());
        }
    }
}

impl<E: Send + 'static> Mover<E, Connection<E>> for Pipe {
    fn read(&mut self, post: &Post<E, Connection<E>>, now: Timestamp, cx: &mut Context<'_>) -> bool {
        let hub = &post.hub;
        self.tell(hub);
        if !self.reads {
            return false;
        }
        let Poll::Ready(filled) = self.wire.poll_fill(cx) else { return false };
        while let Some(frame) = self.wire.next_frame() {
            let mut state = lock(&hub.state);
            match state.carrier.handle_frame(now, frame) {
                // What others have caused comes first.
                Some(event) if !state.events.is_empty() => state.events.push_back(event.into_owned()),
                Some(event) => {
                    drop(state);
                    if let Some(job) = post.offer(event) {
                        self.jobs.push(job);
                        if self.jobs.len() == BATCH {
                            post.queue(self.jobs.drain(..));
                        }
                    }
                    continue;
                }
                None => state.collect(),
            }
            drop(state);
            post.queue(self.jobs.drain(..));
            post.hand_out_waiting();
        }
        post.queue(self.jobs.drain(..));
        match filled {
            Ok(true) => {}
            Ok(false) => {
                self.reads = false;
                lock(&hub.state).carrier.handle_eof(now);
            }
            Err(error) => {
                self.reads = false;
                lock(&hub.state).carrier.handle_lost(error.to_string());
            }
        }
        true
    }

    fn write(&mut self, post: &Post<E, Connection<E>>, cx: &mut Context<'_>) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let hub = &post.hub;
        let vacancies = {
            let mut state = lock(&hub.state);
            self.out.fill(&mut state.carrier);
            hub.lobby.vacancies(&state.carrier)
        };
        hub.lobby.announce(vacancies);
        let mut moved = false;
        let mut done = Poll::Pending;
        if !self.out.is_empty() {
            done = self.wire.poll_write(cx, self.out.rest()).map(|written| match written? {
                0 => Err(io::ErrorKind::WriteZero.into()),
                written => {
                    self.out.wrote(written);
                    self.flushed = false;
                    Ok(())
                }
            });
            moved = done.is_ready();
        }
        if self.out.is_empty() && !self.flushed {
            done = self.wire.poll_flush(cx).map_ok(|()| self.flushed = true);
            moved |= done.is_ready();
        }
        if let Poll::Ready(Err(error)) = done {
            self.out.clear();
            self.failed = Some(Failed { error: Some(error), until: hub.now() + LAST_READ });
            return true;
        }
        moved
    }

    fn can_write(&self) -> bool {
        self.out.is_empty() && self.failed.is_none()
    }

    fn due(&self) -> Option<Timestamp> {
        self.failed.as_ref().filter(|failed| failed.error.is_some()).map(|failed| failed.until)
    }
}
