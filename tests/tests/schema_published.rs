//! Every typed message of every revision is valid against the JSON Schema of that revision, and is decoded unchanged.
//!
//! Without the published schemas, the tests are reported as ignored.

mod schema_support;

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write as _},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arbitrary::Unstructured;
use jsonschema::{Draft, Validator};
use libtest_mimic::{Arguments, Failed, Trial};
use mcp_proto::{
    protocol::{Method, ProtocolVersion},
    schema::{
        ArbitraryAt, ClientNotification, ClientRequest, ClientResult, CreateMessageResult, CreateTaskResult,
        ElicitResult, Encode, InputRequest, ListRootsResult, MissingRequiredClientCapability, ServerNotification,
        ServerRequest, ServerResult, UnsupportedProtocolVersion, UrlElicitationRequired,
    },
};
use schema_support::{encode, noise, published, same, value};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The number of random messages for each type and revision.
const ROUNDS: u64 = 300;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = ProtocolVersion::ALL.into_iter().flat_map(trials).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    for (version, judged) in ProtocolVersion::ALL.into_iter().zip(&JUDGED) {
        let line = format!("{version}: {} random messages are as published\n", judged.load(Ordering::Relaxed));
        // A closed standard output is not an error.
        let _ = io::stdout().write_all(line.as_bytes());
    }
    conclusion.exit_code()
}

/// The number of valid messages of each revision.
static JUDGED: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

fn trials(version: ProtocolVersion) -> Vec<Trial> {
    // Tests are ignored only if the whole folder is missing.
    let published = published();
    let path = published.as_ref().map(|folder| folder.join(format!("schema/{version}.json")));
    let schema = path.and_then(|path| fs::read_to_string(path).ok()).map(|text| corrected(value(&text)));
    let schema = schema
        .map(|schema| if version >= ProtocolVersion::V2025_11_25 { with_skills(schema) } else { schema })
        .map(|schema| Arc::new(if version == ProtocolVersion::V2026_07_28 { with_tasks(schema) } else { schema }));
    let trial = |name: &str, test: fn(&Value, ProtocolVersion) -> Result<(), Failed>| {
        let given = schema.clone();
        Trial::test(format!("{version}::{name}"), move || test(given.as_ref().ok_or("no schema")?, version))
            .with_ignored_flag(published.is_none())
    };
    vec![
        trial("client_requests", client_requests),
        trial("server_requests", server_requests),
        trial("client_notifications", client_notifications),
        trial("server_notifications", server_notifications),
        trial("client_results", client_results),
        trial("server_results", server_results),
        trial("parts", parts),
        trial("every_message_is_among_them", every_message),
    ]
}

/// Names in the published schemas that stand for several messages, or for their common parts.
const GENERAL: [&str; 17] = [
    "Request",
    "Notification",
    "Result",
    "EmptyResult",
    "PaginatedRequest",
    "PaginatedResult",
    "CacheableResult",
    "ClientRequest",
    "ClientNotification",
    "ClientResult",
    "ServerRequest",
    "ServerNotification",
    "ServerResult",
    "InputRequest",
    "JSONRPCRequest",
    "JSONRPCNotification",
    "JSONRPCBatchRequest",
];

/// Checks that every message of the schema is tested.
fn every_message(schema: &Value, version: ProtocolVersion) -> Result<(), Failed> {
    let of = |methods: &[Method], what: &'static str| -> Vec<String> {
        methods.iter().filter(|it| it.versions().contains(version)).map(|it| definition(*it, what)).collect()
    };
    let mut tried: BTreeSet<String> = [
        of(ClientRequest::METHODS, "Request"),
        of(ServerRequest::METHODS, "Request"),
        of(ClientNotification::METHODS, "Notification"),
        of(ServerNotification::METHODS, "Notification"),
        of(ClientRequest::METHODS, "Result"),
        of(ServerRequest::METHODS, "Result"),
    ]
    .concat()
    .into_iter()
    .collect();
    // Types without a request of their own are tested separately: see `server_results` and `parts`.
    let inside: &[&str] = match version {
        ProtocolVersion::V2025_11_25 => &["CreateTaskResult"],
        ProtocolVersion::V2026_07_28 => &[
            "InputRequiredResult",
            "CreateTaskResult",
            "CreateMessageRequest",
            "CreateMessageResult",
            "ElicitRequest",
            "ElicitResult",
            "ListRootsRequest",
            "ListRootsResult",
        ],
        _ => &[],
    };
    tried.extend(inside.iter().map(|name| (*name).to_owned()));
    let definitions = schema.get("$defs").or_else(|| schema.get("definitions")).and_then(Value::as_object);
    let names = definitions.ok_or("no definitions")?.keys().filter(|name| {
        ["Request", "Notification", "Result"].iter().any(|end| name.ends_with(end)) && !GENERAL.contains(&name.as_str())
    });
    let left: Vec<_> = names.filter(|name| !tried.contains(*name)).collect();
    expect(left.is_empty(), || format!("no test tries {left:?}"))
}

