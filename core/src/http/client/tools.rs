//! The tool arguments that are repeated in headers (2026-07-28), learned from responses to `tools/list`.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use super::Limits;
use crate::{
    protocol::{HeaderParam, InvalidHeaderParam},
    wire::{ArrayIter, Message, RawJson},
};

/// The known header arguments of tools.
#[derive(Debug, Default)]
pub(super) struct Tools {
    known: BTreeMap<String, Vec<HeaderParam>>,
    /// The counted bytes of the known arguments.
    bytes: usize,
}

/// The bytes counted for each stored text, in addition to its length.
const PLACE: usize = 64;

/// Returns the bytes counted for a tool.
fn weight(name: &str, params: &[HeaderParam]) -> usize {
    let texts = params.iter().flat_map(|param| param.path.iter().chain([&param.name]));
    texts.fold(PLACE + name.len(), |sum, text| sum + PLACE + text.len())
}

/// The result of reading a page of the list of tools.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The message without the tools that cannot be offered, if there are any.
    pub(super) rest: Option<String>,
    /// The tools that cannot be offered, with the reasons.
    pub(super) invalid: Vec<(String, InvalidHeaderParam)>,
}

/// The maximum number of unusable tools of one page that are reported. All unusable tools are omitted.
const REPORTED: usize = 64;

impl Tools {
    /// Returns the known arguments of a tool that are repeated in headers.
    pub(super) fn params(&self, tool: &str) -> &[HeaderParam] {
        self.known.get(tool).map_or(&[], Vec::as_slice)
    }

