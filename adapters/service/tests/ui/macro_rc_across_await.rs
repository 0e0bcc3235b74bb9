//! A future with an `Rc`.

//~ RUSTC future cannot be sent between threads safely
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
