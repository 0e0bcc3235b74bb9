//! A struct as the result.

//~ MESSAGE `Weather` cannot be the result of a tool
//~ LABEL its handler returns `Weather`
//~ NOTE data that implements `serde::Serialize` and `schemars::JsonSchema` is a result as `Structured(data)`

use mcp_service::Tool;

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Weather {
    celsius: f64,
}

fn main() {
    Tool::new("weather", || Weather { celsius: 21.5 });
}
