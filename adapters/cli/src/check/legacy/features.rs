//! Tools, prompts, resources, completion, logging and tasks in sessions.

use serde_json::{Value, json};

use crate::check::{
    completion,
    definition::{Check, legacy},
    listing,
    outcome::{Breaks, Rules, Verdict, ensure, failed, judge_each, not_applicable, not_reachable},
    probe::{NEWEST, Probe},
    shapes::{self, MessageRules},
};

const UNKNOWN: &str = "mcp-check-unknown";

/// The rules about the messages of a prompt.
const OF_MESSAGES: Rules = &[
    "PROMPT-008",
    "PROMPT-009",
    "PROMPT-010",
    "PROMPT-011",
    "CONT-001",
    "CONT-002",
    "CONT-003",
    "CONT-005",
    "CONT-007",
    "CONT-011",
    "CONT-016",
];

pub(in crate::check) const CHECKS: &[Check] = &[
    legacy("tools-list", "Tools have a name and an object as schema", &["TOOL-002", "TOOL-003", "TOOL-004"], tools)
        .needs("tools"),
    legacy("tool-names-unique", "Names of tools are unique", &["TOOL-006"], tool_names_unique).needs("tools"),
    legacy("tool-names", "Names of tools have 1 to 128 of the allowed characters", &["TOOL-007"], tool_names)
        .needs("tools")
        .since(NEWEST)
        .should(),
    legacy("tool-schemas", "Schemas of tools are valid JSON Schemas", &["SCHEMA-005"], tool_schemas)
        .needs("tools")
        .since(NEWEST),
    legacy("tool-tasks", "taskSupport of tools is a known value", &["TOOL-039"], tool_tasks)
        .needs("tools")
        .since(NEWEST),
    legacy("tool-unknown", "A call of an unknown tool is answered with an error", &["TOOL-021"], tool_unknown)
        .needs("tools")
        .should(),
    legacy("call-without-name", "A call without a name is answered with -32602", &["BASE-025"], call_without_name)
        .needs("tools")
        .should(),
    legacy("list-cursor", "Cursors are texts", &["PAGE-001"], list_cursor),
    legacy("list-end", "Lists end", &["PAGE-003"], list_end).should(),
    legacy("list-stable", "Paging returns every item once", &["PAGE-010"], list_stable).should(),
    legacy("list-invalid-cursor", "An invalid cursor is answered with -32602", &["PAGE-009"], listing::invalid_cursor)
        .should(),
    legacy(
        "prompts-list",
        "Prompts and their arguments have names",
        &["PROMPT-002", "PROMPT-003", "PROMPT-005"],
        prompts,
    )
    .needs("prompts"),
    legacy("prompt-names-unique", "Names of prompts are unique", &["PROMPT-004"], prompt_names_unique).needs("prompts"),
    legacy("prompt-messages", "Prompts have messages with roles and content", OF_MESSAGES, prompt_get).needs("prompts"),
    legacy("prompt-unknown", "An unknown prompt is answered with -32602", &["PROMPT-012"], prompt_unknown)
        .needs("prompts")
        .should(),
    legacy(
        "prompt-without-argument",
        "A missing argument of a prompt is answered with -32602",
        &["PROMPT-013"],
        prompt_without_argument,
    )
    .needs("prompts")
    .should(),
    legacy("resources-list", "Resources have a name and a URI", &["RES-002", "RES-003", "RES-006"], resources)
        .needs("resources"),
    legacy("templates-list", "Templates have a name and a URI template", &["RES-011", "RES-012"], templates)
        .needs("resources"),
    legacy("resource-contents", "Contents have a URI and text or base64", &["RES-008", "CONT-011"], resource_contents)
        .needs("resources"),
    legacy("resource-unknown", "An unknown URI is answered with -32002", &["RES-023"], resource_unknown)
        .needs("resources")
        .should(),
    legacy("resource-subscribe", "Subscriptions have an empty result", &["RES-017"], resource_subscribe)
        .needs("resources"),
    legacy("completion", "A completion has at most 100 texts", &["COMPL-008"], completion::shape).needs("completions"),
    legacy("completion-unknown", "Completion of an unknown prompt is -32602", &["COMPL-012"], completion::unknown)
        .needs("completions")
        .should(),
    legacy(
        "completion-undeclared",
        "Completion without the capability is -32601",
        &["COMPL-011"],
        completion::undeclared,
    )
    .since("2025-03-26")
    .should(),
    legacy("log-levels", "The eight levels are accepted", &["LOG-002"], log_levels).needs("logging"),
    legacy("log-level-unknown", "An unknown level is answered with -32602", &["LOG-007"], log_level_unknown)
        .needs("logging")
        .should(),
    legacy("task-unknown", "An unknown task is answered with -32602", &["TASK-053"], task_unknown)
        .needs("tasks")
        .since(NEWEST),
    legacy("task-cursor", "An invalid cursor of tasks is answered with -32602", &["TASK-052"], task_cursor)
        .needs("tasks")
        .since(NEWEST),
];

