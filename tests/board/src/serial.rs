//! The serial line. No call waits.

use stm32f4::stm32f405::USART1;

pub(crate) struct Serial(USART1);

impl Serial {
    pub(crate) fn new(uart: USART1) -> Self {
        // The emulator ignores the baud rate, and has neither clocks nor pins to set up.
        uart.cr1().write(|line| line.ue().set_bit().te().set_bit().re().set_bit());
        Self(uart)
    }

    /// Returns the next byte, if one has arrived. The emulator holds back the following ones until then. On hardware
    /// that needs flow control, or a buffer that an interrupt fills.
    pub(crate) fn read(&mut self) -> Option<u8> {
        self.0.sr().read().rxne().bit_is_set().then(|| self.0.dr().read().dr().bits().to_le_bytes()[0])
    }

    /// Writes a byte, if the previous one has left. Returns whether it was written.
    pub(crate) fn write(&mut self, byte: u8) -> bool {
        let is_free = self.0.sr().read().txe().bit_is_set();
        if is_free {
            self.0.dr().write(|data| data.dr().set(u16::from(byte)));
        }
        is_free
    }
}