    /// Learns the parameters of tools from a response to `tools/list`. Returns the tools that are invalid, and
    /// the response without them. Text that is not well-formed is ignored: the connection reports it.
    pub(super) fn learn(&mut self, text: &str, depth: u32, limits: &Limits) -> Page {
        let mut page = Page::default();
        let Ok(Message::Response { result, .. }) = Message::parse(text, depth) else { return page };
        let Some(tools) = result.member("tools") else { return page };
        let (mut kept, mut left_out): (Vec<&str>, bool) = (Vec::new(), false);
        for tool in ArrayIter::new(tools.get(), depth) {
            let raw = RawJson::trusted(tool);
            let name: String = raw.member("name").and_then(|name| name.decode().ok()).unwrap_or_default();
            let schema = raw.member("inputSchema");
            match schema.map_or(Ok(Vec::new()), |schema| HeaderParam::of_schema(&schema)) {
                Ok(params) => {
                    kept.push(tool);
                    self.know(name, params, limits);
                }
                // Whether it is a schema at all is checked when the tool is decoded.
                Err(InvalidHeaderParam::Schema) => kept.push(tool),
                Err(why) => {
                    self.forget(&name);
                    left_out = true;
                    if page.invalid.len() < REPORTED {
                        page.invalid.push((name, why));
                    }
                }
            }
        }
        if left_out {
            let list = ["[", &kept.join(","), "]"].concat();
            // `tools` borrows from `text`, so its address gives the offset.
            let at = (tools.get().as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
            if let (Some(before), Some(behind)) = (text.get(..at), text.get(at + tools.get().len()..)) {
                page.rest = Some([before, &list, behind].concat());
            }
        }
        page
    }

    fn know(&mut self, name: String, params: Vec<HeaderParam>, limits: &Limits) {
        self.forget(&name);
        let weight = weight(&name, &params);
        let fits = self.known.len() < limits.tools && self.bytes.saturating_add(weight) <= limits.tool_bytes;
        if !params.is_empty() && fits {
            self.bytes += weight;
            self.known.insert(name, params);
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(params) = self.known.remove(name) {
            self.bytes -= weight(name, &params);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn tool(name: &str, annotation: &str) -> String {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"a":{{"type":"string"{annotation}}}}}}}}}"#
        )
    }

    fn list(tools: &[String]) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"before":[1], "tools" : [ {} ],"nextCursor":"n"}}}}"#,
            tools.join(" , ")
        )
    }

    // req: M-HTTP-062 M-HTTP-077
    #[test]
    fn removes_only_invalid_tools() {
        let mut tools = Tools::default();
        let good = tool("good", r#","x-mcp-header":"A""#);
        let plain = tool("plain", "");
        let bad = tool("bad", r#","x-mcp-header":"a b""#);
        let page = tools.learn(&list(&[good.clone(), plain.clone()]), 128, &Limits::default());
        assert_eq!((page.rest, page.invalid.len()), (None, 0));
        assert_eq!((tools.params("good").len(), tools.params("plain").len(), tools.params("other").len()), (1, 0, 0));
        let page = tools.learn(&list(&[bad.clone(), good.clone(), bad, plain.clone()]), 128, &Limits::default());
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"before":[1], "tools" : [{good},{plain}],"nextCursor":"n"}}}}"#
        );
        assert_eq!(page.rest, Some(expected));
        assert_eq!(page.invalid[0], ("bad".into(), InvalidHeaderParam::Name("\"a b\"".into())));
        // The latest list replaces earlier entries.
        tools.learn(&list(&[tool("good", "")]), 128, &Limits::default());
        assert_eq!(tools.params("good").len(), 0);
        let page = tools.learn(&list(&[tool("only", r#","x-mcp-header":"""#)]), 128, &Limits::default());
        assert!(page.rest.is_some_and(|rest| rest.contains(r#""tools" : [],"#)));
    }

    #[test]
    fn reported_invalid_tools_are_bounded() {
        let bad = tool("bad", r#","x-mcp-header":"a b""#);
        let page = Tools::default().learn(&list(&alloc::vec![bad; 1000]), 128, &Limits::default());
        assert_eq!(page.invalid.len(), REPORTED);
        assert!(page.rest.is_some_and(|rest| rest.contains(r#""tools" : [],"#)), "all of them are left out");
    }

    #[test]
    fn known_tools_are_bounded_in_number() {
        let limits = Limits { tools: 10, ..Limits::default() };
        let mut tools = Tools::default();
        for number in 0..100 {
            tools.learn(&list(&[tool(&format!("t{number}"), r#","x-mcp-header":"A""#)]), 128, &limits);
        }
        assert_eq!(tools.known.len(), 10);
    }

    /// A limit on the number of tools does not bound their size.
    #[test]
    fn known_tools_are_bounded_in_bytes() {
        let limits = Limits { tool_bytes: 5000, ..Limits::default() };
        let mut tools = Tools::default();
        let long = |number: u32| format!("{number}{}", "n".repeat(1000));
        for number in 0..100 {
            tools.learn(&list(&[tool(&long(number), r#","x-mcp-header":"A""#)]), 128, &limits);
            assert!(tools.bytes <= 5000);
        }
        assert_eq!(tools.known.len(), 4);
        // A tool that is listed again takes no more bytes, and a tool without header arguments frees its bytes.
        for annotation in [r#","x-mcp-header":"A""#, "", r#","x-mcp-header":"a b""#] {
            tools.learn(&list(&[tool(&long(0), annotation)]), 128, &limits);
        }
        assert_eq!(tools.known.len(), 3);
        for number in 1..4 {
            tools.learn(&list(&[tool(&long(number), "")]), 128, &limits);
        }
        assert_eq!((tools.known.len(), tools.bytes), (0, 0));
    }

    #[test]
    fn other_messages_are_not_changed() {
        let mut tools = Tools::default();
        for text in [
            "",
            "[]",
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":7}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[7,null,{"name":7,"inputSchema":7}]}}"#,
        ] {
            let page = tools.learn(text, 128, &Limits::default());
            assert!(page.rest.is_none() && page.invalid.is_empty(), "{text}");
        }
    }

    #[test]
    fn weight_of_a_tool_is_exact() {
        // The name, the path of one part, and the name of the header: 64 bytes each, and their lengths.
        let weight = 64 + 2 + 64 + 1 + 64 + 1;
        let text = list(&[tool("t0", r#","x-mcp-header":"A""#)]);
        for (tools, tool_bytes, known) in [(1, weight, 1), (1, weight - 1, 0), (0, weight, 0), (2, 2 * weight - 1, 1)] {
            let limits = Limits { tools, tool_bytes, ..Limits::default() };
            let mut memory = Tools::default();
            memory.learn(&text, 128, &limits);
            memory.learn(&list(&[tool("t1", "")]), 128, &limits);
            assert_eq!((memory.known.len(), memory.bytes), (known, known * weight), "{tools} {tool_bytes}");
        }
        let limits = Limits { tools: 2, tool_bytes: 2 * weight, ..Limits::default() };
        let mut memory = Tools::default();
        for name in ["t0", "t1", "t2"] {
            memory.learn(&list(&[tool(name, r#","x-mcp-header":"A""#)]), 128, &limits);
        }
        assert_eq!((memory.known.len(), memory.bytes), (2, 2 * weight));
    }
}
