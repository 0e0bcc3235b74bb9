//! Runs the examples of this adapter. The tests are in `adapters/tests/tour.rs`.

#[path = "../../tests/tour.rs"]
mod tour;

fn main() -> std::process::ExitCode {
    tour::main("tokio")
}
