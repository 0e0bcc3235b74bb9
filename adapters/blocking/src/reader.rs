//! Reading: bytes become lines, frames become events.

use std::{io, sync::Arc};

use mcp_proto::{codec::Frame, rpc::Timestamp};
use mcp_service::{
    Link,
    drive::{Lines, bounds::CHUNK},
};

use crate::{driver::Driver, threads::lock, transport::Input};

/// What is read from, and what of it was not taken in yet.
pub(crate) struct Reader<E: Send + 'static> {
    driver: Arc<Driver<E>>,
    link: Arc<dyn Link<E>>,
    input: Input,
    lines: Lines,
    /// What was read where messages are whole.
    message: Vec<u8>,
}

impl<E: Send + 'static> Reader<E> {
    pub(crate) fn new(driver: Arc<Driver<E>>, input: Input) -> Self {
        let limit = driver.lock().connection.settings().limits.frame_bytes;
        Self { link: driver.clone(), driver, input, lines: Lines::new(limit), message: Vec::new() }
    }

    /// Waits for something to read, and takes it in; whether there will be more. After the `first` time there is one who
    /// could take over.
    pub(crate) fn turn(&mut self, first: bool) -> bool {
        let read = self.read().and_then(|more| {
            if first { self.driver.crew.relieve() } else { Ok(()) }?;
            Ok(more)
        });
        read.unwrap_or_else(|error| {
            self.driver.fail(&error);
            false
        })
    }

    fn read(&mut self) -> io::Result<bool> {
        let Self { driver, link, input, lines, message } = self;
        driver.release();
        let more = match input {
            Input::Bytes(source) => {
                let len = source.read(lines.room())?;
                lines.came(len)
            }
            Input::Messages(source) => {
                message.clear();
                message.shrink_to(CHUNK);
                source.receive(message)?
            }
        };
        let _turn = lock(&driver.turn);
        let now = driver.now();
        if matches!(input, Input::Messages(_)) && more {
            take_in(driver, link, now, Frame::new(message));
        }
        let mut frames = 0;
        while let Some(frame) = lines.next_frame() {
            take_in(driver, link, now, frame);
            frames += 1;
        }
        let mut state = driver.lock();
        state.held = more && frames > 1;
        if !more {
            state.connection.handle_eof(now);
            state.collect();
            driver.hand_out_waiting(link, state, true);
            state = driver.lock();
        }
        driver.settle(state);
        Ok(more)
    }
}

/// Hands a frame to the connection, and what comes of it to the application. The caller has the turn.
fn take_in<E: 'static>(driver: &Driver<E>, link: &Arc<dyn Link<E>>, now: Timestamp, frame: Frame<'_>) {
    let mut state = driver.lock();
    match state.connection.handle_frame(now, frame) {
        // What other threads caused comes first.
        Some(event) if !state.events.is_empty() => state.events.push_back(event.into_owned()),
        Some(event) => {
            drop(state);
            return driver.hand_out(link, event, true);
        }
        None => state.collect(),
    }
    driver.hand_out_waiting(link, state, true);
}

impl<E: Send + 'static> Drop for Reader<E> {
    fn drop(&mut self) {
        self.driver.stage.change(|stage| stage.reader_left = true);
    }
}
