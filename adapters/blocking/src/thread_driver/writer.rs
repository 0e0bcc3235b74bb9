//! The writer thread, which writes output that would block.

use std::{io, mem};

use mcp_driver::tuning::READ_AFTER_WRITE_ERROR;

use crate::{thread_driver::driver::Driver, transport::ByteWriter};
use mcp_driver::os::thread::wait;

impl<E: 'static> Driver<E> {
    /// Writes output that cannot be written without waiting, until the connection has ended. Then closes the sink.
    pub(crate) fn write(&self) {
        let mut state = self.lock();
        loop {
            while !state.blocked {
                state = wait(&self.output, state);
            }
            let Some(mut sink) = state.sink.take() else { break };
            if state.fill() {
                let mut out = mem::take(&mut state.out);
                // Taking the output has made room in the connection.
                self.after_change(state);
                let result = write_all(&mut *sink, out.pending(), || self.lock().connection.handle_written());
                out.clear();
                state = self.lock();
                state.sink = Some(sink);
                state.out = out;
                if let Err(error) = result {
                    drop(state);
                    // Messages that the peer sent before the error are still processed, since they may carry a better
                    // reason.
                    self.lifecycle.wait_until(READ_AFTER_WRITE_ERROR, |lifecycle| lifecycle.reader_exited);
                    self.fail(&error);
                    state = self.lock();
                }
            } else if state.connection.is_drained() {
                break;
            } else {
                state.sink = Some(sink);
                state.blocked = false;
            }
        }
        drop(state);
        self.lifecycle.update(|lifecycle| lifecycle.writer_exited = true);
    }
}

fn write_all(sink: &mut dyn ByteWriter, mut bytes: &[u8], progress: impl Fn()) -> io::Result<()> {
    while !bytes.is_empty() {
        match sink.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
        if !bytes.is_empty() {
            progress();
        }
    }
    Ok(())
}
