//! Shapes of JSON that the specification requires.

use std::collections::HashSet;

use serde_json::Value;

use super::outcome::{Breaks, Rules, Verdict, ensure, failed};

/// Lists: the capability, the method, and the member of its result.
pub(super) const LISTS: [(&str, &str, &str); 4] = [
    ("tools", "tools/list", "tools"),
    ("prompts", "prompts/list", "prompts"),
    ("resources", "resources/list", "resources"),
    ("resources", "resources/templates/list", "resourceTemplates"),
];

/// The deepest schema that is judged.
const MAX_DEPTH: usize = 64;

/// Fails unless the members of an object are texts.
pub(super) fn texts(object: &Value, of: &str, names: &[&str]) -> Verdict {
    names.iter().try_for_each(|name| ensure(object[*name].is_string(), || format!("`{name}` of {of} is not a string")))
}

/// Fails if a member is there and does not have a shape.
pub(super) fn optional(object: &Value, of: &str, name: &str, kind: &str, is: fn(&Value) -> bool) -> Verdict {
    let member = object.get(name);
    ensure(member.is_none_or(is), || format!("`{name}` of {of} is not {kind}"))
}

/// Returns the name of an item for an error text.
pub(super) fn name_of<'a>(item: &'a Value, member: &str) -> &'a str {
    item[member].as_str().unwrap_or("an item without a name")
}

/// Fails unless the texts of a member are unique.
pub(super) fn unique(items: &[Value], member: &str) -> Verdict {
    let mut seen = HashSet::new();
    let twice = items.iter().filter_map(|item| item[member].as_str()).find(|name| !seen.insert(*name));
    match twice {
        Some(name) => failed(format!("the {member} `{name}` is there twice")),
        None => Ok(()),
    }
}

/// The rules about the capabilities of a server.
#[derive(Debug)]
pub(super) struct CapabilityRules {
    /// The capabilities of the revision. Other ones are not judged.
    pub(super) names: &'static [&'static str],
    /// They are objects.
    pub(super) objects: Rules,
    /// Some of their members are booleans.
    pub(super) switches: Rules,
    /// The members that are maps of objects.
    pub(super) map_names: &'static [&'static str],
    pub(super) maps: Rules,
}

/// Judges the capabilities of a server.
pub(super) fn capabilities(declared: &Value, rules: &CapabilityRules) -> Verdict {
    const SWITCHES: [(&str, &str); 4] = [
        ("tools", "listChanged"),
        ("prompts", "listChanged"),
        ("resources", "listChanged"),
        ("resources", "subscribe"),
    ];
    for name in rules.names {
        optional(declared, "the capabilities", name, "an object", Value::is_object).breaks(rules.objects)?;
    }
    for (capability, switch) in SWITCHES {
        if let Some(object) = declared.get(capability) {
            optional(object, capability, switch, "a boolean", Value::is_boolean).breaks(rules.switches)?;
        }
    }
    for map in rules.map_names {
        if let Some(entries) = declared.get(map) {
            let is_map = entries.as_object().is_some_and(|entries| entries.values().all(Value::is_object));
            ensure(is_map, || format!("`{map}` is no map of objects")).breaks(rules.maps)?;
        }
    }
    Ok(())
}

/// Judges the icons of an item. `sources` are the rules about sources, `themes` those about themes.
pub(super) fn icons(item: &Value, sources: Rules, themes: Rules) -> Verdict {
    let Some(icons) = item.get("icons") else { return Ok(()) };
    let Some(icons) = icons.as_array() else { return failed("`icons` is not an array").breaks(sources) };
    for icon in icons {
        let source = icon["src"].as_str().unwrap_or_default();
        let has_scheme = |scheme: &&str| source.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
        let is_uri = ["http://", "https://", "data:"].iter().any(has_scheme);
        ensure(is_uri, || format!("the source of an icon is `{source}`")).breaks(sources)?;
        let theme = icon.get("theme");
        let is_known = theme.is_none_or(|theme| *theme == "light" || *theme == "dark");
        ensure(is_known, || format!("the theme of an icon is {}", theme.unwrap_or(&Value::Null))).breaks(themes)?;
    }
    Ok(())
}

/// Judges a tool. `members` are the rules about its members, `schemas` those about its schema.
pub(super) fn tool(tool: &Value, members: Rules, schemas: Rules) -> Verdict {
    texts(tool, "a tool", &["name"]).breaks(members)?;
    let name = name_of(tool, "name");
    let Some(schema) = tool.get("inputSchema") else {
        return failed(format!("the tool `{name}` has no `inputSchema`")).breaks(members);
    };
    ensure(schema.is_object(), || format!("`inputSchema` of the tool `{name}` is not an object")).breaks(schemas)?;
    ensure(schema["type"] == "object", || format!("`inputSchema` of the tool `{name}` has no `type: \"object\"`"))
        .breaks(schemas)
}

