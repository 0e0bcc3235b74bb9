//! Tools, prompts, resources and completion of 2026-07-28.

use serde_json::{Value, json};

use super::messages::{HintRules, hints};
use crate::check::{
    completion,
    definition::{Check, modern},
    listing,
    outcome::{Breaks, Outcome, Rules, Verdict, ensure, failed, judge_each, not_applicable, not_reachable},
    probe::{MODERN, Probe, modern_meta},
    shapes::{self, MessageRules},
};

const UNKNOWN: &str = "mcp-check-unknown";

pub(in crate::check) const CHECKS: &[Check] = &[
    modern("modern-tools-list", "Tools have a name and an object as schema", &["M-TOOL-006", "M-TOOL-007"], tools)
        .needs("tools"),
    modern("modern-tool-names-unique", "Names of tools are unique", &["M-TOOL-026"], tool_names_unique)
        .needs("tools")
        .should(),
    modern("modern-tool-schemas", "Schemas of tools are valid JSON Schemas", &["M-SCHEMA-006"], tool_schemas)
        .needs("tools"),
    modern(
        "modern-tool-headers",
        "x-mcp-header is a unique token at a simple property",
        &["M-HTTP-052", "M-HTTP-053", "M-HTTP-054", "M-HTTP-055"],
        tool_headers,
    )
    .needs("tools"),
    modern("modern-tool-unknown", "A call of an unknown tool is answered with -32602", &["M-TOOL-018"], tool_unknown)
        .needs("tools"),
    modern("modern-call-without-name", "A call without a name is answered with -32602", &["M-TOOL-019"], call_nameless)
        .needs("tools"),
    modern("modern-list-order", "The order of tools does not change", &["M-TOOL-005"], list_order)
        .needs("tools")
        .should(),
    modern("modern-list-hints", "Lists have caching hints", &["M-CACHE-001", "M-CACHE-002", "M-CACHE-003"], list_hints),
    modern(
        "modern-list-cursor",
        "Cursors are texts, and all pages have one scope",
        &["M-PAGE-001", "M-CACHE-025"],
        list_cursor,
    ),
    modern("modern-list-end", "Lists end", &["M-PAGE-010"], list_end).should(),
    modern(
        "modern-invalid-cursor",
        "An invalid cursor is answered with -32602",
        &["M-PAGE-008"],
        listing::invalid_cursor,
    )
    .should(),
    modern(
        "modern-prompts-list",
        "Prompts and their arguments have names",
        &["M-PROMPT-005", "M-PROMPT-006", "M-PROMPT-007"],
        prompts,
    )
    .needs("prompts"),
    modern("modern-prompt-messages", "Prompts have messages with roles and content", &["M-PROMPT-009"], prompt_get)
        .needs("prompts"),
    modern("modern-prompt-unknown", "An unknown prompt is answered with -32602", &["M-PROMPT-010"], prompt_unknown)
        .needs("prompts")
        .should(),
    modern("modern-prompt-argument", "A missing argument of a prompt is -32602", &["M-PROMPT-011"], prompt_argument)
        .needs("prompts")
        .should(),
    modern("modern-resources-list", "Resources have a name and a URI", &["M-RES-006", "M-RES-008"], resources)
        .needs("resources"),
    modern("modern-templates-list", "Templates have a name and a URI template", &["M-RES-007", "M-RES-009"], templates)
        .needs("resources"),
    modern(
        "modern-contents",
        "Contents have caching hints, a URI, and text or base64",
        &["M-RES-011", "M-RES-012", "M-CACHE-001", "M-CACHE-002", "M-CACHE-003"],
        contents,
    )
    .needs("resources"),
    modern("modern-resource-unknown", "An unknown URI is answered with -32602", &["M-RES-015"], resource_unknown)
        .needs("resources"),
    modern("modern-completion", "A completion has at most 100 texts", &["M-COMPL-005"], completion::shape)
        .needs("completions"),
    modern(
        "modern-completion-unknown",
        "Completion of an unknown prompt is -32602",
        &["M-COMPL-009"],
        completion::unknown,
    )
    .needs("completions")
    .should(),
    modern(
        "modern-completion-undeclared",
        "Completion without the capability is -32601",
        &["M-COMPL-008"],
        completion::undeclared,
    )
    .should(),
    modern("modern-log-level", "An unknown log level is answered with -32602", &["M-LOG-007"], log_level)
        .needs("tools")
        .should(),
];

fn tools(probe: &mut Probe) -> Verdict {
    const MEMBERS: Rules = &["M-TOOL-007"];
    let tools = probe.list_with_items("tools/list", "tools", &["M-TOOL-006"])?;
    tools.iter().try_for_each(|tool| shapes::tool(tool, MEMBERS, MEMBERS))
}

