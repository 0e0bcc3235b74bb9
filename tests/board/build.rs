//! Tells the linker where the memory of the microcontroller is.

use std::env;

fn main() {
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rustc-link-search={folder}");
    // The script of cortex-m-rt, which includes memory.x.
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
    // Sections need not begin at pages of 64 KiB.
    println!("cargo::rustc-link-arg-bins=--nmagic");
    println!("cargo::rerun-if-changed=memory.x");
    println!("cargo::rerun-if-changed=build.rs");
}
