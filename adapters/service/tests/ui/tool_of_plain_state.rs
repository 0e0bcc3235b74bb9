//! The type of a tool names its state without `State`.

//~ MESSAGE `Garden` is not the state of a handler
//~ NOTE write `Tool<State<Garden>>` for a tool with this state

use mcp_service::Tool;

struct Garden;

fn tools() -> Vec<Tool<Garden>> {
    Vec::new()
}

fn main() {
    tools();
}
