//! A server that breaks no rule, in memory, as little as the checks need.

use serde_json::{Value, json};

use crate::check::probe::{LEGACY, MODERN, NEWEST};

/// The features that a server of a test offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// Both eras, with all features.
    Full,
    /// Both eras, with tools and nothing else.
    Small,
    /// 2026-07-28 only, with all features.
    ModernOnly,
    /// Sessions only, with all features.
    LegacyOnly,
}

/// The state of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) version: Option<&'static str>,
    pub(super) is_ready: bool,
}

/// The state of a server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) profile: Profile,
}

const PAGE: usize = 2;

fn error(id: &Value, code: i64, message: &str) -> Value {
    if id.is_null() {
        return json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}});
    }
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn refused(code: i64) -> Result<Value, Value> {
    Err(json!({"code": code, "message": "refused"}))
}

impl Server {
    fn has_legacy(&self) -> bool {
        self.profile != Profile::ModernOnly
    }

    pub(super) fn capabilities(&self, is_modern: bool) -> Value {
        if self.profile == Profile::Small {
            return if is_modern { json!({"tools": {"listChanged": true}}) } else { json!({"tools": {}}) };
        }
        let mut all = json!({
            "tools": {"listChanged": true}, "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true}, "completions": {}, "logging": {},
        });
        if !is_modern {
            all["tasks"] = json!({"list": {}});
        }
        all
    }

