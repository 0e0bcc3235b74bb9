//! Scripts of calls with their expected results.

use std::{collections::HashMap, path::Path};

use mcp_proto::schema::{CallToolResult, ContentBlock};
use serde_json::Value;

use super::{known, show};

/// A call and its expected result. In texts, `{name}` stands for the value that was kept under this name, and `{root}`
/// for the folder that the server may read.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) tool: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) expected: &'static [Expect],
}

impl Step {
    /// Returns the code of the expected error, if there is one.
    pub(crate) fn refused(&self) -> Option<i64> {
        self.expected.iter().find_map(|expect| if let Expect::Refused(code) = expect { Some(*code) } else { None })
    }

    /// Returns whether the step needs a session.
    pub(crate) fn needs_session(&self) -> bool {
        self.expected.iter().any(|expect| matches!(expect, Expect::Session))
    }
}

/// A condition on the outcome of a call.
#[derive(Clone, Copy)]
pub(crate) enum Expect {
    /// The text is exactly this.
    Text(&'static str),
    /// The text contains this.
    Contains(&'static str),
    /// The text does not contain this.
    Lacks(&'static str),
    /// The content has these kinds.
    Kinds(&'static [&'static str]),
    /// The structured content contains these members.
    Structured(&'static str),
    /// The tool fails.
    Failure,
    /// The server refuses the call with this code.
    Refused(i64),
    /// The step works only in a session, and is left out elsewhere.
    Session,
    /// There are at least this many progress notifications.
    Progress(usize),
    /// There are at least this many log messages.
    Logs(usize),
    /// Keeps the value that the function finds in the text.
    Keep(&'static str, fn(&str) -> Option<&str>),
}

/// The steps for one server.
pub(crate) struct Script {
    steps: &'static [Step],
    kept: HashMap<&'static str, String>,
}

impl Script {
    pub(crate) fn of(server: &str, folder: &Path) -> Self {
        let kept = HashMap::from([("root", folder.display().to_string())]);
        Self { steps: known::steps(server, folder), kept }
    }

    pub(crate) fn knows(&self, tool: &str) -> bool {
        self.steps.iter().any(|step| step.tool == tool)
    }

    /// Returns the steps for these tools.
    pub(crate) fn steps(&self, is_there: impl Fn(&str) -> bool) -> Vec<Step> {
        self.steps.iter().filter(|step| is_there(step.tool)).copied().collect()
    }

    pub(crate) fn arguments(&self, step: &Step) -> Value {
        self.fill_in_all(serde_json::from_str(step.arguments).unwrap_or_default())
    }

    /// Checks the outcome of a step. `logged` waits for log messages.
    pub(crate) async fn check(
        &mut self,
        step: &Step,
        result: &CallToolResult,
        progress: Option<usize>,
        logged: impl AsyncFn(usize) -> bool,
    ) -> Result<(), String> {
        let text: Vec<String> = result.content.iter().map(show::block).collect();
        let text = text.join("\n");
        if result.is_error() != step.expected.iter().any(|expect| matches!(expect, Expect::Failure)) {
            return Err(format!("it {}", if result.is_error() { "fails" } else { "does not fail" }));
        }
        for expect in step.expected {
            let met = match *expect {
                Expect::Refused(_) => false,
                Expect::Text(expected) => text == self.fill_in(expected),
                Expect::Contains(part) => text.contains(&self.fill_in(part)),
                Expect::Lacks(part) => !text.contains(&self.fill_in(part)),
                Expect::Kinds(kinds) => result.content.iter().map(kind).eq(kinds.iter().copied()),
                Expect::Structured(expected) => is_part(expected, result),
                Expect::Failure | Expect::Session => true,
                Expect::Progress(count) => progress.is_none_or(|progress| progress >= count),
                Expect::Logs(count) => logged(count).await,
                Expect::Keep(name, find) => find(&text).map(|found| self.kept.insert(name, found.to_owned())).is_some(),
            };
            if !met {
                return Err(format!("expected {}", describe(expect, progress)));
            }
        }
        Ok(())
    }

    fn fill_in_all(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.fill_in(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.fill_in_all(item)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (name, self.fill_in_all(value))).collect()
            }
            other => other,
        }
    }

    fn fill_in(&self, text: &str) -> String {
        self.kept.iter().fold(text.to_owned(), |text, (name, kept)| text.replace(&format!("{{{name}}}"), kept))
    }
}

fn describe(expect: &Expect, progress: Option<usize>) -> String {
    match expect {
        Expect::Text(text) => format!("{text:?}"),
        Expect::Contains(text) => format!("{text:?} in it"),
        Expect::Lacks(text) => format!("no {text:?} in it"),
        Expect::Kinds(kinds) => kinds.join(", "),
        Expect::Structured(content) => format!("structured content {content}"),
        Expect::Failure => "a failure".to_owned(),
        Expect::Session => "a session".to_owned(),
        Expect::Refused(code) => format!("error {code}"),
        Expect::Progress(count) => format!("progress {count} times, not {} times", progress.unwrap_or_default()),
        Expect::Logs(count) => format!("{count} log messages"),
        Expect::Keep(name, _) => format!("a {name}"),
    }
}

fn kind(block: &ContentBlock) -> &'static str {
    match block {
        ContentBlock::Text(_) => "text",
        ContentBlock::Image(_) => "image",
        ContentBlock::Audio(_) => "audio",
        ContentBlock::Resource(_) => "resource",
        ContentBlock::ResourceLink(_) => "resource_link",
        ContentBlock::Other(_) => "other",
    }
}

/// Returns whether the structured content has these members.
fn is_part(expected: &str, result: &CallToolResult) -> bool {
    let content: Option<Value> = result.structured_content.as_ref().and_then(|content| content.decode().ok());
    let expected: Value = serde_json::from_str(expected).unwrap_or_default();
    let (Some(content), Some(expected)) = (content, expected.as_object()) else { return false };
    expected.iter().all(|(name, value)| content.get(name) == Some(value))
}
