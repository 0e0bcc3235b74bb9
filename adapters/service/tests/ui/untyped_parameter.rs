//! Parameters without types.

//~ RUSTC E0282

use mcp_service::Tool;

fn main() {
    Tool::new("dig", |dig, context| {
        context.check()?;
        format!("{} m", dig.depth)
    });
}
