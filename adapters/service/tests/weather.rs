//! Tests the weather server of the examples without a network.

#![allow(dead_code, reason = "the examples have a command line, and tests have none")]

#[path = "../../examples/weather/mod.rs"]
mod weather;

use mcp_service::{Failure, testing::TestClient};
use serde_json::{Value, json};
use weather::{Sample, Source};

fn call(source: impl Source, tool: &str, arguments: Value) -> (String, bool) {
    let client = TestClient::new(&weather::service(source).expect("a good service"));
    let result = client.call_tool(tool, arguments).expect("a result");
    (result.content[0].as_text().expect("a text").to_owned(), result.is_error())
}

#[test]
fn alerts_are_listed_by_state() {
    let (text, failed) = call(Sample, "get_alerts", json!({"state": "CA"}));
    assert!(!failed);
    assert!(
        text.starts_with("Event: Wind Advisory\nArea: San Francisco Bay Shoreline\nSeverity: Moderate\n"),
        "{text}"
    );
    assert!(text.ends_with("Instructions: No specific instructions provided\n"), "{text}");
    assert_eq!(text.matches("---\n").count(), 1);
    assert_eq!(call(Sample, "get_alerts", json!({"state": "NY"})), ("No active alerts for this state.".into(), false));
    assert!(call(Sample, "get_alerts", json!({"state": "../points"})).1, "that is no state");
}

#[test]
fn forecast_takes_two_fetches() {
    let place = json!({"latitude": 37.7749, "longitude": -122.4194});
    let (text, failed) = call(Sample, "get_forecast", place.clone());
    assert!(!failed);
    assert!(text.starts_with("Today:\nTemperature: 64°F\nWind: 10 to 15 mph W\nForecast: Fog in the"), "{text}");
    assert!(call(Sample, "get_forecast", json!({"latitude": 0, "longitude": 0})).1, "there is no forecast");
    assert!(call(Sample, "get_forecast", json!({"latitude": 91, "longitude": 0})).1, "that is nowhere");

    struct Astray;
    impl Source for Astray {
        fn fetch(&self, _: &str) -> Result<String, Failure> {
            Ok(r#"{"properties":{"forecast":"https://example.org/"}}"#.into())
        }
    }
    assert_eq!(call(Astray, "get_forecast", place), ("The forecast is somewhere else".into(), true));
}

#[test]
fn missing_network_is_a_tool_error() {
    struct Offline;
    impl Source for Offline {
        fn fetch(&self, _: &str) -> Result<String, Failure> {
            Err(Failure::new("no network"))
        }
    }
    assert_eq!(call(Offline, "get_alerts", json!({"state": "CA"})), ("no network".into(), true));
}
