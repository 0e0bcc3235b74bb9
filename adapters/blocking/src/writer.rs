//! Writing what cannot be written at once.

use std::{io, mem, time::Duration};

use crate::{Sink, lock::wait, post::Post};

/// How long reading may go on when writing has failed.
const LAST_READ: Duration = Duration::from_millis(500);

impl<E: 'static> Post<E> {
    /// Writes whenever somebody else would have had to wait, and closes the sink in the end.
    pub(crate) fn write(&self) {
        let driver = &self.driver;
        let mut state = driver.lock();
        loop {
            while !state.blocked {
                state = wait(&driver.output, state);
            }
            let Some(mut sink) = state.sink.take() else { break };
            if state.fill() {
                let (out, from) = (mem::take(&mut state.out), state.written);
                drop(state);
                let result = write_all(&mut *sink, &out[from..]);
                state = driver.lock();
                state.sink = Some(sink);
                let rest = out.len() - from;
                state.out = out;
                state.wrote(rest);
                if let Err(error) = result {
                    drop(state);
                    // What the peer has said before it left is still heard, and may be the better reason.
                    self.wait_until(LAST_READ, |state| state.reader_left);
                    driver.fail(&error);
                } else {
                    // There is room now.
                    driver.settle(state);
                }
                state = driver.lock();
            } else if state.connection.is_drained() {
                break;
            } else {
                state.sink = Some(sink);
                state.blocked = false;
            }
        }
        state.writer_left = true;
        driver.news.notify_all();
    }
}

fn write_all(sink: &mut dyn Sink, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match sink.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}
