//! A program without the standard library that links `mcp-proto`. If anything below it needed `std`, there would be two
//! panic handlers and it would not build.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

extern crate alloc;

use core::ffi::{c_char, c_int};
use core::panic::PanicInfo;

mod conversation;

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    // No output exists. The parent process sees that it does not end.
    loop {}
}

/// What the C start code calls. Returns 0 if everything went as it should, and else the line where it did not.
#[expect(unsafe_code, reason = "the name of an entry point can be exported in no other way")]
#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    match conversation::conversation() {
        Ok(()) => 0,
        // An exit status has eight bits.
        Err(wrong) => c_int::from(u8::try_from(wrong.0).unwrap_or(u8::MAX)),
    }
}
