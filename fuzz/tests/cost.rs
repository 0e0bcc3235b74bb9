//! Decoders whose cost grows too fast are found, and others are not.

use mcp_fuzz::{corpus, cost, dice::Dice, mutate};

/// Looks at a text from its beginning again for each comma.
fn again_from_the_start(data: &[u8]) {
    let mut sum = 0;
    for (at, _) in data.iter().enumerate().filter(|(_, byte)| **byte == b',') {
        sum += data[..at].iter().filter(|byte| std::hint::black_box(**byte) == b'"').count();
    }
    std::hint::black_box(sum);
}

/// Keeps what stands before each comma.
fn prefixes(data: &[u8]) {
    let commas = data.iter().enumerate().filter(|(_, byte)| **byte == b',');
    std::hint::black_box(commas.map(|(at, _)| data[..at].to_vec()).collect::<Vec<_>>());
}

/// Whether one of 1,000 changed inputs, as a short run of a target has them, shows that a decoder costs too much.
fn is_found(decode: fn(&[u8])) -> bool {
    let corpus = corpus("message").expect("each target has a corpus");
    let mut dice = Dice::new(1);
    (0..1000).any(|_| cost::fault(&mutate::input(&corpus, &mut dice), decode).is_some())
}

#[test]
fn a_decoder_of_quadratic_work_is_found() {
    assert!(is_found(again_from_the_start));
}

#[test]
fn a_decoder_of_quadratic_memory_is_found() {
    assert!(is_found(prefixes));
}

#[test]
fn a_linear_decoder_is_not_found() {
    assert!(!is_found(|data| drop(std::hint::black_box(data.to_vec()))));
}
