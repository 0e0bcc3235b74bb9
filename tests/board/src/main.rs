//! A server of MCP on a microcontroller: one tool over a serial line, in all revisions, without an operating system,
//! and with a heap whose size follows from the limits of the connection.
//!
//! It is made for the emulator of the board Netduino Plus 2 (STM32F405) in QEMU: see README.md.
#![no_std]
#![no_main]

extern crate alloc;

mod app;
mod budget;
mod clock;
mod memory;
mod serial;

use alloc::{sync::Arc, vec::Vec};

use cortex_m::{asm, peripheral::SYST};
use cortex_m_rt::entry;
use mcp_proto::{
    Event, LineDecoder, Server, Timestamp,
    codec::Frame,
    connection::{ServerConfig, Violation},
};
use panic_semihosting as _;
use stm32f4::stm32f405::Peripherals;

use app::App;
use budget::{CHUNK, HIGH_WATER, LIMITS, OUTPUT};
use clock::Clock;
use serial::Serial;

#[entry]
fn main() -> ! {
    memory::init();
    let (mut core, chip) = cortex_m::Peripherals::take().zip(Peripherals::take()).expect("nothing has taken them yet");
    let mut clock = Clock::start(&mut core.SYST);
    let mut serial = Serial::new(chip.USART1);
    // The host waits for this line feed, since bytes that arrive before are lost.
    while !serial.write(b'\n') {}
    let first = loop {
        if let Some(byte) = serial.read() {
            break byte;
        }
    };
    // The time at which a peer sends its first byte, in cycles. The emulator has no source of random bits. A product
    // takes them from the generator of its chip.
    let hash_seed = clock.now().as_nanos() ^ u64::from(SYST::get_current());
    let mut board = Board::new(hash_seed, serial, &mut clock);
    board.lines.feed(&[first]);
    loop {
        let did_something = board.turn(clock.now());
        memory::note();
        if !did_something {
            // Sleeps until the next tick of the timer. The emulator delivers a byte with each.
            asm::wfi();
        }
    }
}

/// The driver: moves bytes between the serial line and the connection.
struct Board {
    serial: Serial,
    lines: LineDecoder,
    config: Arc<ServerConfig>,
    server: Server,
    app: App,
    out: Vec<u8>,
    /// The number of bytes of `out` that were written.
    written: usize,
}

impl Board {
    fn new(hash_seed: u64, serial: Serial, clock: &mut Clock) -> Self {
        let config = Arc::new(app::config(hash_seed));
        let server = Server::new(config.clone(), clock.now());
        let lines = LineDecoder::new(LIMITS.frame_bytes);
        Self { serial, lines, config, server, app: App::new(), out: Vec::with_capacity(OUTPUT), written: 0 }
    }

    /// Does what can be done without waiting. Returns whether that was anything.
    fn turn(&mut self, now: Timestamp) -> bool {
        let read = self.read(now);
        self.server.handle_timeout(now);
        while let Some(event) = self.server.poll_event() {
            self.on_event(now, event);
        }
        self.app.advance(now, &mut self.server);
        let wrote = self.write();
        read || wrote
    }

    /// Handles the lines that have arrived, and reads further bytes when none is left.
    fn read(&mut self, now: Timestamp) -> bool {
        let mut chunk = [0; CHUNK];
        let mut len = 0;
        while self.server.wants_input(now) {
            if let Some(frame) = self.lines.next_frame() {
                let event = take(&mut self.server, &self.config, &mut self.app, now, frame);
                match event {
                    Some(Event::Closed(_)) => self.begin_again(now),
                    Some(event) => self.app.on_event(now, event),
                    None => {}
                }
                // The response is written before the next request is read.
                return true;
            }
            while let Some(free) = chunk.get_mut(len)
                && let Some(byte) = self.serial.read()
            {
                *free = byte;
                len += 1;
            }
            if len == 0 {
                return false;
            }
            self.lines.feed(&chunk[..len]);
            len = 0;
        }
        false
    }

    fn on_event(&mut self, now: Timestamp, event: Event<'_>) {
        match event {
            Event::Closed(_) => self.begin_again(now),
            event => self.app.on_event(now, event),
        }
    }

    /// Replaces a connection that has ended. A serial line stays, whatever its peer does.
    fn begin_again(&mut self, now: Timestamp) {
        self.app.clear();
        self.server = Server::new(self.config.clone(), now);
    }

    /// Writes output as far as the serial line takes it.
    fn write(&mut self) -> bool {
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
            while self.server.poll_transmit_up_to(&mut self.out, HIGH_WATER).is_some() {}
        }
        let before = self.written;
        while let Some(byte) = self.out.get(self.written)
            && self.serial.write(*byte)
        {
            self.written += 1;
        }
        if self.written > before {
            self.server.handle_written();
        }
        self.written > before
    }
}

/// Passes a frame to the connection. A serial line does not tell that its client has ended, but the next client begins
/// with `initialize`, which a session has only once. So that request begins a new connection.
fn take<'a>(
    server: &mut Server,
    config: &Arc<ServerConfig>,
    app: &mut App,
    now: Timestamp,
    frame: Frame<'a>,
) -> Option<Event<'a>> {
    let event = server.handle_frame(now, frame);
    if event != Some(Event::Violation(Violation::SecondInitialize)) {
        return event;
    }
    app.clear();
    *server = Server::new(config.clone(), now);
    server.handle_frame(now, frame)
}
