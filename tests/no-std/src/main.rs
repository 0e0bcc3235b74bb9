//! A program without the standard library that links `mcp-proto`. If anything below it needed `std`, there would be two panic
//! handlers and it would not build.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

extern crate alloc;

use core::ffi::{c_char, c_int};
use core::panic::PanicInfo;

use mcp_proto::protocol::{ProtocolVersion, VersionSet, negotiate};

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    // There is nobody to tell. Whoever started the program sees that it does not end.
    loop {}
}

/// What the C start code calls. Returns 0 if everything went as it should.
#[expect(unsafe_code, reason = "the name of an entry point can be exported in no other way")]
#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    c_int::from(!negotiates())
}

fn negotiates() -> bool {
    negotiate("2031-01-01", VersionSet::ALL) == Some(ProtocolVersion::LATEST_LEGACY)
}
