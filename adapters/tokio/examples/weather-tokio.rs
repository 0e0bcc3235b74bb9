//! A complete MCP server on tokio: two tools over the data of the US National Weather Service, served over standard
//! input and output.
//!
//! ```sh
//! cargo run -p mcp-tokio --example weather-tokio            # a fixed sample, without a network
//! cargo run -p mcp-tokio --example weather-tokio -- --live  # api.weather.gov, through the program `curl`
//! ```

use std::{env, error::Error, process::Command};

use mcp_service::{Failure, RegisterError, Service, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The origin of the data.
const API: &str = "https://api.weather.gov";

/// Arguments of `get_alerts`. The JSON Schema of the tool is derived from this type.
#[derive(Deserialize, JsonSchema)]
struct Area {
    /// Two-letter US state code (e.g. CA, NY)
    #[schemars(regex(pattern = "^[A-Z]{2}$"))]
    state: String,
}

/// Arguments of `get_forecast`.
#[derive(Deserialize, JsonSchema)]
struct Location {
    /// Latitude of the location
    #[schemars(range(min = -90.0, max = 90.0))]
    latitude: f64,
    /// Longitude of the location
    #[schemars(range(min = -180.0, max = 180.0))]
    longitude: f64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let fetch = match env::args().nth(1).as_deref() {
        None => fetch_sample,
        Some("--live") => fetch_live as Fetch,
        Some(_) => return Err("usage: weather-tokio [--live]".into()),
    };
    mcp_tokio::serve_stdio(&service(fetch)?).await?;
    Ok(())
}

/// Builds the server. Its handlers are plain functions that may block: the adapter runs them on threads.
fn service(fetch: Fetch) -> Result<Service, RegisterError> {
    Service::builder("weather", "1.0.0")
        .tool(
            Tool::new("get_alerts", move |area: Area| alerts(fetch, &area.state))
                .description("Get weather alerts for a US state."),
        )
        .tool(
            Tool::new("get_forecast", move |location: Location| forecast(fetch, &location))
                .description("Get weather forecast for a location."),
        )
        .build()
}

/// Implements `get_alerts`. A `Failure` becomes a tool error, which the model reads.
fn alerts(fetch: Fetch, state: &str) -> Result<String, Failure> {
    let document = fetch(&format!("/alerts/active/area/{state}"))?;
    let features = document["features"].as_array().ok_or("the answer has no features")?;
    if features.is_empty() {
        return Ok("No active alerts for this state.".into());
    }
    let alerts = features.iter().map(|feature| {
        let text = |name: &str, default: &str| feature["properties"][name].as_str().unwrap_or(default).to_owned();
        format!(
            "Event: {}\nArea: {}\nSeverity: {}\nDescription: {}\nInstructions: {}\n",
            text("event", "Unknown"),
            text("areaDesc", "Unknown"),
            text("severity", "Unknown"),
            text("description", "Unknown"),
            text("instruction", "No specific instructions provided"),
        )
    });
    Ok(alerts.collect::<Vec<_>>().join("---\n"))
}

/// Implements `get_forecast`: looks up the grid point of the location, then the forecast of that point.
fn forecast(fetch: Fetch, location: &Location) -> Result<String, Failure> {
    let point = fetch(&format!("/points/{:.4},{:.4}", location.latitude, location.longitude))?;
    let url = point["properties"]["forecast"].as_str().unwrap_or_default();
    let path = url.strip_prefix(API).ok_or("the forecast is on another host")?;
    let forecast = fetch(path)?;
    let periods = forecast["properties"]["periods"].as_array().ok_or("the answer has no periods")?;
    let periods = periods.iter().take(5).map(|period| {
        let text = |name: &str| period[name].as_str().unwrap_or("?").to_owned();
        format!(
            "{}:\nTemperature: {}°{}\nWind: {} {}\nForecast: {}\n",
            text("name"),
            period["temperature"],
            text("temperatureUnit"),
            text("windSpeed"),
            text("windDirection"),
            text("detailedForecast"),
        )
    });
    Ok(periods.collect::<Vec<_>>().join("---\n"))
}

/// Returns the document at a path of the API.
type Fetch = fn(&str) -> Result<Value, Failure>;

/// Fetches a document with `curl`. A real program uses the HTTP client that it already has.
fn fetch_live(path: &str) -> Result<Value, Failure> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--location", "--max-time", "30", "--proto", "=https"])
        .args(["--user-agent", "weather-app/1.0", "--header", "Accept: application/geo+json"])
        .arg(format!("{API}{path}"))
        .output()?;
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns a document of a fixed sample, so that the example runs without a network.
fn fetch_sample(path: &str) -> Result<Value, Failure> {
    match path {
        "/alerts/active/area/CA" => Ok(json!({"features": [{"properties": {
            "event": "Wind Advisory",
            "areaDesc": "San Francisco Bay Shoreline",
            "severity": "Moderate",
            "description": "Northwest winds of 20 to 30 mph, with gusts of up to 45 mph.",
            "instruction": "Secure outdoor objects.",
        }}]})),
        _ if path.starts_with("/alerts/") => Ok(json!({"features": []})),
        "/points/37.7749,-122.4194" => {
            Ok(json!({"properties": {"forecast": format!("{API}/gridpoints/MTR/85,105/forecast")}}))
        }
        "/gridpoints/MTR/85,105/forecast" => Ok(json!({"properties": {"periods": [{
            "name": "Today",
            "temperature": 64,
            "temperatureUnit": "F",
            "windSpeed": "10 to 15 mph",
            "windDirection": "W",
            "detailedForecast": "Fog in the morning, then sunny.",
        }]}})),
        _ => Err(Failure::new("Unable to fetch forecast data for this location.")),
    }
}