/// Judges whether a schema is one: its keywords have the types of JSON Schema 2020-12. Other dialects are not judged.
pub(super) fn schema(schema: &Value, at: &str, depth: usize) -> Verdict {
    let wrong = |keyword: &str| failed(format!("`{keyword}` of the schema {at} does not have its type"));
    let Some(object) = schema.as_object() else {
        return ensure(schema.is_boolean(), || format!("the schema {at} is no schema"));
    };
    let is_other = object.get("$schema").is_some_and(|it| !it.as_str().unwrap_or_default().contains("2020-12"));
    if depth == MAX_DEPTH || is_other || object.contains_key("$dynamicRef") {
        return Ok(());
    }
    for (keyword, value) in object {
        let below = format!("{at}/{keyword}");
        match keyword.as_str() {
            "type" if !is_type(value) => return wrong(keyword),
            "required" if !is_unique_texts(value) => return wrong(keyword),
            "enum" if !value.is_array() => return wrong(keyword),
            "pattern" | "$ref" | "$id" | "title" | "description" | "format" if !value.is_string() => {
                return wrong(keyword);
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" if !value.is_number() => {
                return wrong(keyword);
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
                if value.as_f64().is_none_or(|count| count < 0.0 || count.fract() != 0.0) =>
            {
                return wrong(keyword);
            }
            "properties" | "$defs" | "patternProperties" | "dependentSchemas" => {
                let Some(members) = value.as_object() else { return wrong(keyword) };
                for (name, member) in members {
                    self::schema(member, &format!("{below}/{name}"), depth + 1)?;
                }
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let Some(members) = value.as_array().filter(|members| !members.is_empty()) else {
                    return wrong(keyword);
                };
                members.iter().try_for_each(|member| self::schema(member, &below, depth + 1))?;
            }
            "items" | "additionalProperties" | "not" | "if" | "then" | "else" | "contains" | "propertyNames" => {
                self::schema(value, &below, depth + 1)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_type(value: &Value) -> bool {
    let is_name = |value: &Value| {
        let names = ["null", "boolean", "object", "array", "number", "string", "integer"];
        value.as_str().is_some_and(|name| names.contains(&name))
    };
    is_name(value) || value.as_array().is_some_and(|names| !names.is_empty() && names.iter().all(is_name))
}

fn is_unique_texts(value: &Value) -> bool {
    let mut seen = HashSet::new();
    value.as_array().is_some_and(|names| names.iter().all(|name| name.as_str().is_some_and(|it| seen.insert(it))))
}

/// Judges the contents of a resource. `encoding` are the rules about base64, `members` the other ones.
pub(super) fn contents(contents: &Value, members: Rules, encoding: Rules) -> Verdict {
    texts(contents, "the contents", &["uri"]).breaks(members)?;
    match (contents.get("text"), contents.get("blob")) {
        (Some(text), None) => ensure(text.is_string(), || "`text` of the contents is not a string".into()),
        (None, Some(blob)) => base64(blob, "`blob` of the contents").breaks(encoding),
        _ => failed("the contents have both `text` and `blob`, or none"),
    }
    .breaks(members)
}

fn base64(value: &Value, what: &str) -> Verdict {
    let is_base64 = value.as_str().is_some_and(|text| mcp_proto::schema::decode_base64(text).is_some());
    ensure(is_base64, || format!("{what} is no base64"))
}

/// The rules about the messages of a prompt. Those of a check with one rule are empty.
#[derive(Debug, Default)]
pub(super) struct MessageRules {
    pub(super) members: Rules,
    pub(super) roles: Rules,
    /// The types of content.
    pub(super) types: Rules,
    pub(super) text: Rules,
    pub(super) image: Rules,
    pub(super) audio: Rules,
    pub(super) link: Rules,
    pub(super) embedded: Rules,
    pub(super) base64: Rules,
}

/// Judges a content block by the types that a revision has.
fn block(block: &Value, version: &str, rules: &MessageRules) -> Verdict {
    let media = |what: &str, of_media: Rules| {
        texts(block, what, &["mimeType", "data"]).breaks(of_media)?;
        base64(&block["data"], what).breaks(rules.base64)
    };
    match block["type"].as_str().unwrap_or_default() {
        "text" => texts(block, "a text block", &["text"]).breaks(rules.text),
        "image" => media("an image", rules.image),
        "audio" if version >= "2025-03-26" => media("audio", rules.audio),
        "resource_link" if version >= "2025-06-18" => {
            texts(block, "a resource link", &["uri", "name"]).breaks(rules.link)
        }
        "resource" => contents(&block["resource"], rules.embedded, rules.base64),
        other => failed(format!("a content block has the type `{other}`")).breaks(rules.types),
    }
}

/// Judges the messages of a prompt.
pub(super) fn prompt_messages(messages: &Value, version: &str, rules: &MessageRules) -> Verdict {
    let Some(messages) = messages.as_array() else { return failed("`messages` is not an array").breaks(rules.members) };
    for message in messages {
        let (Some(role), Some(content)) = (message.get("role"), message.get("content")) else {
            return failed("a message has no `role` or no `content`").breaks(rules.members);
        };
        ensure(*role == "user" || *role == "assistant", || format!("the role of a message is {role}"))
            .breaks(rules.roles)?;
        block(content, version, rules)?;
    }
    Ok(())
}

/// Judges the values of a completion.
pub(super) fn completion(result: &Value) -> Verdict {
    let Some(values) = result["completion"]["values"].as_array() else {
        return failed("`completion.values` is not an array");
    };
    ensure(values.iter().all(Value::is_string), || "a value of the completion is not a string".into())?;
    ensure(values.len() <= 100, || format!("there are {} values", values.len()))
}

/// Returns whether a text begins with a scheme of a URI.
pub(super) fn is_uri(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !text.contains(|letter: char| letter.is_ascii_whitespace() || letter.is_ascii_control())
}
