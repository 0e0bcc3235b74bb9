//! Tools: functions of a server that models can call.
//!
//! Spec: [tools](https://modelcontextprotocol.io/specification/2025-11-25/server/tools)

use alloc::{string::String, vec, vec::Vec};

use serde_core::Serializer;

use super::{CacheScope, ContentBlock, Encode, Icon, InputResponses, JsonLine, Meta, TaskMetadata};
use crate::{
    protocol::{Capability, CapabilitySet, ProtocolVersion},
    schema::base::macros::*,
    wire::{Json, JsonObject, RawJson},
};

object! {
    /// Params of `tools/list`.
    pub struct ListToolsParams: params(ListTools => ListToolsResult) {
        /// The `next_cursor` of the previous page; absent for the first page.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `tools/list`: one page of tools.
    pub struct ListToolsResult: result {
        /// The tools.
        "tools" => tools: required Vec<Tool>;
        /// The cursor of the next page; absent on the last page.
        "nextCursor" => next_cursor: optional String;
        /// The time for which the result may be cached, in milliseconds. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// The users for whom the cached result may be used. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `notifications/tools/list_changed`.
    pub struct ToolsListChangedParams: params(ToolsListChanged) {}
}

object! {
    /// A tool that a server offers.
    pub struct Tool: data {
        /// The name, for programs, as in `tools/call`. Compared byte for byte.
        "name" => name: required String;
        /// The name, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// A description of the tool, for models.
        "description" => description: optional String;
        /// The JSON Schema of the arguments, with an object at the root. Kept byte for byte.
        "inputSchema" => input_schema: required JsonObject, is(ObjectSchema);
        /// The JSON Schema of structured results. Kept byte for byte. Since 2025-06-18; up to 2025-11-25 with an object
        /// at the root.
        "outputSchema" => output_schema: optional JsonObject, since(V2025_06_18), fits(output_schema_fits),
            is(ObjectSchema);
        /// Hints about the behaviour of the tool. Since 2025-03-26.
        "annotations" => annotations: optional ToolAnnotations, since(V2025_03_26);
        /// How the tool can be executed. Only 2025-11-25.
        "execution" => execution: optional ToolExecution, only(V2025_11_25);
        /// Pictures for user interfaces. Since 2025-11-25.
        "icons" => icons: optional Vec<Icon>, since(V2025_11_25), fits(|icons, _| Icon::all_valid(icons));
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

impl Tool {
    /// Creates a tool without arguments.
    #[must_use]
    pub fn without_arguments(name: impl Into<String>) -> Self {
        let schema = JsonObject::parse(r#"{"type":"object","additionalProperties":false}"#);
        Self::new(name, schema.unwrap_or_else(|_| JsonObject::empty()))
    }

    /// Returns the name to show: the title, otherwise the title among the annotations, otherwise the name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = self.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
        self.title.as_deref().or(annotated).unwrap_or(&self.name)
    }

    /// Returns whether the tool can be called as a task. Missing means no.
    #[must_use]
    pub fn task_support(&self) -> &TaskSupport {
        self.execution.as_ref().and_then(|execution| execution.task_support.as_ref()).unwrap_or(&TaskSupport::Forbidden)
    }

    /// Returns whether the name follows the advice of 2025-11-25: 1 to 128 letters, digits and `_-.`. Other names are
    /// accepted.
    #[must_use]
    pub fn has_advised_name(&self) -> bool {
        (1..=128).contains(&self.name.len())
            && self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    }
}

/// Returns whether `version` can have the schema: up to 2025-11-25 structured results are objects.
fn output_schema_fits(schema: &JsonObject, version: ProtocolVersion) -> bool {
    version >= ProtocolVersion::V2026_07_28 || is_object_schema(schema)
}

/// Returns whether a JSON Schema has `"type": "object"` at its root, as the schema of arguments needs.
#[must_use]
pub fn is_object_schema(schema: &JsonObject) -> bool {
    RawJson::from(schema).member("type").is_some_and(|kind| kind.into_text().is_some_and(|kind| kind == "object"))
}

object! {
    /// Hints about the behaviour of a tool. A server that is not trusted may give wrong ones. Since 2025-03-26.
    pub struct ToolAnnotations: data, since(V2025_03_26) {
        /// The name, for people.
        "title" => title: optional String;
        /// The tool changes nothing.
        "readOnlyHint" => read_only_hint: optional bool;
        /// The tool may destroy data.
        "destructiveHint" => destructive_hint: optional bool;
        /// Calling the tool twice has the same effect as calling it once.
        "idempotentHint" => idempotent_hint: optional bool;
        /// The tool interacts with external systems, such as the web.
        "openWorldHint" => open_world_hint: optional bool;
    }
}

impl ToolAnnotations {
    /// Returns whether the tool changes nothing. Missing means no.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only_hint.unwrap_or(false)
    }

