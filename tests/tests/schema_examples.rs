//! Every published example of the specification is decoded as the type of its folder, and encoded unchanged.
//!
//! The examples are those of 2026-07-28. Without them, the test is reported as ignored.

mod schema_support;

use std::{fs, path::Path, process::ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use mcp_proto::{
    protocol::{Method, ProtocolVersion},
    schema::{self, Encode},
    wire::{ErrorCode, Json},
};
use schema_support::{encode, published, same, value};
use serde::{Deserialize, de::DeserializeOwned};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match published() {
        Some(folder) => trials(&folder.join("examples")),
        None => vec![Trial::test("published_examples", || Ok(())).with_ignored_flag(true)],
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(folder: &Path) -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in sorted(folder) {
        for example in sorted(&folder.join(&kind)) {
            let path = folder.join(&kind).join(&example);
            let kind = kind.clone();
            trials.push(Trial::test(format!("{kind}/{example}"), move || check(&kind, &fs::read_to_string(path)?)));
        }
    }
    trials
}

fn sorted(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name != ".DS_Store")
        .collect();
    names.sort();
    names
}

/// The parts of a message that are needed to find its params or result.
#[derive(Deserialize)]
struct Envelope {
    method: Option<String>,
    params: Option<Json>,
    result: Option<Json>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: i64,
    data: Option<Json>,
}

fn check(kind: &str, text: &str) -> Result<(), Failed> {
    macro_rules! types {
        ($($Name:ident = $Type:ty,)*) => {
            match kind {
                $(stringify!($Name) => return there_and_back::<$Type>(text),)*
                _ => {}
            }
        };
    }
    use schema::*;
    types! {
        AudioContent = AudioContent,
        BlobResourceContents = BlobResourceContents,
        BooleanSchema = BooleanSchema,
        CallToolRequestParams = CallToolParams,
        CallToolResult = CallToolResult,
        CancelledNotificationParams = CancelledParams,
        ClientCapabilities = ClientCapabilities,
        CompleteRequestParams = CompleteParams,
        CompleteResult = CompleteResult,
        CreateMessageRequest = InputRequest,
        CreateMessageRequestParams = CreateMessageParams,
        CreateMessageResult = CreateMessageResult,
        DiscoverResult = DiscoverResult,
        ElicitRequest = InputRequest,
        ElicitRequestFormParams = ElicitFormParams,
        ElicitRequestURLParams = ElicitUrlParams,
        ElicitResult = ElicitResult,
        EmbeddedResource = EmbeddedResource,
        GetPromptRequestParams = GetPromptParams,
        GetPromptResult = GetPromptResult,
        ImageContent = ImageContent,
        InputRequests = InputRequests,
        InputRequiredResult = InputRequiredResult,
        InputResponses = InputResponses,
        ListPromptsResult = ListPromptsResult,
        ListResourceTemplatesResult = ListResourceTemplatesResult,
        ListResourcesResult = ListResourcesResult,
        ListRootsRequest = InputRequest,
        ListRootsResult = ListRootsResult,
        ListToolsResult = ListToolsResult,
        LoggingMessageNotificationParams = LogMessageParams,
        ModelPreferences = ModelPreferences,
        NumberSchema = NumberSchema,
        PaginatedRequestParams = ListToolsParams,
        ProgressNotificationParams = ProgressParams,
        ReadResourceResult = ReadResourceResult,
        Resource = Resource,
        ResourceLink = ResourceLink,
        ResourceUpdatedNotificationParams = ResourceUpdatedParams,
        Root = Root,
        SamplingMessage = SamplingMessage,
        ServerCapabilities = ServerCapabilities,
        StringSchema = StringSchema,
        SubscriptionsListenResult = SubscriptionsListenResult,
        TextContent = TextContent,
        TextResourceContents = TextResourceContents,
        TitledMultiSelectEnumSchema = TitledMultiSelectEnumSchema,
        TitledSingleSelectEnumSchema = TitledSingleSelectEnumSchema,
        Tool = Tool,
        ToolResultContent = ToolResultContent,
        ToolUseContent = ToolUseContent,
        UntitledMultiSelectEnumSchema = UntitledMultiSelectEnumSchema,
        UntitledSingleSelectEnumSchema = UntitledSingleSelectEnumSchema,
    }
    if kind.ends_with("SelectEnumSchema") || matches!(kind, "StringSchema" | "NumberSchema" | "BooleanSchema") {
        there_and_back::<PrimitiveSchema>(text)?;
    }
    check_message(kind, text)
}

