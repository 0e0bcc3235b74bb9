//! Replays every stored input through its target.

use std::{fs, path::Path};

#[test]
fn every_stored_input_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, body) in mcp_fuzz::TARGETS {
        let mut count = 0;
        for entry in fs::read_dir(corpus.join(name)).expect("each target has a corpus") {
            body(&fs::read(entry.expect("the corpus can be read").path()).expect("inputs can be read"));
            count += 1;
        }
        assert!(count > 0, "the corpus of {name} is empty");
    }
}

#[test]
fn every_target_takes_any_bytes() {
    let mut state = 42u64;
    let words: [&[u8]; 12] = [
        b"{\"jsonrpc\":\"2.0\",",
        b"\"id\":1",
        b"\"id\":\"a\"",
        b"\"method\":\"ping\"",
        b",",
        b"}",
        b"\n",
        b"\"result\":{}",
        b"\"error\":{\"code\":1,\"message\":\"m\"}",
        b"[",
        b"]",
        b"\xff\xc3",
    ];
    for _ in 0..3000 {
        let mut data = Vec::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            data.extend_from_slice(words[(state >> 33) as usize % words.len()]);
        }
        for (_, body) in mcp_fuzz::TARGETS {
            body(&data);
        }
    }
}
