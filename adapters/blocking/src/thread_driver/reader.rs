//! Reading input, and dispatching the resulting events.

use std::{io, mem, sync::Arc};

use mcp_driver::{LineReader, Sniffer, tuning::READ_CHUNK};
use mcp_proto::codec::Frame;
use mcp_service::driver_api::ConnectionHandle;

use crate::{
    thread_driver::{
        driver::Driver,
        worker_pool::{ReadOutcome, Wait},
    },
    transport::Input,
};
use mcp_driver::os::thread::lock;

/// The reader of a connection, and its input that was not handled yet.
pub(crate) struct Reader<E: Send + 'static> {
    driver: Arc<Driver<E>>,
    connection: Arc<dyn ConnectionHandle<E>>,
    input: Input,
    line_reader: LineReader,
    sniffer: Sniffer,
    /// The last message of a message transport.
    message: Vec<u8>,
    /// Set while `message` is not handled yet.
    has_message: bool,
    /// Whether the first message was received.
    has_received: bool,
    /// The responses to messages that were read together are held back until the next read.
    holds: bool,
    /// The result of the last read (whether more input may follow), while some of its frames are not handled yet.
    filled: Option<bool>,
}

impl<E: Send + 'static> Reader<E> {
    pub(crate) fn new(driver: Arc<Driver<E>>, input: Input, sniffer: Sniffer) -> Self {
        let limit = driver.lock().connection.settings().limits.frame_bytes;
        let (connection, line_reader, message) = (driver.clone(), LineReader::new(limit), Vec::new());
        Self {
            connection,
            driver,
            input,
            line_reader,
            sniffer,
            message,
            has_message: false,
            has_received: false,
            holds: false,
            filled: None,
        }
    }

    /// Reads input and handles its frames.
    pub(crate) fn read_once(&mut self, wait: Wait<'_>) -> ReadOutcome {
        let on_caller = matches!(wait, Wait::UntilNotified(_));
        if on_caller && !self.driver.wants_input() {
            return ReadOutcome::Paused;
        }
        match self.read(wait) {
            // A caller runs no jobs, so it must not queue them without limit.
            Ok(true) if on_caller && self.driver.workers.is_behind() => ReadOutcome::Paused,
            Ok(true) => ReadOutcome::Read,
            Ok(false) => ReadOutcome::Ended,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !matches!(wait, Wait::Unbounded) => {
                ReadOutcome::Read
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported && on_caller => ReadOutcome::Unsupported,
            Err(error) => {
                self.driver.fail(&error);
                ReadOutcome::Ended
            }
        }
    }

    fn read(&mut self, wait: Wait<'_>) -> io::Result<bool> {
        if mem::take(&mut self.holds) {
            let mut state = self.driver.lock();
            state.held = false;
            self.driver.after_change(state);
        }
        if matches!(wait, Wait::Unbounded) {
            self.driver.wait_for_room();
        }
        let more = match self.filled.take() {
            Some(more) => more,
            None => self.fill(wait)?,
        };
        let Self { driver, connection, line_reader, message, has_message, has_received, holds, filled, .. } = self;
        let batch = &mut *lock(&driver.batch);
        let (now, mut frames) = (driver.now(), 0);
        loop {
            // After the last frame, nothing is left to handle.
            if more && !*has_message && !line_reader.has_begun() {
                break;
            }
            let mut state = driver.lock();
            if !state.connection.wants_input(now) {
                state.message_until = None;
                // The other frames are handled when the connection accepts input again. Jobs may have to run first, on
                // this thread.
                *filled = Some(more);
                break;
            }
            let whole = mem::take(has_message).then(|| Frame::new(message));
            let Some(frame) = whole.or_else(|| line_reader.next_frame()) else { break };
            frames += 1;
            state.message_until = None;
            match state.connection.handle_frame(now, frame) {
                // Events that are already queued are dispatched first.
                Some(event) if !state.events.is_empty() => state.events.push_back(event.into_owned()),
                Some(event) => {
                    drop(state);
                    driver.dispatch(connection, event, batch);
                    continue;
                }
                None => state.collect(),
            }
            driver.dispatch_waiting(connection, state, batch);
        }
        *has_received |= frames > 0;
        if frames == 0 && *has_received && !line_reader.has_begun() {
            // The remaining input was a blank line, which is not a message.
            driver.lock().message_until = None;
        }
        if !more && filled.is_none() {
            let mut state = driver.lock();
            state.connection.handle_eof(now);
            state.collect();
            driver.dispatch_waiting(connection, state, batch);
        }
        // A caller runs no handlers, also not those that were queued before the last batch.
        driver.workers.push(batch, !matches!(wait, Wait::UntilNotified(_)));
        // A caller may not read soon.
        *holds = more && frames > 1 && filled.is_none() && !driver.workers.is_left_to_callers();
        let mut state = driver.lock();
        state.held = *holds;
        driver.after_change(state);
        Ok(more || filled.is_some())
    }

    /// Reads bytes or a message, and returns whether more may follow.
    fn fill(&mut self, wait: Wait<'_>) -> io::Result<bool> {
        let Self { driver, input, line_reader, sniffer, message, has_message, .. } = self;
        match input {
            Input::Bytes(source) => {
                if !matches!(wait, Wait::None) && line_reader.has_begun() {
                    driver.wait_for_rest();
                }
                let buffer = line_reader.spare_capacity();
                let len = match wait {
                    Wait::None => source.try_read(buffer),
                    Wait::Unbounded => source.read(buffer),
                    Wait::UntilNotified(thread) => source.read_until_notified(buffer, thread),
                }?;
                sniffer.check(&buffer[..len])?;
                Ok(line_reader.advance(len))
            }
            Input::Messages(_) if matches!(wait, Wait::None) => Err(io::ErrorKind::WouldBlock.into()),
            Input::Messages(_) if matches!(wait, Wait::UntilNotified(_)) => Err(io::ErrorKind::Unsupported.into()),
            Input::Messages(source) => {
                message.clear();
                message.shrink_to(READ_CHUNK);
                *has_message = source.receive(message)?;
                Ok(*has_message)
            }
        }
    }
}

impl<E: Send + 'static> Drop for Reader<E> {
    fn drop(&mut self) {
        self.driver.lifecycle.update(|lifecycle| lifecycle.reader_exited = true);
    }
}
