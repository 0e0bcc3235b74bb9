//! Structured data without `JsonSchema`.

//~ MESSAGE `Weather` has no JSON Schema
//~ NOTE a type with `#[derive(schemars::JsonSchema)]` has one, with version 1 of `schemars`

use mcp_service::{Structured, Tool};

#[derive(serde::Serialize)]
struct Weather {
    celsius: f64,
}

fn main() {
    Tool::new("weather", || Structured(Weather { celsius: 21.5 }));
}
