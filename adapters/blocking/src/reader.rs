//! Reading: bytes become lines, lines become events.

use std::sync::Arc;

use mcp_proto::codec::LineDecoder;

use crate::{Source, crew::Intake, lock::lock, post::Post};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// What is read from, and what of it is no whole line yet.
pub(crate) struct Reader<E: Send + 'static> {
    post: Arc<Post<E>>,
    source: Box<dyn Source>,
    lines: LineDecoder,
    chunk: Vec<u8>,
}

impl<E: Send + 'static> Reader<E> {
    pub(crate) fn new(post: Arc<Post<E>>, source: Box<dyn Source>) -> Self {
        let limit = post.driver.lock().connection.settings().limits.frame_bytes;
        Self { post, source, lines: LineDecoder::new(limit), chunk: vec![0; CHUNK] }
    }

    /// Hands the lines that are complete to the connection, and what comes of them to the application.
    fn take_in(&mut self, ended: bool) {
        let Self { post, lines, .. } = self;
        let _turn = lock(&post.driver.turn);
        let now = post.driver.now();
        while let Some(frame) = lines.next_frame() {
            let mut state = post.driver.lock();
            match state.connection.handle_frame(now, frame) {
                // What other threads caused comes first.
                Some(event) if !state.events.is_empty() => state.events.push_back(event.into_owned()),
                Some(event) => {
                    drop(state);
                    post.hand_out(event, true);
                    continue;
                }
                None => state.collect(),
            }
            post.hand_out_waiting(state, true);
        }
        let mut state = post.driver.lock();
        if ended {
            state.connection.handle_eof(now);
            state.collect();
            post.hand_out_waiting(state, true);
            state = post.driver.lock();
        }
        post.driver.settle(state);
    }
}

impl<E: Send + 'static> Intake for Reader<E> {
    fn turn(&mut self) -> bool {
        match self.source.read(&mut self.chunk) {
            Ok(0) => {
                self.lines.end();
                self.take_in(true);
                false
            }
            Ok(len) => {
                self.lines.feed(&self.chunk[..len]);
                self.take_in(false);
                true
            }
            Err(error) => {
                self.post.driver.fail(&error);
                false
            }
        }
    }
}

impl<E: Send + 'static> Drop for Reader<E> {
    fn drop(&mut self) {
        self.post.driver.lock().reader_left = true;
        self.post.driver.news.notify_all();
    }
}
