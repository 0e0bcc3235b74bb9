//! File descriptors as transports.

use std::io;

use mcp_driver::{FdReader, FdWriter};

use crate::transport::{ByteReader, ByteWriter};
use mcp_driver::{StopHandle, WaitingThread};

impl ByteReader for FdReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer)
    }

    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read(buffer)
    }

    fn read_until_notified(&mut self, buffer: &mut [u8], thread: &WaitingThread) -> io::Result<usize> {
        self.read_until_notified(buffer, thread)
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        Some(Box::new(self.interrupt().stop_handle()))
    }
}

impl ByteWriter for FdWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        Some(Box::new(self.interrupt().stop_handle()))
    }
}