/// Returns the schema as its TypeScript source has it.
///
/// The source is authoritative. Its generator writes `integer` for `number`, and omits `null` where a type is a union
/// of plain types: in the results of forms and in `JSONValue`.
fn corrected(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                match member {
                    Value::Array(types) if name == "type" && *types == ["string", "integer", "boolean"] => {
                        types.extend([json!("number"), json!("null")]);
                    }
                    member => *member = corrected(member.take()),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = corrected(item.take())),
        _ => {}
    }
    schema
}

/// Returns the schema with the additions of the skills extension, from its TypeScript types.
fn with_skills(mut schema: Value) -> Value {
    let uri = json!({"type": "string", "format": "uri"});
    let cursor = json!({"type": "string"});
    let is_modern = schema["$defs"].get("CacheableResult").is_some();
    let request = |method: &str, properties: Value, required: &[&str]| {
        json!({"allOf": [{"$ref": "#/$defs/JSONRPCRequest"}], "properties": {
            "method": {"const": method},
            "params": {"type": "object", "properties": properties, "required": required},
        }})
    };
    let result = |properties: Value, required: &[&str], cacheable: bool| {
        let base = if cacheable && is_modern { "CacheableResult" } else { "Result" };
        let hints = json!({"not": {"anyOf": [{"required": ["ttlMs"]}, {"required": ["cacheScope"]}]}});
        let hints = if base == "Result" { hints } else { json!({}) };
        let base = format!("#/$defs/{base}");
        json!({"allOf": [{"$ref": base}, hints], "properties": properties, "required": required})
    };
    let file = json!({
        "type": "object",
        "properties": {
            "uri": uri,
            "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
            "size": {"type": "integer", "minimum": 0},
        },
        "required": ["uri", "digest", "size"],
    });
    let skill = json!({
        "type": "object",
        "properties": {
            "uri": uri,
            "frontmatter": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
                "required": ["name", "description"],
            },
            "resources": {"oneOf": [{"type": "array", "items": file}, {"const": "dynamic"}]},
        },
        "required": ["uri", "frontmatter", "resources"],
    });
    let skills = json!({"skills": {"type": "array", "items": skill}, "nextCursor": cursor});
    let resources = json!({"type": "array", "items": {"$ref": "#/$defs/Resource"}});
    let added = json!({
        "ListSkillsRequest": request("skills/list", json!({"cursor": cursor}), &[]),
        "GetSkillRequest": request("skills/get", json!({"uri": uri}), &["uri"]),
        "ReadDirectoryRequest": request("resources/directory/read", json!({"uri": uri, "cursor": cursor}), &["uri"]),
        "ListSkillsResult": result(skills, &["skills"], true),
        "GetSkillResult": result(json!({"skill": skill}), &["skill"], true),
        "ReadDirectoryResult": result(json!({"resources": resources, "nextCursor": cursor}), &["resources"], false),
    });
    for (name, definition) in added.as_object().expect("definitions") {
        assert!(schema["$defs"].get(name).is_none(), "{name} is there already");
        schema["$defs"][name] = definition.clone();
    }
    schema
}

