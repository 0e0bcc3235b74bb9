//! Tests of `mcp trace`.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    mcp,
    recorder::Folder,
    replay::{record, session},
};

fn trace(record: &Path, output: &Path) -> String {
    let (code, out, error) = mcp(&["trace", record.to_str().expect("UTF-8"), "-o", output.to_str().expect("UTF-8")]);
    assert_eq!((code, &*out), (0, ""), "{error}");
    fs::read_to_string(output).expect("it is written")
}

/// Returns the data of a page.
fn data(page: &str) -> Value {
    let start = "<script type=\"application/json\" id=\"data\">";
    let (_, rest) = page.split_once(start).expect("data");
    let (json, _) = rest.split_once("</script>").expect("an end");
    serde_json::from_str(json).expect("JSON")
}

pub(crate) fn pages_load_nothing_and_escape_texts() {
    let folder = Folder::new("trace");
    let file = folder.file("a.jsonl");
    let hostile = "</script><script>alert(1)</script><!--\u{2028}\u{1b}\"'&]]>";
    let call = json!({"jsonrpc": "2.0", "id": hostile, "method": "tools/call", "params": {"name": hostile}});
    let error = json!({"jsonrpc": "2.0", "id": hostile, "error": {"code": -1, "message": hostile}});
    let more = [format!(">{call}"), format!("<{error}"), format!("<{hostile}"), format!(">{hostile}")];
    let more: Vec<_> = more.iter().map(String::as_str).collect();
    let text = record(&session("2025-11-25", &more))
        .replace("\"server\":\"x\"", &format!("\"server\":{}", json!(hostile)))
        .replace("\"started\":\"2026\"", &format!("\"started\":{}", json!(hostile)));
    fs::write(&file, text).expect("it is written");
    let page = trace(&file, &folder.file("a.html"));
    // One block of data, one script, and the words of a filter or a title are texts.
    assert_eq!(page.matches("<script").count(), 2, "{page}");
    assert_eq!(page.matches("</script").count(), 2);
    assert_eq!(page.matches("<!--").count(), 0);
    assert!(!page.contains("alert(1)</script>"));
    assert!(page.contains("default-src 'none'; script-src 'sha256-"));
    for word in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(word), "{word}");
    }
    let data = data(&page);
    let messages = data["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 7);
    assert_eq!(
        (&messages[3][4], &messages[3][5], &messages[4][5]),
        (&json!(json!(hostile).to_string()), &json!(4), &json!(3))
    );
    assert!(data["names"].as_array().expect("names").contains(&json!(format!("tools/call {hostile}"))));
    assert_eq!(messages[5][2], 4, "no message");
    assert!(messages[5][7][0].as_str().is_some_and(|rule| rule.starts_with("STDIO-007")));
    for word in ["base-uri 'none'", "form-action 'none'"] {
        assert!(page.contains(word), "{word}");
    }

    let image = trace(&file, &folder.file("a.svg"));
    let allowed = ["svg", "style", "rect", "text", "path"];
    for part in image.split('<').skip(1) {
        let name = part.trim_start_matches('/').split([' ', '>', '/']).next().expect("a name");
        assert!(allowed.contains(&name), "{name}");
        assert!(!part.contains('\u{1b}'));
    }
    assert!(image.contains("&lt;/script&gt;&lt;script&gt;"));
}

pub(crate) fn sizes_are_linear() {
    let folder = Folder::new("trace-sizes");
    let mut sizes = Vec::new();
    for count in [1_000, 2_000, 4_000] {
        let mut lines = session("2025-11-25", &[]);
        for id in 1..=count / 2 {
            let name = format!("tool {}", id % 7);
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
            let result = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
            lines.extend([format!(">{call}"), format!("<{result}")]);
        }
        let file = folder.file(&format!("{count}.jsonl"));
        fs::write(&file, record(&lines)).expect("it is written");
        let page = trace(&file, &folder.file("a.html"));
        assert_eq!(data(&page)["messages"].as_array().expect("messages").len(), count + 3);
        let image = trace(&file, &folder.file("a.svg"));
        assert!(image.len() < 400_000, "an image is folded: {}", image.len());
        sizes.push(page.len());
    }
    let (first, second) = (sizes[1] - sizes[0], sizes[2] - sizes[1]);
    assert!(second < first * 21 / 10 && second > first, "{sizes:?}");
    assert!(sizes[2] < 1_500_000, "{sizes:?}");
}

pub(crate) fn long_ids_are_cut() {
    let folder = Folder::new("trace-ids");
    let file = folder.file("a.jsonl");
    let long = "x".repeat(250);
    let call = json!({"jsonrpc": "2.0", "id": long, "method": long, "params": {"name": long}});
    let result = json!({"jsonrpc": "2.0", "id": long, "result": {}, "error": long});
    let lines = session("2025-11-25", &[&format!(">{call}"), &format!("<{result}")]);
    fs::write(&file, record(&lines)).expect("it is written");
    let page = trace(&file, &folder.file("a.html"));
    for message in data(&page)["messages"].as_array().expect("messages") {
        assert!(message[4].as_str().expect("an id").len() <= 200, "{message}");
        for broken in message[7].as_array().expect("broken rules") {
            assert!(broken.as_str().expect("a text").len() <= 600, "{broken}");
        }
    }
}

pub(crate) fn wrong_outputs() {
    let folder = Folder::new("trace-wrong");
    let file = folder.file("a.jsonl");
    fs::write(&file, record(&session("2025-11-25", &[]))).expect("it is written");
    let path = file.to_str().expect("UTF-8");
    let (code, _, error) = mcp(&["trace", path, "-o", "a.png"]);
    assert!(code == 2 && error.contains("ends neither in .html nor in .svg"), "{error}");
    let (code, _, error) = mcp(&["trace", path, "-o", "/no/such/folder/a.svg"]);
    assert!(code == 2 && error.contains("cannot be written"), "{error}");
}