    /// Returns whether a message belongs to 2026-07-28.
    pub(super) fn is_modern(&self, message: &Value) -> bool {
        let has_claim = message["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
        self.profile != Profile::LegacyOnly && (has_claim || !self.has_legacy())
    }

    /// Responds to the bytes of a message.
    pub(super) fn receive(&self, bytes: &[u8], session: &mut Session) -> Vec<Value> {
        match serde_json::from_slice::<Value>(bytes) {
            Err(_) => vec![error(&Value::Null, -32700, "parse error")],
            Ok(Value::Array(batch)) if session.version == Some("2025-03-26") && !batch.is_empty() => {
                let all: Vec<_> = batch.iter().flat_map(|one| self.respond(one, session)).collect();
                if all.is_empty() { all } else { vec![Value::Array(all)] }
            }
            Ok(Value::Array(_)) => vec![error(&Value::Null, -32600, "a batch")],
            Ok(message) => self.respond(&message, session),
        }
    }

    fn respond(&self, message: &Value, session: &mut Session) -> Vec<Value> {
        let id = message.get("id");
        if message.get("result").is_some() || message.get("error").is_some() {
            return Vec::new();
        }
        session.is_ready |= message["method"] == "notifications/initialized";
        let id_or_null = id.filter(|id| id.is_string() || id.is_u64()).unwrap_or(&Value::Null);
        let is_good = message["jsonrpc"] == "2.0" && message["method"].is_string() && id.is_none_or(|id| !id.is_null());
        if !is_good {
            return vec![error(id_or_null, -32600, "not a request")];
        }
        let Some(id) = id else { return Vec::new() };
        let is_modern = self.is_modern(message);
        let method = message["method"].as_str().unwrap_or_default();
        if is_modern && method == "subscriptions/listen" {
            return self.listen(id, &message["params"]["notifications"]);
        }
        let outcome = if is_modern { self.modern(message) } else { self.legacy(message, session) };
        match outcome {
            Ok(result) => vec![json!({"jsonrpc": "2.0", "id": id, "result": result})],
            Err(why) => vec![json!({"jsonrpc": "2.0", "id": id, "error": why})],
        }
    }

    fn listen(&self, id: &Value, filter: &Value) -> Vec<Value> {
        let Some(filter) = filter.as_object() else { return vec![error(id, -32602, "no filter")] };
        let capabilities = self.capabilities(true);
        let is_declared = |kind: &str| {
            let name = kind.trim_end_matches("ListChanged");
            capabilities[name]["listChanged"] == true
        };
        let honoured: serde_json::Map<_, _> = filter
            .iter()
            .filter(|(kind, _)| is_declared(kind))
            .map(|(kind, value)| (kind.clone(), value.clone()))
            .collect();
        let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
        let params = json!({"notifications": honoured, "_meta": meta});
        vec![json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})]
    }

    fn modern(&self, message: &Value) -> Result<Value, Value> {
        let meta = &message["params"]["_meta"];
        let version = meta["io.modelcontextprotocol/protocolVersion"].as_str();
        let level = &meta["io.modelcontextprotocol/logLevel"];
        let (Some(version), true) = (version, meta["io.modelcontextprotocol/clientCapabilities"].is_object()) else {
            return refused(-32602);
        };
        if version != MODERN {
            let data = json!({"supported": [MODERN], "requested": version});
            return Err(json!({"code": -32022, "message": "unsupported version", "data": data}));
        }
        if *level == "loud" {
            return refused(-32602);
        }
        let method = message["method"].as_str().unwrap_or_default();
        let mut result = match method {
            "server/discover" => {
                json!({"supportedVersions": [MODERN], "capabilities": self.capabilities(true)})
            }
            _ => self.feature(method, &message["params"], true)?,
        };
        result["resultType"] = json!("complete");
        result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": {"name": "good", "version": "1"}});
        if method.ends_with("/list") || matches!(method, "server/discover" | "resources/read") {
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("public");
        }
        Ok(result)
    }

    fn legacy(&self, message: &Value, session: &mut Session) -> Result<Value, Value> {
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        if method == "initialize" {
            let wanted = params["protocolVersion"].as_str().unwrap_or_default();
            let version = LEGACY.into_iter().find(|version| *version == wanted).unwrap_or(NEWEST);
            session.version = Some(version);
            let info = json!({
                "name": "good", "version": "1", "icons": [{"src": "https://example.com/a.png", "theme": "dark"}],
            });
            let capabilities = self.capabilities(false);
            return Ok(json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}));
        }
        if method == "ping" {
            return Ok(json!({}));
        }
        if session.version.is_none() {
            return refused(-32600);
        }
        self.feature(method, params, false)
    }

    fn feature(&self, method: &str, params: &Value, is_modern: bool) -> Result<Value, Value> {
        let declared = self.capabilities(is_modern);
        let group = match method.split('/').next().unwrap_or_default() {
            "completion" => "completions",
            group => group,
        };
        if declared.get(group).is_none() {
            return refused(-32601);
        }
        let is_listed = |name: &str| params[name] != "mcp-check-unknown" && params[name].is_string();
        match method {
            "tools/list" => page("tools", &[tool("a"), tool("b"), tool("c")], params),
            "prompts/list" => page("prompts", &prompts(), params),
            "resources/list" => page("resources", &[json!({"uri": "good://a", "name": "a"})], params),
            "resources/templates/list" => {
                page("resourceTemplates", &[json!({"uriTemplate": "good://{x}", "name": "x"})], params)
            }
            "tools/call" if is_listed("name") => Ok(json!({"content": []})),
            "prompts/get" if params["name"] == "plain" => {
                Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": "a"}}]}))
            }
            "resources/read" if params["uri"] == "good://a" => {
                Ok(json!({"contents": [{"uri": "good://a", "blob": "YQ=="}]}))
            }
            "resources/read" => refused(if is_modern { -32602 } else { -32002 }),
            "resources/subscribe" | "resources/unsubscribe" if !is_modern => Ok(json!({})),
            "completion/complete" if params["ref"]["name"] == "greet" => Ok(json!({"completion": {"values": ["ada"]}})),
            "logging/setLevel" if !is_modern && params["level"] != "loud" => Ok(json!({})),
            "tools/call" | "prompts/get" | "completion/complete" => refused(-32602),
            "logging/setLevel" | "tasks/get" | "tasks/result" | "tasks/list" if !is_modern => refused(-32602),
            _ => refused(-32601),
        }
    }
}

fn tool(name: &str) -> Value {
    let property = json!({"type": "string", "x-mcp-header": "City"});
    json!({"name": name, "inputSchema": {"type": "object", "properties": {"city": property}, "required": ["city"]}})
}

fn prompts() -> [Value; 2] {
    [json!({"name": "greet", "arguments": [{"name": "id", "required": true}]}), json!({"name": "plain"})]
}

fn page(member: &str, all: &[Value], params: &Value) -> Result<Value, Value> {
    let from = match params.get("cursor") {
        None => 0,
        Some(cursor) if cursor == "next" => PAGE,
        Some(_) => return refused(-32602),
    };
    let mut result = json!({member: all.iter().skip(from).take(PAGE).collect::<Vec<_>>()});
    if all.len() > from + PAGE {
        result["nextCursor"] = json!("next");
    }
    Ok(result)
}
