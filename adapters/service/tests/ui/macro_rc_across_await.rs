//! A future with an `Rc`.

//~ MESSAGE is not an asynchronous handler
//~ NOTE the future is `Send`
//~ AT dig

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    async fn dig(&self, depth: u32) -> u32 {
        let depth = std::rc::Rc::new(depth);
        std::future::ready(()).await;
        *depth
    }
}

fn main() {}
