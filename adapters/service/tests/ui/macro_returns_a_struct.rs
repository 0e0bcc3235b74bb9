//! A struct as the result.

//~ MESSAGE `Weather` cannot be the result of a tool
//~ NOTE data that implements `serde::Serialize` and `schemars::JsonSchema` is a result as `Structured(data)`
//~ AT weather

use mcp_service::handlers;

struct Garden;

struct Weather;

#[handlers]
impl Garden {
    #[tool]
    fn weather(&self, day: String) -> Weather {
        drop(day);
        Weather
    }
}

fn main() {}