    /// Returns whether the tool may destroy data. Missing means yes.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        self.destructive_hint.unwrap_or(true)
    }

    /// Returns whether a second call with the same arguments has no further effect. Missing means no.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.idempotent_hint.unwrap_or(false)
    }

    /// Returns whether the tool interacts with external systems. Missing means yes.
    #[must_use]
    pub fn is_open_world(&self) -> bool {
        self.open_world_hint.unwrap_or(true)
    }
}

object! {
    /// How a tool can be executed. Only 2025-11-25.
    pub struct ToolExecution: data, only(V2025_11_25) {
        /// Whether the tool can be called as a task. Missing means no.
        "taskSupport" => task_support: optional TaskSupport, fits(|support, _| support.is_known());
    }
}

open_enum! {
    /// Whether a tool can be called as a task. Only 2025-11-25.
    pub enum TaskSupport {
        /// The tool cannot be called as a task.
        Forbidden = "forbidden",
        /// The tool can be called with and without a task.
        Optional = "optional",
        /// The tool can only be called as a task.
        Required = "required",
    }
}

object! {
    /// Params of `tools/call`.
    pub struct CallToolParams: params(CallTool => CallToolResult) {
        /// The name of the tool.
        "name" => name: required String;
        /// The arguments of the tool, kept byte for byte.
        "arguments" => arguments: optional JsonObject;
        /// Requests a task instead of a result. Only 2025-11-25.
        "task" => task: optional TaskMetadata, only(V2025_11_25), or_refuse;
        /// The responses to the input requests of the previous result. Since 2026-07-28.
        "inputResponses" => input_responses: optional InputResponses, since(V2026_07_28), or_refuse,
            is(Answer);
        /// The `request_state` of the previous result. Since 2026-07-28.
        "requestState" => request_state: optional String, since(V2026_07_28), or_refuse;
    }
    gates {
        fn needs(&self) -> CapabilitySet {
            CapabilitySet::EMPTY.with_if(Capability::TasksToolsCall, self.task.is_some())
        }

        fn is_task(&self) -> bool {
            self.task.is_some()
        }
    }
}

object! {
    /// The result of `tools/call`.
    pub struct CallToolResult: result {
        /// The content of the result. Decoded as empty if it is missing.
        "content" => content: required Vec<ContentBlock>, or(Vec::new);
        /// The result as structured data, kept byte for byte. Since 2025-06-18; up to 2025-11-25 an object.
        "structuredContent" => structured_content: optional Json, since(V2025_06_18),
            fits(|content, version| version >= V2026_07_28 || content.is_object());
        /// Whether the tool failed. Then `content` has the reason, for the model.
        "isError" => is_error: optional bool;
    }
}

impl CallToolResult {
    /// Creates a result of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![ContentBlock::text(text)])
    }

    /// Creates a result with `is_error` and one text, the reason.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(text) }
    }

    /// Returns whether the tool failed. Missing means no.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.is_error.unwrap_or(false)
    }
}

/// The result of `tools/call` that is one text, as [`CallToolResult::text`] creates it, but smaller and faster to
/// encode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextResult(pub String);

impl From<TextResult> for CallToolResult {
    fn from(TextResult(text): TextResult) -> Self {
        Self::text(text)
    }
}

