//! An argument that is not a variable of the URI.

//~ MESSAGE `bed` is not a variable of the URI
//~ AT bed

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[resource("garden://beds/{number}")]
    fn read(&self, bed: u32) -> String {
        bed.to_string()
    }
}

fn main() {}
