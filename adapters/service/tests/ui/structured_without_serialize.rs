//! Structured data without `Serialize`.

//~ RUSTC E0277
//~ NOTE `#[derive(serde::Serialize)]`

use mcp_service::{Structured, Tool};

#[derive(schemars::JsonSchema)]
struct Weather {
    celsius: f64,
}

fn main() {
    Tool::new("weather", || Structured(Weather { celsius: 21.5 }));
}
