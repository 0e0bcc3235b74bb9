//! A borrowed text as the arguments. The compiler finds it when it checks lifetimes.

//~ RUSTC is not general enough

use mcp_service::ResourceTemplate;

fn main() {
    ResourceTemplate::new("log://{day}", "log", |day: &str| day.to_owned());
}