/// Returns the schema with the additions of the tasks extension, from its TypeScript types.
fn with_tasks(mut schema: Value) -> Value {
    let task = json!({
        "type": "object",
        "properties": {
            "taskId": {"type": "string"}, "statusMessage": {"type": "string"},
            "createdAt": {"type": "string", "format": "date-time"},
            "lastUpdatedAt": {"type": "string", "format": "date-time"},
            "ttlMs": {"type": ["integer", "null"]}, "pollIntervalMs": {"type": "integer"},
        },
        "required": ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"],
    });
    let none_of = |names: &[&str]| {
        let there: Vec<_> = names.iter().map(|name| json!({"required": [name]})).collect();
        json!({"anyOf": there})
    };
    let with = |status: &str, member: &str, others: [&str; 2], kind: Value| {
        let properties = json!({"status": {"const": status}, member: kind});
        json!({"properties": properties, "required": [member], "not": none_of(&others)})
    };
    let without = json!({
        "properties": {"status": {"enum": ["working", "cancelled"]}},
        "not": none_of(&["inputRequests", "result", "error"]),
    });
    let kinds = json!([
        without,
        with("input_required", "inputRequests", ["result", "error"], json!({"$ref": "#/$defs/InputRequests"})),
        with("completed", "result", ["inputRequests", "error"], json!({"type": "object"})),
        with("failed", "error", ["inputRequests", "result"], json!({"$ref": "#/$defs/Error"})),
    ]);
    let result =
        |kind: &str| json!({"allOf": [{"$ref": "#/$defs/Result"}, {"properties": {"resultType": {"const": kind}}}]});
    let request = |method: &str, properties: Value| {
        let required: Vec<_> = properties.as_object().expect("members").keys().cloned().collect();
        json!({"allOf": [{"$ref": "#/$defs/JSONRPCRequest"}], "required": ["params"], "properties": {
            "method": {"const": method},
            "params": {"allOf": [{"$ref": "#/$defs/RequestParams"}], "properties": properties, "required": required},
        }})
    };
    let id = json!({"type": "string"});
    let answers = json!({"$ref": "#/$defs/InputResponses"});
    let statuses = json!(["working", "input_required", "completed", "failed", "cancelled"]);
    let created = json!({
        "properties": {"status": {"enum": statuses}}, "not": none_of(&["inputRequests", "result", "error", "task"]),
    });
    let whole = json!({"allOf": [task], "oneOf": kinds});
    let added = json!({
        "GetTaskRequest": request("tasks/get", json!({"taskId": id})),
        "UpdateTaskRequest": request("tasks/update", json!({"taskId": id, "inputResponses": answers})),
        "CancelTaskRequest": request("tasks/cancel", json!({"taskId": id})),
        "CreateTaskResult": {"allOf": [result("task"), task, created]},
        "GetTaskResult": {"allOf": [result("complete"), whole]},
        "UpdateTaskResult": result("complete"),
        "CancelTaskResult": result("complete"),
        "TaskStatusNotification": {
            "allOf": [{"$ref": "#/$defs/JSONRPCNotification"}],
            "required": ["params"],
            "properties": {
                "method": {"const": "notifications/tasks"},
                "params": {"allOf": [{"$ref": "#/$defs/NotificationParams"}, whole]},
            },
        },
    });
    for (name, definition) in added.as_object().expect("definitions") {
        assert!(schema["$defs"].get(name).is_none(), "{name} is there already");
        schema["$defs"][name] = definition.clone();
    }
    schema
}

/// Returns the name of a method's params or result in the published schema.
fn definition(method: Method, what: &str) -> String {
    let name = match (method, what) {
        (Method::Ping | Method::SetLevel | Method::Subscribe | Method::Unsubscribe, "Result") => "Empty",
        (Method::Listen, _) => "SubscriptionsListen",
        (Method::GetTaskResult, _) => "GetTaskPayload",
        (Method::LogMessage, _) => "LoggingMessage",
        (Method::ToolsListChanged, _) => "ToolListChanged",
        (Method::PromptsListChanged, _) => "PromptListChanged",
        (Method::ResourcesListChanged, _) => "ResourceListChanged",
        (Method::ExtTaskChanged, _) => "TaskStatus",
        (Method::ExtGetTask, _) => "GetTask",
        (Method::ExtUpdateTask, _) => "UpdateTask",
        (Method::ExtCancelTask, _) => "CancelTask",
        (method, what) => return format!("{method:?}{what}"),
    };
    format!("{name}{what}")
}

/// Returns a validator of one definition.
fn validator(schema: &Value, definition: &str) -> Result<Validator, Failed> {
    let mut schema = schema.clone();
    let modern = schema["$schema"].as_str().is_some_and(|dialect| dialect.contains("2020-12"));
    let folder = if modern { "$defs" } else { "definitions" };
    if schema[folder].get(definition).is_none() {
        return Err(format!("no definition of {definition}").into());
    }
    schema["$ref"] = json!(format!("#/{folder}/{definition}"));
    let draft = if modern { Draft::Draft202012 } else { Draft::Draft7 };
    Ok(jsonschema::options().with_draft(draft).should_validate_formats(true).build(&schema)?)
}

