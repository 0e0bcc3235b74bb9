//! A handler with a type parameter, and one whose argument is any type.

//~ MESSAGE a handler has no type parameters: the types of its arguments are known
//~ AT T: Into<u32>
//~ MESSAGE a handler has no type parameters: name the type of the argument
//~ AT impl Into<u32>

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    fn dig<T: Into<u32>>(&self, depth: T) -> u32 {
        depth.into()
    }

    #[tool]
    fn fill(&self, depth: impl Into<u32>) -> u32 {
        depth.into()
    }
}

fn main() {}
