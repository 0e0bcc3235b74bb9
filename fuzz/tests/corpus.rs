//! Replays every stored input through its target, and some that are not stored.

use mcp_fuzz::{TARGETS, corpus, dice::Dice, mutate};

#[test]
fn every_stored_input_holds() {
    for (target, body) in TARGETS {
        let inputs = corpus(target).expect("each target has a corpus");
        assert!(!inputs.is_empty(), "the corpus of {target} is empty");
        inputs.iter().for_each(|input| body(input));
    }
}

#[test]
fn every_target_takes_the_inputs_of_every_other_one() {
    for (target, _) in TARGETS {
        for input in corpus(target).expect("each target has a corpus") {
            TARGETS.iter().for_each(|(_, body)| body(&input));
        }
    }
}

#[test]
fn every_target_takes_changed_inputs() {
    for (target, body) in TARGETS {
        let inputs = corpus(target).expect("each target has a corpus");
        let mut dice = Dice::new(42);
        (0..300).for_each(|_| body(&mutate::input(&inputs, &mut dice)));
    }
}