fn tool_names_unique(probe: &mut Probe) -> Verdict {
    shapes::unique(&probe.list("tools/list", "tools")?, "name")
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

fn tool_headers(probe: &mut Probe) -> Verdict {
    let mut found = 0;
    for tool in probe.list("tools/list", "tools")? {
        let mut names = Vec::new();
        annotations(&tool["inputSchema"], &mut names)?;
        found += names.len();
        names.sort_unstable();
        let total = names.len();
        names.dedup();
        ensure(names.len() == total, || format!("`{}` has a header twice", shapes::name_of(&tool, "name")))
            .breaks(&["M-HTTP-054"])?;
    }
    if found == 0 { not_applicable("no tool has `x-mcp-header`") } else { Ok(()) }
}

/// Gathers the headers of properties. Those at other places are not judged.
fn annotations(schema: &Value, names: &mut Vec<String>) -> Verdict {
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    for property in properties.values() {
        if let Some(header) = property.get("x-mcp-header") {
            let text = header.as_str().unwrap_or_default();
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let broken: Rules = if header == "" { &["M-HTTP-052", "M-HTTP-053"] } else { &["M-HTTP-053"] };
            ensure(!text.is_empty() && text.bytes().all(is_letter), || format!("`x-mcp-header` is {header}"))
                .breaks(broken)?;
            let kind = &property["type"];
            ensure(is_simple(kind), || format!("`x-mcp-header` is at a property of the type {kind}"))
                .breaks(&["M-HTTP-055"])?;
            names.push(text.to_ascii_lowercase());
        }
        annotations(property, names)?;
    }
    Ok(())
}

/// Returns whether a type is one that a header has. `null` may stand beside it: then there is no header.
fn is_simple(kind: &Value) -> bool {
    let kinds = kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice);
    let mut others = kinds.iter().filter(|kind| kinds.len() == 1 || **kind != "null");
    let is_header = |kind: &Value| ["string", "integer", "boolean"].iter().any(|it| kind == it);
    others.next().is_some_and(is_header) && others.next().is_none()
}

fn tool_unknown(probe: &mut Probe) -> Verdict {
    probe.call("tools/call", json!({"name": UNKNOWN, "arguments": {}}))?.expect_code(-32602)
}

fn call_nameless(probe: &mut Probe) -> Verdict {
    if probe.is_http() {
        return not_applicable("over HTTP, the header of the name is judged first");
    }
    probe.call("tools/call", json!({"arguments": {}}))?.expect_code(-32602)
}

fn list_order(probe: &mut Probe) -> Verdict {
    let mut order = || -> Result<Vec<Value>, Outcome> {
        let reply = probe.call_needed("tools/list", Value::Null)?;
        let tools = reply.result()?.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(tools.into_iter().map(|tool| tool["name"].clone()).collect())
    };
    let (first, second) = (order()?, order()?);
    ensure(first == second, || format!("{} becomes {}", json!(first), json!(second)))
}

fn list_hints(probe: &mut Probe) -> Verdict {
    const RULES: HintRules = HintRules { members: &["M-CACHE-001"], times: &["M-CACHE-002"], scopes: &["M-CACHE-003"] };
    listing::each(probe, |probe, method, _| {
        let reply = probe.call_needed(method, Value::Null)?;
        reply.result()?;
        let verdict = hints(&reply.message["result"], &RULES);
        verdict.map_err(|outcome| outcome.map(|why| format!("{method}: {why}")))
    })
}

fn list_cursor(probe: &mut Probe) -> Verdict {
    let mut paged = 0;
    let verdict = judge_each(listing::lists(probe), |(method, member)| {
        probe.list_with_cursors(method, member, &["M-PAGE-001"])?;
        let first = probe.call_needed(method, Value::Null)?;
        let Some(next) = first.result()?.get("nextCursor") else { return Ok(()) };
        paged += 1;
        let second = probe.call_needed(method, json!({"cursor": next}))?;
        let (one, two) = (&first.message["result"]["cacheScope"], &second.result()?["cacheScope"]);
        ensure(one == two, || format!("the pages of {method} have the scopes {one} and {two}")).breaks(&["M-CACHE-025"])
    });
    if paged == 0 { verdict.and_then(|()| not_applicable("no list has a second page")) } else { verdict }
}

fn list_end(probe: &mut Probe) -> Verdict {
    listing::each(probe, |probe, method, member| probe.list_with_end(method, member, &["M-PAGE-010"]))
}