/// Validators by method, each created once.
struct Validators<'a> {
    version: ProtocolVersion,
    schema: &'a Value,
    what: &'static str,
    made: Vec<(Method, Validator, u64)>,
}

impl<'a> Validators<'a> {
    const fn new(version: ProtocolVersion, schema: &'a Value, what: &'static str) -> Self {
        Self { version, schema, what, made: Vec::new() }
    }

    fn validate(&mut self, method: Method, message: &Value) -> Result<(), Failed> {
        let at = match self.made.iter().position(|(known, ..)| *known == method) {
            Some(at) => at,
            None => {
                self.made.push((method, validator(self.schema, &definition(method, self.what))?, 0));
                self.made.len() - 1
            }
        };
        let (_, validator, count) = &mut self.made[at];
        *count += 1;
        validate(validator, message, self.version)
    }

    /// Checks that every method of the revision was tested often enough.
    fn finish(self, version: ProtocolVersion, methods: &[Method]) -> Result<(), Failed> {
        for method in methods.iter().filter(|method| method.versions().contains(version)) {
            let count = self.made.iter().find(|(known, ..)| known == method).map_or(0, |(_, _, count)| *count);
            expect(count > ROUNDS / 2, || format!("{method} was tried {count} times"))?;
        }
        Ok(())
    }
}

fn validate(validator: &Validator, message: &Value, version: ProtocolVersion) -> Result<(), Failed> {
    JUDGED[version as usize].fetch_add(1, Ordering::Relaxed);
    validator.validate(message).map_err(|error| format!("{error} at {}\n{message:#}", error.instance_path()).into())
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(otherwise().into()) }
}

/// Returns random values for `version`, enough for `kinds` types. Some attempts give no value of the revision.
fn values<T: ArbitraryAt>(kinds: usize, version: ProtocolVersion) -> impl Iterator<Item = Result<T, Failed>> {
    (0..ROUNDS * kinds as u64).filter_map(move |seed| {
        let noise = noise(seed, 2048);
        match T::arbitrary_at(&mut Unstructured::new(&noise), Some(version)) {
            Ok(value) => Some(Ok(value)),
            Err(arbitrary::Error::IncorrectFormat) => None,
            Err(error) => Some(Err(error.into())),
        }
    })
}

/// Encodes a value and checks that it is decoded as the same value.
fn round_trip<T: Encode + PartialEq + std::fmt::Debug>(
    sent: &T,
    version: ProtocolVersion,
    decode: impl Fn(&str) -> Result<T, serde_json::Error>,
) -> Result<Value, Failed> {
    let text = encode(sent, version).map_err(|error| format!("{error}: {sent:#?}"))?;
    let read = decode(&text).map_err(|error| format!("{error} in {text}"))?;
    expect(read == *sent, || format!("{text}\nis read as {read:#?}\ninstead of {sent:#?}"))?;
    let again = encode(&read, version)?;
    expect(again == text, || format!("{text}\nis written again as\n{again}"))?;
    expect(same(&value(&encode(&read, None)?), &value(&text)), || format!("{text}\nhas more in it than its revision"))?;
    Ok(value(&text))
}

/// Returns params with the members that the engine adds.
fn complete_params(mut params: Value, version: ProtocolVersion) -> Value {
    if version == ProtocolVersion::V2026_07_28 {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version.as_str());
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    params
}

/// Returns a result with the members that the engine adds.
fn complete_result(mut result: Value, method: Method, version: ProtocolVersion) -> Value {
    if version == ProtocolVersion::V2026_07_28 && result.get("resultType").is_none() {
        result["resultType"] = json!("complete");
    }
    if method == Method::Listen {
        result["_meta"]["io.modelcontextprotocol/subscriptionId"] = json!(1);
    }
    result
}

fn request(method: Method, params: Value, version: ProtocolVersion) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method.as_str(), "params": complete_params(params, version)})
}

macro_rules! test_of_params {
    ($name:ident, $Type:ident, $what:literal, $message:expr) => {
        fn $name(schema: &Value, version: ProtocolVersion) -> Result<(), Failed> {
            let mut validators = Validators::new(version, schema, $what);
            if !$Type::METHODS.iter().any(|method| method.versions().contains(version)) {
                return Ok(());
            }
            for sent in values::<$Type>($Type::METHODS.len(), version) {
                let sent = sent?;
                let method = sent.method();
                let params = round_trip(&sent, version, |text| $Type::decode(method, Some(text)))?;
                expect(sent.is_empty() == (params == json!({})), || format!("{params} and is_empty"))?;
                validators.validate(method, &$message(method, params, version))?;
            }
            validators.finish(version, $Type::METHODS)
        }
    };
}

