//! A client under test of the official conformance suite, on any adapter. It uses all features of its server, as the
//! scenario requires.
//!
//! The suite passes the address of a server as the last argument. The environment has the revision to use and, for some
//! scenarios, the calls to make.

mod auth;

use std::{env, error::Error};

use mcp_driver::http::auth::{AuthRuntime, OAuth};

use mcp_proto::{
    connection::ClientRole,
    protocol::{Capability, Era, ProtocolVersion, VersionSet},
    schema::{ElicitFormParams, ElicitResult, ElicitValue, Map, Tool},
};
use mcp_service::{Failure, Host, Peer};
use serde_json::{Value, json};

/// The scenario that the suite selects.
pub(crate) struct Scenario {
    pub(crate) url: String,
    pub(crate) host: Host,
    /// For scenarios about skills, whether the skills are loaded.
    skills: Option<bool>,
    /// The calls with their arguments, if not all tools are called.
    calls: Option<Vec<(String, Value)>>,
    /// The context of the scenario, besides the revision.
    context: Value,
}

impl Scenario {
    /// Reads the command line and the environment.
    pub(crate) fn from_env() -> Result<Self, Box<dyn Error>> {
        let url = env::args().next_back().filter(|url| url.starts_with("http")).ok_or("there is no address")?;
        let versions = match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
            Ok(version) => {
                let version = ProtocolVersion::parse(&version).ok_or("this revision is not known")?;
                // A server of the modern era is probed first, so its era need not be configured.
                if version.era() == Era::Modern { VersionSet::ALL } else { VersionSet::only(version) }
            }
            Err(_) => VersionSet::ALL,
        };
        let context: Option<Value> =
            env::var("MCP_CONFORMANCE_CONTEXT").ok().map(|text| serde_json::from_str(&text)).transpose()?;
        let calls = context.as_ref().and_then(|context| context["toolCalls"].as_array()).map(|calls| {
            let call = |call: &Value| (call["name"].as_str().unwrap_or_default().to_owned(), call["arguments"].clone());
            calls.iter().map(call).collect()
        });
        let host = Host::builder("conformance-client", env!("CARGO_PKG_VERSION"))
            .versions(versions)
            .elicitation(|form, _| Ok::<_, Failure>(fill_in(&form)))
            .build();
        // This scenario is about the list of tools. The tools cannot be called.
        let only_lists = env::var("MCP_CONFORMANCE_SCENARIO").is_ok_and(|name| name == "json-schema-ref-no-deref");
        let calls = if only_lists { Some(Vec::new()) } else { calls };
        let skills = env::var("MCP_CONFORMANCE_SCENARIO").ok().and_then(|name| {
            let of_skills = name.strip_prefix("sep-2640-client-")?;
            Some(of_skills != "no-prefetch")
        });
        Ok(Self { url, host, skills, calls, context: context.unwrap_or_default() })
    }

    /// Returns the credentials for a scenario that needs some.
    pub(crate) fn credentials<R: AuthRuntime>(&self) -> Result<Option<OAuth<R>>, Box<dyn Error>> {
        let is_about_auth = env::var("MCP_CONFORMANCE_SCENARIO").is_ok_and(|name| name.starts_with("auth/"));
        is_about_auth.then(|| auth::provider(&self.url, &self.context)).transpose()
    }

    /// Uses all features of a server.
    pub(crate) async fn play(&self, server: &Peer<ClientRole>) -> Result<(), Box<dyn Error>> {
        if let Some(loads) = self.skills {
            return use_skills(server, loads).await;
        }
        let (mut tools, mut pages) = (Vec::new(), server.all_tools());
        if server.capabilities().contains(Capability::Tools) {
            while let Some(tool) = pages.try_next().await? {
                tools.push(tool);
            }
        }
        for (name, arguments) in self.calls.clone().unwrap_or_else(|| calls(&tools)) {
            server.call_tool(&name, arguments)?.await?;
        }
        if server.capabilities().contains(Capability::Prompts) {
            let mut prompts = server.all_prompts();
            while let Some(prompt) = prompts.try_next().await? {
                server.get_prompt(&prompt.name, json!({}))?.await?;
            }
        }
        if server.capabilities().contains(Capability::Resources) {
            let mut resources = server.all_resources();
            while let Some(resource) = resources.try_next().await? {
                server.read_resource(&resource.uri)?.await?;
            }
        }
        Ok(())
    }
}

/// Lists all skills, and loads them with their files if `loads` is set.
async fn use_skills(server: &Peer<ClientRole>, loads: bool) -> Result<(), Box<dyn Error>> {
    let mut skills = server.all_skills();
    while let Some(skill) = skills.try_next().await? {
        if !loads {
            continue;
        }
        server.load_skill(&skill)?.await?;
        for file in skill.resources.listed().unwrap_or_default() {
            server.read_skill_file(&skill, &file.uri)?.await?;
        }
    }
    Ok(())
}

/// Returns a call of each tool.
fn calls(tools: &[Tool]) -> Vec<(String, Value)> {
    let known = |name: &str| tools.iter().find(|tool| tool.name == name);
    let arguments = |tool: &Tool| {
        let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
        if tool.name == "json_schema_echo" {
            let told = known("json_schema_2020_12_tool").map(|tool| tool.input_schema.get());
            return json!({"schema": told.and_then(|text| serde_json::from_str::<Value>(text).ok())});
        }
        let properties = schema["properties"].as_object();
        let argument = |(name, schema): (&String, &Value)| (name.clone(), example(name, schema));
        properties.into_iter().flatten().map(argument).collect::<serde_json::Map<_, _>>().into()
    };
    tools.iter().map(|tool| (tool.name.clone(), arguments(tool))).collect()
}

/// Returns a value that fits a schema, if that is a simple one.
fn example(name: &str, schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("object") => json!({}),
        Some("array") => json!([]),
        Some("null") => Value::Null,
        _ if name == "region" => json!("us-west1"),
        _ => json!("example"),
    }
}

/// Accepts a form, with the defaults of its fields.
fn fill_in(form: &ElicitFormParams) -> ElicitResult {
    let requested = serde_json::to_value(&form.requested_schema).unwrap_or_default();
    let confirms = requested["properties"].get("confirmed").is_some();
    let content: Map<ElicitValue> =
        confirms.then(|| (String::from("confirmed"), ElicitValue::Boolean(true))).into_iter().collect();
    ElicitResult::accept(content)
}
