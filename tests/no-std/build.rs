//! The `alloc` that comes with the compiler is built for unwinding and names what unwinds, although a program with
//! `panic = "abort"` never gets there. The linker is told that there is nothing.

fn main() {
    for symbol in ["rust_eh_personality", "_Unwind_Resume"] {
        println!("cargo::rustc-link-arg-bins=-Wl,--defsym={symbol}=0");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
