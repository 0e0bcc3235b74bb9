//! Sources of the data.

use std::process::Command;

use mcp_service::Failure;
use serde::de::DeserializeOwned;

/// The origin of the data.
pub(super) const API: &str = "https://api.weather.gov";

/// A source of documents of api.weather.gov.
pub(crate) trait Source: Send + Sync + 'static {
    /// Returns the document at a path, as text.
    fn fetch(&self, path: &str) -> Result<String, Failure>;

    /// Returns the document at a path.
    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        Ok(serde_json::from_str(&self.fetch(path)?)?)
    }
}

/// A few documents that are part of the program: always the same weather, and no network.
pub(crate) struct Sample;

impl Source for Sample {
    fn fetch(&self, path: &str) -> Result<String, Failure> {
        let document = match path {
            "/alerts/active/area/CA" => include_str!("sample/alerts.json"),
            _ if path.starts_with("/alerts/") => r#"{"features":[]}"#,
            "/points/37.7749,-122.4194" => include_str!("sample/point.json"),
            "/gridpoints/MTR/85,105/forecast" => include_str!("sample/forecast.json"),
            _ => return Err(Failure::new("Unable to fetch forecast data for this location.")),
        };
        Ok(document.to_owned())
    }
}

/// The live data, fetched by `curl`, which has to be installed, so that the examples need no HTTP library. A real
/// program uses the HTTP client that it already has.
pub(crate) struct Curl;

impl Source for Curl {
    fn fetch(&self, path: &str) -> Result<String, Failure> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--location", "--max-time", "30", "--proto", "=https"])
            .args(["--user-agent", "weather-app/1.0", "--header", "Accept: application/geo+json"])
            .arg(format!("{API}{path}"))
            .output()?;
        if !output.status.success() {
            return Err(Failure::new(String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