/// Checks an example that is a whole message.
fn check_message(kind: &str, text: &str) -> Result<(), Failed> {
    use schema::{ClientRequest, ResultType, ServerNotification, ServerResult};

    let message: Envelope = serde_json::from_str(text)?;
    if kind.ends_with("Request") {
        let method = method(&message)?;
        let params = message.params.ok_or("no params")?;
        let request = ClientRequest::decode(method, Some(params.get()))?;
        expect(request.method() == method, "another method")?;
        return unchanged(&request, params.get());
    }
    if kind.ends_with("Notification") {
        let method = method(&message)?;
        let params = message.params.as_ref().map(Json::get);
        return unchanged(&ServerNotification::decode(method, params)?, params.unwrap_or("{}"));
    }
    if let Some(request) = kind.strip_suffix("ResultResponse") {
        let method =
            Method::ALL.iter().find(|method| format!("{method:?}") == request.replace("SubscriptionsListen", "Listen"));
        let result = message.result.ok_or("no result")?;
        expect(ResultType::of(result.get()) == Some(ResultType::Complete), "not complete")?;
        return unchanged(&ServerResult::decode(*method.ok_or("no such method")?, result.get())?, result.get());
    }
    if kind.ends_with("Error") {
        return error(kind, message.error.map_or_else(|| serde_json::from_str(text), Ok)?);
    }
    Err(format!("no type for {kind}").into())
}

fn method(message: &Envelope) -> Result<Method, Failed> {
    Ok(message.method.as_deref().and_then(Method::parse).ok_or("no method")?)
}

fn error(kind: &str, error: Failure) -> Result<(), Failed> {
    type Check = fn(&str) -> Result<(), Failed>;
    let (code, data): (_, Check) = match kind {
        "ParseError" => (ErrorCode::PARSE_ERROR, |_| Ok(())),
        "MethodNotFoundError" => (ErrorCode::METHOD_NOT_FOUND, |_| Ok(())),
        "InvalidParamsError" => (ErrorCode::INVALID_PARAMS, |_| Ok(())),
        "InternalError" => (ErrorCode::INTERNAL_ERROR, |_| Ok(())),
        "HeaderMismatchError" => (ErrorCode::HEADER_MISMATCH, |_| Ok(())),
        "MissingRequiredClientCapabilityError" => {
            (ErrorCode::MISSING_CLIENT_CAPABILITY, there_and_back::<schema::MissingRequiredClientCapability>)
        }
        "UnsupportedProtocolVersionError" => {
            (ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, there_and_back::<schema::UnsupportedProtocolVersion>)
        }
        _ => return Err(format!("no error {kind}").into()),
    };
    expect(error.code == code.0, "another code")?;
    data(error.data.as_ref().map_or("{}", Json::get))
}

fn there_and_back<T: DeserializeOwned + Encode>(text: &str) -> Result<(), Failed> {
    unchanged(&serde_json::from_str::<T>(text)?, text)
}

/// Checks that `read` is written as the text that it was read from.
fn unchanged<T: Encode>(read: &T, text: &str) -> Result<(), Failed> {
    let expected = value(text);
    let written = encode(read, None)?;
    expect(same(&value(&written), &expected), &format!("written as {written}"))?;

    // One example omits the caching hints, which the revision requires.
    let written = encode(read, ProtocolVersion::V2026_07_28)?;
    let mut value = value(&written);
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| expected.get(name).is_some() || !matches!(name.as_str(), "ttlMs" | "cacheScope"));
    }
    expect(same(&value, &expected), &format!("written for 2026-07-28 as {written}"))
}

fn expect(holds: bool, otherwise: &str) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
