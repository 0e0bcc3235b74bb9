//! Decoders whose cost grows too fast are detected, and others are not.

use mcp_fuzz::{corpus, cost, mutate, rng::Rng};

/// Scans a text from its start again for each comma.
fn again_from_the_start(data: &[u8]) {
    let mut sum = 0;
    for (at, _) in data.iter().enumerate().filter(|(_, byte)| **byte == b',') {
        sum += data[..at].iter().filter(|byte| std::hint::black_box(**byte) == b'"').count();
    }
    std::hint::black_box(sum);
}

/// Copies the text before each comma.
fn prefixes(data: &[u8]) {
    let commas = data.iter().enumerate().filter(|(_, byte)| **byte == b',');
    std::hint::black_box(commas.map(|(at, _)| data[..at].to_vec()).collect::<Vec<_>>());
}

/// Returns whether one of 1,000 mutated inputs, as a short run of a target has them, shows that a decoder costs too
/// much.
fn is_found(decode: fn(&[u8])) -> bool {
    let corpus = corpus("message").expect("each target has a corpus");
    let mut rng = Rng::new(1);
    (0..1000).any(|_| cost::fault(&mutate::input(&corpus, &mut rng), decode).is_some())
}

#[test]
fn detects_quadratic_work() {
    assert!(is_found(again_from_the_start));
}

#[test]
fn detects_quadratic_memory() {
    assert!(is_found(prefixes));
}

#[test]
fn accepts_linear_decoders() {
    assert!(!is_found(|data| drop(std::hint::black_box(data.to_vec()))));
}