test_of_params!(client_requests, ClientRequest, "Request", request);
test_of_params!(server_requests, ServerRequest, "Request", request);
test_of_params!(client_notifications, ClientNotification, "Notification", notification);
test_of_params!(server_notifications, ServerNotification, "Notification", notification);

fn notification(method: Method, params: Value, _version: ProtocolVersion) -> Value {
    json!({"jsonrpc": "2.0", "method": method.as_str(), "params": params})
}

fn client_results(schema: &Value, version: ProtocolVersion) -> Result<(), Failed> {
    let mut validators = Validators::new(version, schema, "Result");
    if !ServerRequest::METHODS.iter().any(|method| method.versions().contains(version)) {
        return Ok(());
    }
    for sent in values::<ClientResult>(ServerRequest::METHODS.len(), version) {
        let sent = sent?;
        let method = sent.method();
        let result = round_trip(&sent, version, |text| ClientResult::decode(method, text))?;
        validators.validate(method, &complete_result(result, method, version))?;
    }
    validators.finish(version, ServerRequest::METHODS)
}

fn server_results(schema: &Value, version: ProtocolVersion) -> Result<(), Failed> {
    let mut validators = Validators::new(version, schema, "Result");
    let modern =
        |definition| (version == ProtocolVersion::V2026_07_28).then(|| validator(schema, definition)).transpose();
    let (input_requests, tasks) = (modern("InputRequiredResult")?, modern("CreateTaskResult")?);
    let (mut requested, mut became_tasks) = (0, 0);
    for sent in values::<ServerResult>(ClientRequest::METHODS.len(), version) {
        let sent = sent?;
        let method = sent.method();
        let result = round_trip(&sent, version, |text| ServerResult::decode(method, text))?;
        match sent {
            ServerResult::InputRequired(..) => {
                requested += 1;
                validate(input_requests.as_ref().ok_or("an input request before 2026-07-28")?, &result, version)?;
            }
            ServerResult::Task(..) => {
                became_tasks += 1;
                validate(tasks.as_ref().ok_or("a task of the extension before 2026-07-28")?, &result, version)?;
            }
            _ => validators.validate(method, &complete_result(result, method, version))?,
        }
    }
    if version == ProtocolVersion::V2026_07_28 {
        expect(requested.min(became_tasks) > ROUNDS / 2, || {
            format!("{requested} input requests, {became_tasks} tasks")
        })?;
    }
    validators.finish(version, ClientRequest::METHODS)
}

/// Checks types inside of other messages or of their errors.
fn parts(schema: &Value, version: ProtocolVersion) -> Result<(), Failed> {
    match version {
        ProtocolVersion::V2025_11_25 => {
            part::<CreateTaskResult>(schema, version, "CreateTaskResult", |result| result)?;
            part::<UrlElicitationRequired>(
                schema,
                version,
                "URLElicitationRequiredError",
                |data| json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32042, "message": "", "data": data}}),
            )
        }
        ProtocolVersion::V2026_07_28 => {
            part::<CreateMessageResult>(schema, version, "CreateMessageResult", |result| result)?;
            part::<ListRootsResult>(schema, version, "ListRootsResult", |result| result)?;
            part::<ElicitResult>(schema, version, "ElicitResult", |result| result)?;
            part::<InputRequest>(schema, version, "InputRequest", |input_request| input_request)?;
            part::<MissingRequiredClientCapability>(
                schema,
                version,
                "MissingRequiredClientCapabilityError",
                |data| json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32021, "message": "", "data": data}}),
            )?;
            part::<UnsupportedProtocolVersion>(
                schema,
                version,
                "UnsupportedProtocolVersionError",
                |data| json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": "", "data": data}}),
            )
        }
        _ => Ok(()),
    }
}

fn part<T: ArbitraryAt + Encode + DeserializeOwned + PartialEq + std::fmt::Debug>(
    schema: &Value,
    version: ProtocolVersion,
    definition: &str,
    message: fn(Value) -> Value,
) -> Result<(), Failed> {
    let validator = validator(schema, definition)?;
    for sent in values::<T>(1, version) {
        validate(&validator, &message(round_trip(&sent?, version, |text| serde_json::from_str(text))?), version)?;
    }
    Ok(())
}
