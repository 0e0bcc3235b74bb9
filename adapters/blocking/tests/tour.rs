//! The examples of this adapter, as they are run by users. What is tried is in `adapters/tests/tour.rs`.

#[path = "../../tests/tour.rs"]
mod tour;

fn main() -> std::process::ExitCode {
    tour::main("blocking")
}