fn tools(probe: &mut Probe) -> Verdict {
    let tools = probe.list_with_items("tools/list", "tools", &["TOOL-002"])?;
    tools.iter().try_for_each(|tool| shapes::tool(tool, &["TOOL-003"], &["TOOL-004"]))
}

fn tool_names_unique(probe: &mut Probe) -> Verdict {
    shapes::unique(&probe.list("tools/list", "tools")?, "name")
}

fn tool_names(probe: &mut Probe) -> Verdict {
    for tool in probe.list("tools/list", "tools")? {
        let name = shapes::name_of(&tool, "name");
        let is_good = (1..=128).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        ensure(is_good, || format!("a tool has the name `{name}`"))?;
    }
    Ok(())
}

fn tool_schemas(probe: &mut Probe) -> Verdict {
    for tool in probe.list("tools/list", "tools")? {
        let name = shapes::name_of(&tool, "name");
        for member in ["inputSchema", "outputSchema"] {
            if let Some(schema) = tool.get(member) {
                shapes::schema(schema, &format!("{name}/{member}"), 0)?;
            }
        }
    }
    Ok(())
}

fn tool_tasks(probe: &mut Probe) -> Verdict {
    for tool in probe.list("tools/list", "tools")? {
        let support = &tool["execution"]["taskSupport"];
        let is_known = support.is_null() || ["forbidden", "optional", "required"].iter().any(|it| support == it);
        ensure(is_known, || format!("taskSupport of `{}` is {support}", shapes::name_of(&tool, "name")))?;
    }
    Ok(())
}

fn tool_unknown(probe: &mut Probe) -> Verdict {
    probe.call("tools/call", json!({"name": UNKNOWN, "arguments": {}}))?.expect_error()
}

fn call_without_name(probe: &mut Probe) -> Verdict {
    probe.call("tools/call", json!({"arguments": {}}))?.expect_code(-32602)
}

fn list_cursor(probe: &mut Probe) -> Verdict {
    listing::each(probe, |probe, method, member| probe.list_with_cursors(method, member, &["PAGE-001"]))
}

fn list_end(probe: &mut Probe) -> Verdict {
    listing::each(probe, |probe, method, member| probe.list_with_end(method, member, &["PAGE-003"]))
}

fn list_stable(probe: &mut Probe) -> Verdict {
    let mut paged = 0;
    let verdict = judge_each(listing::lists(probe), |(method, member)| {
        let all = probe.list(method, member)?;
        let first = probe.call_needed(method, Value::Null)?;
        let page = first.message["result"][member].as_array().map_or(0, Vec::len);
        paged += usize::from(page < all.len());
        let key = if member == "resources" { "uri" } else { "name" };
        let key = if member == "resourceTemplates" { "uriTemplate" } else { key };
        shapes::unique(&all, key).or_else(|_| failed(format!("{method} returns an item on two pages, or twice")))
    });
    if paged == 0 { verdict.and_then(|()| not_applicable("all lists have one page")) } else { verdict }
}

fn prompts(probe: &mut Probe) -> Verdict {
    let prompts = probe.list_with_items("prompts/list", "prompts", &["PROMPT-002"])?;
    prompts.iter().try_for_each(|prompt| {
        shapes::texts(prompt, "a prompt", &["name"]).breaks(&["PROMPT-003"])?;
        let Some(arguments) = prompt.get("arguments") else { return Ok(()) };
        let Some(arguments) = arguments.as_array() else {
            return failed("`arguments` of a prompt is not an array").breaks(&["PROMPT-003"]);
        };
        let each = arguments.iter().try_for_each(|argument| {
            shapes::texts(argument, "an argument of a prompt", &["name"])?;
            shapes::optional(argument, "an argument of a prompt", "required", "a boolean", Value::is_boolean)
        });
        each.breaks(&["PROMPT-005"])
    })
}

fn prompt_names_unique(probe: &mut Probe) -> Verdict {
    shapes::unique(&probe.list("prompts/list", "prompts")?, "name")
}

fn has_required(prompt: &Value) -> bool {
    prompt["arguments"].as_array().is_some_and(|arguments| arguments.iter().any(|it| it["required"] == true))
}

