//! Replays every stored input through its target, and some mutated ones.

use mcp_fuzz::{TARGETS, corpus, mutate, rng::Rng};

#[test]
fn every_corpus_input_passes() {
    for (target, body) in TARGETS {
        let inputs = corpus(target).expect("each target has a corpus");
        assert!(!inputs.is_empty(), "the corpus of {target} is empty");
        inputs.iter().for_each(|input| body(input));
    }
}

#[test]
fn every_target_accepts_inputs_of_the_others() {
    for (target, _) in TARGETS {
        for input in corpus(target).expect("each target has a corpus") {
            TARGETS.iter().for_each(|(_, body)| body(&input));
        }
    }
}

#[test]
fn every_target_accepts_mutated_inputs() {
    for (target, body) in TARGETS {
        let inputs = corpus(target).expect("each target has a corpus");
        let mut rng = Rng::new(42);
        (0..300).for_each(|_| body(&mutate::input(&inputs, &mut rng)));
    }
}
