//! File descriptors as transports.

use std::io;

use mcp_driver::{FdReader, FdWriter};

use crate::transport::{Sink, Source};
use mcp_driver::Stopper;

impl Source for FdReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer)
    }

    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read(buffer)
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(Box::new(self.latch().stopper()))
    }
}

impl Sink for FdWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(Box::new(self.latch().stopper()))
    }
}
