//! A state that threads cannot share.

//~ RUSTC `Cell<i64>` cannot be shared between threads safely

use std::cell::Cell;

use mcp_service::Service;

struct Counter(Cell<i64>);

fn main() {
    let _ = Service::builder("counter", "1.0.0").with_state(Counter(Cell::new(0)));
}
