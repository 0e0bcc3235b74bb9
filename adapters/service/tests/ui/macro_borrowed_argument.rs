//! An argument by reference.

//~ MESSAGE an argument owns its data, as `String` does
//~ AT &str

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    fn plant(&self, kind: &str) -> String {
        kind.to_owned()
    }
}

fn main() {}