impl Encode for TextResult {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        CallToolResult::from(self.clone()).encode_at(version, serializer)
    }

    /// Appends the result, which is the same in every revision.
    fn append_at(&self, _version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        out.part(r#"{"content":[{"type":"text","text":"#);
        out.string(&self.0);
        out.part("}]}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::schema::At;

    const TOOL: &str = r#"{"name":"pick","title":"Pick","inputSchema":{"type":"object","x":[9223372036854775808,1e-320]},"icons":[{"src":"https://a/b"}],"execution":{"taskSupport":"optional"},"x-other":{"a" : 1}}"#;

    fn at(tool: &Tool, version: ProtocolVersion) -> String {
        serde_json::to_string(&At(tool, Some(version))).expect("a tool exists in every revision")
    }

    // req: TOOL-013 SCHEMA-007
    #[test]
    fn recognizes_object_schemas_in_any_spelling() {
        let schema = |text: &str| JsonObject::parse(text).expect("an object");
        for text in [
            r#"{"type":"object"}"#,
            r#"{"type":"objec\u0074"}"#,
            r#"{"\u0074ype" : "object","x":[{"type":7}]}"#,
            r#"{"type":1,"type":"object"}"#,
            r#"{"\ud800":1,"type":"object"}"#,
        ] {
            assert!(is_object_schema(&schema(text)), "{text}");
            let tool = Tool { output_schema: Some(schema(text)), ..Tool::without_arguments("t") };
            let mut written = Vec::new();
            tool.append_at(Some(ProtocolVersion::V2025_11_25), &mut JsonLine::new(&mut written))
                .expect("it is written");
            let written = String::from_utf8(written).expect("text");
            assert!(written.contains(&alloc::format!("\"outputSchema\":{text}")), "{written}");
        }
        for text in ["{}", r#"{"type":"array"}"#, r#"{"type":["object"]}"#, r#"{"type":"object","type":1}"#] {
            assert!(!is_object_schema(&schema(text)), "{text}");
        }
    }

    #[test]
    fn tool_encoding_fits_the_revision() {
        let tool: Tool = serde_json::from_str(TOOL).expect("a tool");
        assert_eq!(tool.display_name(), "Pick");
        assert_eq!(tool.task_support(), &TaskSupport::Optional);
        assert_eq!(tool.input_schema.get(), r#"{"type":"object","x":[9223372036854775808,1e-320]}"#);
        assert_eq!(
            at(&tool, ProtocolVersion::V2024_11_05),
            r#"{"name":"pick","inputSchema":{"type":"object","x":[9223372036854775808,1e-320]},"x-other":{"a" : 1}}"#
        );
        assert!(at(&tool, ProtocolVersion::V2025_06_18).contains(r#""title":"Pick","inputSchema""#));
        assert!(!at(&tool, ProtocolVersion::V2025_06_18).contains("icons"));
        assert!(
            at(&tool, ProtocolVersion::V2025_11_25).contains(r#""execution":{"taskSupport":"optional"},"icons":[{"#)
        );
        assert!(!at(&tool, ProtocolVersion::V2026_07_28).contains("execution"));
    }

    #[test]
    fn text_result_encodes_like_a_tool_result() {
        for text in ["", "plain", "a \"quote\",\na line \u{1} and \u{1F980}"] {
            for version in ProtocolVersion::ALL.iter().copied().map(Some).chain([None]) {
                let (short, long) = (TextResult(text.into()), CallToolResult::text(text));
                let mut written = Vec::new();
                short.append_at(version, &mut JsonLine::new(&mut written)).expect("it is a text");
                let expected = serde_json::to_string(&At(&long, version)).expect("every revision has texts");
                assert_eq!(String::from_utf8(written).expect("text"), expected);
                assert_eq!(serde_json::to_string(&At(&short, version)).expect("likewise"), expected);
            }
        }
    }

    #[test]
    fn errors_contain_their_position() {
        let error = |text| serde_json::from_str::<CallToolResult>(text).expect_err(text).to_string();
        assert_eq!(
            error(r#"{"content":[{"data":"","type":"image"}]}"#),
            "CallToolResult.content: ImageContent: missing member `mimeType` at line 1 column 38"
        );
        assert!(error(r#"{"content":null}"#).starts_with("CallToolResult.content: invalid type: null"));
        assert!(error(r#"{"content":[],"content":[]}"#).starts_with("CallToolResult.content: duplicate member"));
        assert!(error(r#"{"content":[{"text":"a"}]}"#).contains("ContentBlock: missing member `type`"));
    }
}
