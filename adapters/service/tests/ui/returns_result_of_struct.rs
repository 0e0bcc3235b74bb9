//! A `Result` of a struct as the result.

//~ MESSAGE `Weather` cannot be the result of a tool
//~ NOTE data that implements `serde::Serialize` and `schemars::JsonSchema` is a result as `Structured(data)`

use mcp_service::{Failure, Tool};

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Weather {
    celsius: f64,
}

fn weather() -> Result<Weather, Failure> {
    Ok(Weather { celsius: 21.5 })
}

fn main() {
    Tool::new("weather", weather);
}
