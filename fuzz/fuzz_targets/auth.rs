#![no_main]
#![allow(missing_docs, reason = "the macro makes the entry point")]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_fuzz::auth(data));
