//! Scripts for well-known servers.

use std::{path::Path, time::Duration};

use super::scripts::{
    Expect::{self, Contains, Failure, Keep, Kinds, Lacks, Logs, Progress, Refused, Session, Structured, Text},
    Step,
};

/// Returns the calls for a server of this name, which may read a folder.
pub(crate) fn steps(server: &str, folder: &Path) -> &'static [Step] {
    match server {
        "everything" => OURS,
        "mcp-servers/everything" => EVERYTHING,
        "secure-filesystem-server" => FILES,
        "memory-server" => MEMORY,
        "sequential-thinking-server" => THINKING,
        "mcp-time" => TIME,
        "mcp-git" if folder.join(".git").exists() => GIT,
        _ => &[],
    }
}

const fn step(tool: &'static str, arguments: &'static str, expected: &'static [Expect]) -> Step {
    Step { tool, arguments, expected }
}

/// The server of these examples; the fixtures are in `tests/interop/README.md`.
const OURS: &[Step] = &[
    step("test_simple_text", "{}", &[Text("This is a simple text response for testing.")]),
    step("test_image_content", "{}", &[Kinds(&["image"])]),
    step("test_audio_content", "{}", &[Kinds(&["audio"])]),
    step("test_embedded_resource", "{}", &[Text("<This is an embedded resource content.>")]),
    step("test_multiple_content_types", "{}", &[Kinds(&["text", "image", "resource"])]),
    step("test_error_handling", "{}", &[Failure, Contains("This tool intentionally returns an error for testing")]),
    step("test_tool_with_progress", "{}", &[Progress(3)]),
    step("test_tool_with_logging", "{}", &[Logs(3)]),
    step("json_schema_2020_12_tool", r#"{"contactMethod": "phone", "phone": "1"}"#, &[]),
    step("json_schema_2020_12_tool", r#"{"contactMethod": "phone", "email": "a@b.c"}"#, &[Failure]),
    step("greet", r#"{"name": "Ada"}"#, &[Text("Hello, Ada!")]),
    step("greet", r#"{"name": 7}"#, &[Failure]),
    step("test_slow", r#"{"ms": 20}"#, &[Text("slow done")]),
    step("test_structured", r#"{"a": 2, "b": 3.5}"#, &[Structured(r#"{"sum": 5.5}"#)]),
    step("test_ping_client", "{}", &[Session, Text("pong")]),
    step("test_roots", "{}", &[Contains("file:///")]),
    step("test_sampling", r#"{"prompt": "What is it?"}"#, &[Text("LLM response: Forty-two.")]),
    step("test_sampling_tools", r#"{"prompt": "What is it?"}"#, &[Text("LLM response: Forty-two.")]),
    step("test_elicitation", r#"{"message": "Who are you?"}"#, &[Contains("User response: action=accept")]),
    step("test_elicitation_sep1034_defaults", "{}", &[Contains("John Doe"), Contains("95.5")]),
    step("test_elicitation_sep1330_enums", "{}", &[Contains("action=accept")]),
    step("test_url_elicitation", "{}", &[Text("Url elicitation: action=accept")]),
    step("test_missing_capability", "{}", &[Text("The client has a model.")]),
    step("test_logging_tool", "{}", &[Logs(1)]),
    step("test_input_required_result_elicitation", "{}", &[Text("Hello, tour!")]),
    step("test_input_required_result_sampling", "{}", &[Text("Forty-two.")]),
    step("test_input_required_result_list_roots", "{}", &[Contains("file:///")]),
    step("test_input_required_result_request_state", "{}", &[Contains("state-ok")]),
    step("test_input_required_result_multiple_inputs", "{}", &[Contains("tour: Forty-two. Roots: file:///")]),
    step("test_input_required_result_multi_round", "{}", &[Text("tour likes tour")]),
    step("test_input_required_result_capabilities", "{}", &[Text("Answered: [user_name, greeting, client_roots]")]),
    step("test_reconnection", "{}", &[Text("You have come back.")]),
    step("test_header", r#"{"region": "us-west1"}"#, &[Text("in us-west1")]),
    step("test_task", r#"{"ms": 100, "label": "sum"}"#, &[Text("task sum done"), Progress(10)]),
    step("slow_compute", r#"{"seconds": 0.1, "label": "pi"}"#, &[Text("computed pi")]),
    step("failing_job", "{}", &[Failure]),
    step("confirm_delete", r#"{"filename": "old.txt"}"#, &[Text("old.txt would be deleted")]),
    step("multi_input", "{}", &[Text("tour likes tour")]),
    step("test_tool_with_task", "{}", &[Text("Hello, tour! This took a while.")]),
    step("test_trigger_tool_change", "{}", &[Contains("is there")]),
    step("test_dynamic_tool", "{}", &[Text("dynamic")]),
    // All tours of one server over HTTP share its list.
    step("test_trigger_tool_change", "{}", &[Contains("is gone")]),
];

/// `@modelcontextprotocol/server-everything`
const EVERYTHING: &[Step] = &[
    step("echo", r#"{"message": "Hello \u00fc \"\\ \n"}"#, &[Text("Echo: Hello ü \"\\ \n")]),
    step("get-sum", r#"{"a": 2, "b": 3}"#, &[Text("The sum of 2 and 3 is 5.")]),
    step(
        "get-annotated-message",
        r#"{"messageType": "success", "includeImage": true}"#,
        &[Contains("Operation completed successfully"), Kinds(&["text", "image"])],
    ),
    step("get-env", "{}", &[Contains("PATH")]),
    step("get-resource-links", r#"{"count": 2}"#, &[Kinds(&["text", "resource_link", "resource_link"])]),
    step(
        "get-resource-reference",
        r#"{"resourceType": "Text", "resourceId": 1}"#,
        &[Kinds(&["text", "resource", "text"])],
    ),
    step(
        "get-structured-content",
        r#"{"location": "New York"}"#,
        &[Structured(r#"{"temperature": 33, "conditions": "Cloudy", "humidity": 82}"#)],
    ),
    step("get-tiny-image", "{}", &[Kinds(&["text", "image", "text"])]),
    step(
        "gzip-file-as-resource",
        r#"{"name": "hello.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resourceLink"}"#,
        &[Kinds(&["resource_link"])],
    ),
    step("toggle-simulated-logging", "{}", &[Contains("Started")]),
    step("toggle-simulated-logging", "{}", &[Contains("Stopped")]),
    step("toggle-subscriber-updates", "{}", &[Contains("Started")]),
    step("toggle-subscriber-updates", "{}", &[Contains("Stopped")]),
    step("trigger-long-running-operation", r#"{"duration": 1, "steps": 4}"#, &[Contains("completed"), Progress(4)]),
    step("get-roots-list", "{}", &[Contains("file:///")]),
    step("trigger-sampling-request", r#"{"prompt": "What is it?", "maxTokens": 50}"#, &[Contains("Forty-two.")]),
    step("trigger-elicitation-request", "{}", &[Contains("Name: tour")]),
    step("trigger-url-elicitation", r#"{"url": "https://example.com/a"}"#, &[Contains("User completed")]),
    step(
        "trigger-url-elicitation",
        r#"{"url": "https://example.com/b", "elicitationId": "tour", "errorPath": true}"#,
        &[Refused(-32042)],
    ),
    step("trigger-sampling-request-async", r#"{"prompt": "What is it?", "maxTokens": 50}"#, &[Contains("Forty-two.")]),
    step("trigger-elicitation-request-async", "{}", &[Contains("Name: tour")]),
    step("simulate-research-query", r#"{"topic": "tea"}"#, &[Contains("Research Report: tea")]),
    step(
        "simulate-research-query",
        r#"{"topic": "tea", "ambiguous": true}"#,
        &[Contains("Research Report: tea ("), Lacks("unavailable")],
    ),
];

/// `@modelcontextprotocol/server-filesystem`: reads its first allowed folder, and a file in it.
const FILES: &[Step] = &[
    step("list_allowed_directories", "{}", &[Contains("Allowed directories:"), Keep("folder", second_line)]),
    step("list_directory", r#"{"path": "{folder}"}"#, &[Keep("file", first_file)]),
    step("list_directory_with_sizes", r#"{"path": "{folder}"}"#, &[Contains("{file}")]),
    step("directory_tree", r#"{"path": "{folder}"}"#, &[Contains("{file}")]),
    step("search_files", r#"{"path": "{folder}", "pattern": "**/{file}"}"#, &[Contains("{folder}/{file}")]),
    step("get_file_info", r#"{"path": "{folder}/{file}"}"#, &[Contains("isFile: true"), Contains("size: ")]),
    step("read_text_file", r#"{"path": "{folder}/{file}"}"#, &[Keep("text", first_line)]),
    step("read_text_file", r#"{"path": "{folder}/{file}", "head": 1}"#, &[Contains("{text}")]),
    step("read_file", r#"{"path": "{folder}/{file}"}"#, &[Contains("{text}")]),
    step("read_multiple_files", r#"{"paths": ["{folder}/{file}"]}"#, &[Contains("{text}")]),
    step("read_media_file", r#"{"path": "{folder}/{file}"}"#, &[]),
    step("read_text_file", r#"{"path": "/etc/hostname"}"#, &[Failure, Contains("denied")]),
];

/// `@modelcontextprotocol/server-memory`: stores two entities, finds them, and deletes them again.
const MEMORY: &[Step] = &[
    step(
        "create_entities",
        r#"{"entities": [
            {"name": "tour Ada", "entityType": "person", "observations": ["likes tea"]},
            {"name": "tour tea", "entityType": "drink", "observations": []}
        ]}"#,
        &[Contains("tour Ada"), Contains("tour tea")],
    ),
    step(
        "create_relations",
        r#"{"relations": [{"from": "tour Ada", "to": "tour tea", "relationType": "drinks"}]}"#,
        &[Contains("drinks")],
    ),
    step(
        "add_observations",
        r#"{"observations": [{"entityName": "tour Ada", "contents": ["gets up early"]}]}"#,
        &[Contains("gets up early")],
    ),
    step("read_graph", "{}", &[Contains("likes tea"), Contains("gets up early"), Contains("drinks")]),
    step("search_nodes", r#"{"query": "gets up early"}"#, &[Contains("tour Ada")]),
    step("open_nodes", r#"{"names": ["tour tea"]}"#, &[Contains("drink")]),
    step(
        "delete_observations",
        r#"{"deletions": [{"entityName": "tour Ada", "observations": ["likes tea"]}]}"#,
        &[Structured(r#"{"success": true}"#)],
    ),
    step(
        "delete_relations",
        r#"{"relations": [{"from": "tour Ada", "to": "tour tea", "relationType": "drinks"}]}"#,
        &[Structured(r#"{"success": true}"#)],
    ),
    step("delete_entities", r#"{"entityNames": ["tour Ada", "tour tea"]}"#, &[Structured(r#"{"success": true}"#)]),
    step("read_graph", "{}", &[Lacks("tour Ada"), Lacks("tour tea")]),
];

/// `@modelcontextprotocol/server-sequential-thinking`: two steps.
const THINKING: &[Step] = &[
    step(
        "sequentialthinking",
        r#"{"thought": "Where to begin?", "nextThoughtNeeded": true, "thoughtNumber": 1, "totalThoughts": 2}"#,
        &[Structured(
            r#"{"thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": true, "thoughtHistoryLength": 1}"#,
        )],
    ),
    step(
        "sequentialthinking",
        r#"{"thought": "That will do.", "nextThoughtNeeded": false, "thoughtNumber": 2, "totalThoughts": 2}"#,
        &[Structured(r#"{"thoughtNumber": 2, "nextThoughtNeeded": false, "thoughtHistoryLength": 2}"#)],
    ),
    step("sequentialthinking", r#"{"thought": "Nothing else."}"#, &[Failure]),
];

/// `mcp-server-time`
const TIME: &[Step] = &[
    step("get_current_time", r#"{"timezone": "UTC"}"#, &[Structured(r#"{"timezone": "UTC"}"#), Contains("+00:00")]),
    step("get_current_time", r#"{"timezone": "Nowhere/Land"}"#, &[Failure]),
    step(
        "convert_time",
        r#"{"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}"#,
        &[Structured(r#"{"time_difference": "+9.0h"}"#), Contains("21:30:00+09:00")],
    ),
    step(
        "convert_time",
        r#"{"source_timezone": "UTC", "time": "25:30", "target_timezone": "Asia/Tokyo"}"#,
        &[Failure, Contains("HH:MM")],
    ),
];

/// `mcp-server-git`: reads the repository of its command line.
const GIT: &[Step] = &[
    step("git_status", r#"{"repo_path": "{root}"}"#, &[Contains("Repository status:")]),
    step("git_log", r#"{"repo_path": "{root}", "max_count": 1}"#, &[Contains("Message: "), Keep("commit", commit)]),
    step("git_show", r#"{"repo_path": "{root}", "revision": "{commit}"}"#, &[Contains("commit {commit}")]),
    step("git_show", r#"{"repo_path": "{root}", "revision": "no-such-revision"}"#, &[Failure]),
    step("git_diff", r#"{"repo_path": "{root}", "target": "{commit}"}"#, &[Contains("{commit}")]),
    step("git_diff_unstaged", r#"{"repo_path": "{root}"}"#, &[Contains("Unstaged changes:")]),
    step("git_diff_staged", r#"{"repo_path": "{root}"}"#, &[Contains("Staged changes:")]),
    step("git_branch", r#"{"repo_path": "{root}", "branch_type": "local"}"#, &[Contains("* ")]),
    step("git_status", r#"{"repo_path": "{root}/no such folder"}"#, &[Failure]),
];

fn commit(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("Commit: "))
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().next()
}

fn second_line(text: &str) -> Option<&str> {
    text.lines().nth(1)
}

fn first_file(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("[FILE] "))
}

/// A resource that changes when a tool is called.
#[derive(Clone, Copy)]
pub(crate) struct Watched {
    pub(crate) uri: &'static str,
    pub(crate) tool: &'static str,
    /// The tool switches updates on, and off when it is called again.
    pub(crate) toggles: bool,
    pub(crate) patience: Duration,
}

/// Returns the resource of a server that can be made to change.
pub(crate) fn watched(server: &str) -> Option<Watched> {
    let patience = Duration::from_secs(15);
    match server {
        "everything" => {
            Some(Watched { uri: "test://watched-resource", tool: "test_touch_watched", toggles: false, patience })
        }
        "mcp-servers/everything" => {
            let uri = "demo://resource/static/document/features.md";
            Some(Watched { uri, tool: "toggle-subscriber-updates", toggles: true, patience })
        }
        _ => None,
    }
}

/// Returns a tool of a server whose duration is an argument.
pub(crate) fn slow(server: &str) -> Option<&'static str> {
    match server {
        "everything" => Some("test_slow"),
        "mcp-servers/everything" => Some("trigger-long-running-operation"),
        _ => None,
    }
}

/// Returns a text for an argument of a prompt.
pub(crate) fn text(argument: &str) -> &'static str {
    match argument {
        "resourceId" => "1",
        "resourceUri" => "test://embedded-resource",
        _ => "tour",
    }
}
