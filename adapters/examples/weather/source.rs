//! Where the data comes from.

use std::process::Command;

use mcp_service::Failure;
use serde::de::DeserializeOwned;

/// The service that has the data.
pub(super) const API: &str = "https://api.weather.gov";

/// Something that knows what api.weather.gov says.
pub(crate) trait Source: Send + Sync + 'static {
    /// The document at a path, as text.
    fn fetch(&self, path: &str) -> Result<String, Failure>;

    /// The document at a path.
    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        Ok(serde_json::from_str(&self.fetch(path)?)?)
    }
}

/// A few documents that came with the program: always the same weather, and no network.
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

/// The real thing, fetched by `curl`, which has to be installed: so these examples need no HTTP library. In a program of your
/// own, put the client that you have here.
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
