//! Reading: bytes become lines, frames become events.

use std::{io, mem, sync::Arc};

use mcp_proto::codec::Frame;
use mcp_service::{
    Link,
    drive::{Lines, Sniffer, bounds::CHUNK},
};

use crate::{driver::Driver, threads::lock, transport::Input};

/// What is read from, and what of it was not taken in yet.
pub(crate) struct Reader<E: Send + 'static> {
    driver: Arc<Driver<E>>,
    link: Arc<dyn Link<E>>,
    input: Input,
    lines: Lines,
    sniffer: Sniffer,
    /// What was read where messages are whole.
    message: Vec<u8>,
    /// The answers to what was read are held back.
    holds: bool,
}

impl<E: Send + 'static> Reader<E> {
    pub(crate) fn new(driver: Arc<Driver<E>>, input: Input, sniffer: Sniffer) -> Self {
        let limit = driver.lock().connection.settings().limits.frame_bytes;
        let (link, lines) = (driver.clone(), Lines::new(limit));
        Self { link, driver, input, lines, sniffer, message: Vec::new(), holds: false }
    }

    /// Takes in something to read, which it waits for if it `may_wait`; whether there will be more.
    pub(crate) fn turn(&mut self, may_wait: bool) -> bool {
        self.read(may_wait).unwrap_or_else(|error| {
            if error.kind() == io::ErrorKind::WouldBlock && !may_wait {
                return true;
            }
            self.driver.fail(&error);
            false
        })
    }

    fn read(&mut self, may_wait: bool) -> io::Result<bool> {
        let Self { driver, link, input, lines, sniffer, message, holds } = self;
        if mem::take(holds) {
            let mut state = driver.lock();
            state.held = false;
            driver.settle(state);
        }
        let more = match input {
            Input::Bytes(source) => {
                let room = lines.room();
                let len = if may_wait { source.read(room) } else { source.try_read(room) }?;
                sniffer.check(&room[..len])?;
                lines.came(len)
            }
            Input::Messages(_) if !may_wait => return Ok(true),
            Input::Messages(source) => {
                message.clear();
                message.shrink_to(CHUNK);
                source.receive(message)?
            }
        };
        let turn = &mut *lock(&driver.turn);
        let (now, mut frames) = (driver.now(), 0);
        let mut take_in = |frame: Frame<'_>| {
            frames += 1;
            let mut state = driver.lock();
            state.first_until = None;
            match state.connection.handle_frame(now, frame) {
                // What other threads caused comes first.
                Some(event) if !state.events.is_empty() => state.events.push_back(event.into_owned()),
                Some(event) => {
                    drop(state);
                    return driver.hand_out(link, event, turn);
                }
                None => state.collect(),
            }
            driver.hand_out_waiting(link, state, turn);
        };
        if matches!(input, Input::Messages(_)) && more {
            take_in(Frame::new(message));
        }
        while let Some(frame) = lines.next_frame() {
            take_in(frame);
        }
        if !more {
            let mut state = driver.lock();
            state.connection.handle_eof(now);
            state.collect();
            driver.hand_out_waiting(link, state, turn);
        }
        driver.crew.push(turn, true);
        *holds = more && frames > 1;
        let mut state = driver.lock();
        state.held = *holds;
        driver.settle(state);
        Ok(more)
    }
}

impl<E: Send + 'static> Drop for Reader<E> {
    fn drop(&mut self) {
        self.driver.stage.change(|stage| stage.reader_left = true);
    }
}