fn prompt_get(probe: &mut Probe) -> Verdict {
    let mut prompts = probe.list("prompts/list", "prompts")?;
    prompts.retain(|prompt| !has_required(prompt));
    if prompts.is_empty() {
        return not_applicable("each prompt needs arguments");
    }
    for prompt in prompts {
        let reply = probe.call("prompts/get", json!({"name": prompt["name"], "arguments": {}}))?;
        // A prompt may need a capability that this client does not have.
        if let Ok(result) = reply.result() {
            let version = probe.version().to_owned();
            let messages = result.get("messages").unwrap_or(&Value::Null);
            let rules = MessageRules {
                members: &["PROMPT-008"],
                roles: &["CONT-016"],
                types: match version.as_str() {
                    "2024-11-05" => &["PROMPT-009"],
                    "2025-03-26" => &["PROMPT-010"],
                    _ => &["PROMPT-011"],
                },
                text: &["CONT-001"],
                image: &["CONT-002"],
                audio: &["CONT-003"],
                link: &["CONT-007"],
                embedded: &["CONT-005"],
                base64: &["CONT-011"],
            };
            return shapes::prompt_messages(messages, &version, &rules);
        }
    }
    not_reachable("no prompt is returned without arguments")
}

fn prompt_unknown(probe: &mut Probe) -> Verdict {
    probe.call("prompts/get", json!({"name": UNKNOWN}))?.expect_code(-32602)
}

fn prompt_without_argument(probe: &mut Probe) -> Verdict {
    let prompts = probe.list("prompts/list", "prompts")?;
    let Some(prompt) = prompts.iter().find(|prompt| has_required(prompt)) else {
        return not_applicable("no prompt has a required argument");
    };
    probe.call("prompts/get", json!({"name": prompt["name"], "arguments": {}}))?.expect_code(-32602)
}

fn resources(probe: &mut Probe) -> Verdict {
    let resources = probe.list_with_items("resources/list", "resources", &["RES-002"])?;
    resources.iter().try_for_each(|resource| {
        shapes::texts(resource, "a resource", &["uri", "name"]).breaks(&["RES-003"])?;
        let uri = shapes::name_of(resource, "uri");
        ensure(shapes::is_uri(uri), || format!("`{uri}` is no URI")).breaks(&["RES-006"])
    })
}

fn templates(probe: &mut Probe) -> Verdict {
    let templates = probe.list_with_items("resources/templates/list", "resourceTemplates", &["RES-011"])?;
    let each = templates.iter().try_for_each(|it| shapes::texts(it, "a template", &["uriTemplate", "name"]));
    each.breaks(&["RES-012"])
}

fn resource_contents(probe: &mut Probe) -> Verdict {
    let resources = probe.list("resources/list", "resources")?;
    let Some(resource) = resources.first() else { return not_applicable("there are no resources") };
    let reply = probe.call("resources/read", json!({"uri": resource["uri"]}))?;
    let Some(all) = reply.result()?.get("contents").and_then(Value::as_array) else {
        return failed("`contents` is not an array").breaks(&["RES-008"]);
    };
    all.iter().try_for_each(|it| shapes::contents(it, &["RES-008"], &["CONT-011"]))
}

fn resource_unknown(probe: &mut Probe) -> Verdict {
    probe.call("resources/read", json!({"uri": "mcp-check://unknown"}))?.expect_code(-32002)
}

fn resource_subscribe(probe: &mut Probe) -> Verdict {
    if probe.capability("resources").is_none_or(|it| it["subscribe"] != true) {
        return not_applicable("the server does not declare `resources.subscribe`");
    }
    let resources = probe.list("resources/list", "resources")?;
    let Some(resource) = resources.first() else { return not_applicable("there are no resources") };
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let reply = probe.call(method, json!({"uri": resource["uri"]}))?;
        // A server may refuse single resources.
        let result = reply.result()?;
        ensure(result.keys().all(|name| name == "_meta"), || format!("the result of {method} is not empty"))?;
    }
    Ok(())
}

fn log_levels(probe: &mut Probe) -> Verdict {
    // The last one is one that servers begin with: the level stays for the next checks.
    for level in ["debug", "notice", "warning", "error", "critical", "alert", "emergency", "info"] {
        let reply = probe.call("logging/setLevel", json!({"level": level}))?;
        ensure(reply.message["result"].is_object(), || format!("the level `{level}` is refused"))?;
    }
    Ok(())
}

fn log_level_unknown(probe: &mut Probe) -> Verdict {
    probe.call("logging/setLevel", json!({"level": "loud"}))?.expect_code(-32602)
}

fn task_unknown(probe: &mut Probe) -> Verdict {
    for method in ["tasks/get", "tasks/result"] {
        probe.call(method, json!({"taskId": UNKNOWN}))?.expect_code(-32602)?;
    }
    Ok(())
}

fn task_cursor(probe: &mut Probe) -> Verdict {
    if probe.capability("tasks").is_none_or(|tasks| tasks.get("list").is_none()) {
        return not_applicable("the server does not declare `tasks.list`");
    }
    probe.call("tasks/list", json!({"cursor": UNKNOWN}))?.expect_code(-32602)
}