fn prompts(probe: &mut Probe) -> Verdict {
    let prompts = probe.list_with_items("prompts/list", "prompts", &["M-PROMPT-005"])?;
    prompts.iter().try_for_each(|prompt| {
        shapes::texts(prompt, "a prompt", &["name"]).breaks(&["M-PROMPT-006"])?;
        let arguments = prompt["arguments"].as_array().cloned().unwrap_or_default();
        let each = arguments.iter().try_for_each(|argument| {
            shapes::texts(argument, "an argument of a prompt", &["name"])?;
            shapes::optional(argument, "an argument of a prompt", "required", "a boolean", Value::is_boolean)
        });
        each.breaks(&["M-PROMPT-007"])
    })
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
        // A prompt may need input, or a capability that this client does not have.
        match reply.result() {
            Ok(result) if result.get("resultType").is_none_or(|kind| kind != "input_required") => {
                let messages = result.get("messages").unwrap_or(&Value::Null);
                return shapes::prompt_messages(messages, MODERN, &MessageRules::default());
            }
            _ => {}
        }
    }
    not_reachable("no prompt is returned without arguments")
}

fn prompt_unknown(probe: &mut Probe) -> Verdict {
    probe.call("prompts/get", json!({"name": UNKNOWN}))?.expect_code(-32602)
}

fn prompt_argument(probe: &mut Probe) -> Verdict {
    let prompts = probe.list("prompts/list", "prompts")?;
    let Some(prompt) = prompts.iter().find(|prompt| has_required(prompt)) else {
        return not_applicable("no prompt has a required argument");
    };
    probe.call("prompts/get", json!({"name": prompt["name"], "arguments": {}}))?.expect_code(-32602)
}

fn resources(probe: &mut Probe) -> Verdict {
    let resources = probe.list_with_items("resources/list", "resources", &["M-RES-006"])?;
    let each = resources.iter().try_for_each(|resource| {
        shapes::texts(resource, "a resource", &["uri", "name"])?;
        let uri = shapes::name_of(resource, "uri");
        ensure(shapes::is_uri(uri), || format!("`{uri}` is no URI"))
    });
    each.breaks(&["M-RES-008"])
}

fn templates(probe: &mut Probe) -> Verdict {
    let templates = probe.list_with_items("resources/templates/list", "resourceTemplates", &["M-RES-007"])?;
    let each = templates.iter().try_for_each(|it| shapes::texts(it, "a template", &["uriTemplate", "name"]));
    each.breaks(&["M-RES-009"])
}

fn contents(probe: &mut Probe) -> Verdict {
    const OF_RESULT: Rules = &["M-RES-011"];
    const OF_CONTENTS: Rules = &["M-RES-012"];
    const HINTS: HintRules =
        HintRules { members: &["M-RES-011", "M-CACHE-001"], times: &["M-CACHE-002"], scopes: &["M-CACHE-003"] };
    let resources = probe.list("resources/list", "resources")?;
    let Some(resource) = resources.first() else { return not_applicable("there are no resources") };
    let reply = probe.call("resources/read", json!({"uri": resource["uri"]}))?;
    let result = reply.result()?;
    if result.get("resultType").is_some_and(|kind| kind == "input_required") {
        return not_reachable("the resource needs input");
    }
    hints(&reply.message["result"], &HINTS)?;
    let Some(all) = result.get("contents").and_then(Value::as_array) else {
        return failed("`contents` is not an array").breaks(OF_RESULT);
    };
    all.iter().try_for_each(|it| shapes::contents(it, OF_CONTENTS, OF_CONTENTS))
}

fn resource_unknown(probe: &mut Probe) -> Verdict {
    probe.call("resources/read", json!({"uri": "mcp-check://unknown"}))?.expect_code(-32602)
}

fn log_level(probe: &mut Probe) -> Verdict {
    if probe.capability("logging").is_none() {
        return not_applicable("the server does not declare `logging`");
    }
    // Whether the list is there at all is another check.
    probe.call_needed("tools/list", Value::Null)?.result()?;
    let mut meta = modern_meta();
    meta["io.modelcontextprotocol/logLevel"] = json!("loud");
    // The request asks for log messages, if with a wrong level.
    probe.accepts_logging = true;
    probe.call("tools/list", json!({"_meta": meta}))?.expect_code(-32602)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_simple_types() {
        for kind in [json!("string"), json!(["string", "null"]), json!(["null", "integer"]), json!(["boolean"])] {
            assert!(is_simple(&kind), "{kind}");
        }
        for kind in
            [json!(null), json!("null"), json!([]), json!(["null"]), json!(["string", "integer"]), json!("array")]
        {
            assert!(!is_simple(&kind), "{kind}");
        }
    }
}
