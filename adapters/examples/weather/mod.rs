//! A common first MCP server: two tools over the data of the US National Weather Service.
//!
//! The examples of the adapters (`weather-tokio` and so on) are this server in one file each. The parts here have
//! tests.
//!
//! Handlers are blocking functions, which may wait for the network: every adapter runs them on threads of their own.

mod source;

use std::{env, error::Error, sync::Arc};

use mcp_service::{Failure, RegisterError, Service, Tool};
use serde::Deserialize;

pub(crate) use source::{Curl, Sample, Source};

#[derive(Deserialize, schemars::JsonSchema)]
struct Area {
    /// Two-letter US state code (e.g. CA, NY)
    #[schemars(regex(pattern = "^[A-Z]{2}$"))]
    state: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Place {
    /// Latitude of the location
    #[schemars(range(min = -90.0, max = 90.0))]
    latitude: f64,
    /// Longitude of the location
    #[schemars(range(min = -180.0, max = 180.0))]
    longitude: f64,
}

/// Builds the service that the command line selects.
pub(crate) fn from_args() -> Result<Service, Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        None => Ok(service(Sample)?),
        Some("--live") => Ok(service(Curl)?),
        Some(_) => Err("the only argument that there is: --live".into()),
    }
}

/// Builds the service over a source of data.
pub(crate) fn service(source: impl Source) -> Result<Service, RegisterError> {
    let alerts_from = Arc::new(source);
    let forecast_from = alerts_from.clone();
    Service::builder("weather", "1.0.0")
        .tool(
            Tool::new("get_alerts", move |area: Area| alerts(&*alerts_from, &area.state))
                .description("Get weather alerts for a US state."),
        )
        .tool(
            Tool::new("get_forecast", move |place: Place| forecast(&*forecast_from, &place))
                .description("Get weather forecast for a location."),
        )
        .build()
}

#[derive(Deserialize)]
struct Alerts {
    features: Vec<Feature>,
}

#[derive(Deserialize)]
struct Feature {
    properties: Alert,
}

#[derive(Deserialize)]
struct Alert {
    event: Option<String>,
    #[serde(rename = "areaDesc")]
    area: Option<String>,
    severity: Option<String>,
    description: Option<String>,
    instruction: Option<String>,
}

fn alerts(source: &impl Source, state: &str) -> Result<String, Failure> {
    let Alerts { features } = source.get(&format!("/alerts/active/area/{state}"))?;
    if features.is_empty() {
        return Ok("No active alerts for this state.".into());
    }
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "Unknown".into());
    let alerts = features.iter().map(|Feature { properties: alert }| {
        let instruction = alert.instruction.as_deref().unwrap_or("No specific instructions provided");
        format!(
            "Event: {}\nArea: {}\nSeverity: {}\nDescription: {}\nInstructions: {instruction}\n",
            or_unknown(&alert.event),
            or_unknown(&alert.area),
            or_unknown(&alert.severity),
            or_unknown(&alert.description),
        )
    });
    Ok(alerts.collect::<Vec<_>>().join("---\n"))
}

#[derive(Deserialize)]
struct Of<T> {
    properties: T,
}

#[derive(Deserialize)]
struct Point {
    /// The URL of the forecast for the location.
    forecast: String,
}

#[derive(Deserialize)]
struct Periods {
    periods: Vec<Period>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Period {
    name: String,
    temperature: i64,
    temperature_unit: String,
    wind_speed: String,
    wind_direction: String,
    detailed_forecast: String,
}

fn forecast(source: &impl Source, place: &Place) -> Result<String, Failure> {
    let Place { latitude, longitude } = place;
    let point: Of<Point> = source.get(&format!("/points/{latitude:.4},{longitude:.4}"))?;
    let Some(path) = point.properties.forecast.strip_prefix(source::API) else {
        return Err(Failure::new("The forecast is somewhere else"));
    };
    let forecast: Of<Periods> = source.get(path)?;
    let periods = forecast.properties.periods.iter().take(5).map(|period| {
        let Period { name, temperature, temperature_unit, wind_speed, wind_direction, detailed_forecast } = period;
        format!(
            "{name}:\nTemperature: {temperature}°{temperature_unit}\nWind: {wind_speed} {wind_direction}\nForecast: {detailed_forecast}\n"
        )
    });
    Ok(periods.collect::<Vec<_>>().join("---\n"))
}
