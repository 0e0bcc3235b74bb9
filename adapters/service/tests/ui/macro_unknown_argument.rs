//! An argument that the attribute does not have.

//~ MESSAGE unknown argument `titel`: #[tool] takes `name`, `title`, `description`
//~ AT titel

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool(titel = "Dig")]
    fn dig(&self, depth: u32) -> u32 {
        depth
    }
}

fn main() {
    // The function is there, so that there is no error about it.
    let _ = mcp_service::Service::builder("a", "1").with_state(Garden).register(Garden::handlers);
}
