//! A client under test of the official conformance suite: it uses all that its server has, as the scenario wants it, on any
//! adapter.
//!
//! The suite gives it the address of a server as its last argument, and says in the environment which revision to speak
//! and, for some scenarios, what to call.

use std::{env, error::Error};

use mcp_proto::{
    connection::ClientRole,
    protocol::{Capability, Era, ProtocolVersion, VersionSet},
    schema::{ElicitFormParams, ElicitResult, ElicitValue, Map, Tool},
};
use mcp_service::{Failure, Host, Peer};
use serde_json::{Value, json};

/// What the suite wants.
pub(crate) struct Scenario {
    pub(crate) url: String,
    pub(crate) host: Host,
    /// Whether it is about skills, and whether those are to be loaded.
    skills: Option<bool>,
    /// What to call, and with what, instead of everything that there is.
    calls: Option<Vec<(String, Value)>>,
}

impl Scenario {
    /// What the command line and the environment say.
    pub(crate) fn from_env() -> Result<Self, Box<dyn Error>> {
        let url = env::args().next_back().filter(|url| url.starts_with("http")).ok_or("there is no address")?;
        let versions = match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
            Ok(version) => {
                let version = ProtocolVersion::parse(&version).ok_or("this revision is not known")?;
                // A server of the modern era may be asked first; what it turns out to be is found out then.
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
        // What matters there is what happens when tools are listed; they cannot be called.
        let only_lists = env::var("MCP_CONFORMANCE_SCENARIO").is_ok_and(|name| name == "json-schema-ref-no-deref");
        let calls = if only_lists { Some(Vec::new()) } else { calls };
        let skills = env::var("MCP_CONFORMANCE_SCENARIO").ok().and_then(|name| {
            let of_skills = name.strip_prefix("sep-2640-client-")?;
            Some(of_skills != "no-prefetch")
        });
        Ok(Self { url, host, skills, calls })
    }

    /// Uses all that a server has.
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

/// Looks at all skills, and loads them if that is wanted, with all that belongs to them.
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

/// A call of each tool.
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

/// Something that fits a schema, if that is a simple one.
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

/// Says yes, and leaves the rest to defaults.
fn fill_in(form: &ElicitFormParams) -> ElicitResult {
    let asked = serde_json::to_value(&form.requested_schema).unwrap_or_default();
    let confirms = asked["properties"].get("confirmed").is_some();
    let content: Map<ElicitValue> =
        confirms.then(|| (String::from("confirmed"), ElicitValue::Boolean(true))).into_iter().collect();
    ElicitResult::accept(content)
}
