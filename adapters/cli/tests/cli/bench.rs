//! Tests of `mcp bench`.

use std::fs;

use serde_json::Value;

use crate::{Mcp, mcp, recorder::Folder};

pub(crate) fn measures_calls(run: &Mcp) {
    let folder = Folder::new("bench");
    let image = folder.file("a.svg");
    let path = image.to_str().expect("UTF-8");
    let calls = ["--calls", "60", "--concurrency", "1,3", "--svg", path];
    let (code, out, error) = run(&[&["bench", "{}", "echo", "message=hi"], &calls[..]].concat());
    assert_eq!(code, 0, "{error}");
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].contains("calls/s") && lines[0].contains("p99.9"), "{out}");
    for (line, concurrency) in lines[1..3].iter().zip(["1", "3"]) {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!((words[0], words.last()), (concurrency, Some(&"0")), "{out}");
    }
    assert!(out.contains("3 at once\n"), "{out}");
    let image = fs::read_to_string(&image).expect("it is written");
    assert!(image.starts_with("<svg") && image.contains("3 at once: ") && image.ends_with("</svg>\n"), "{image}");
    let (code, out, _) = run(&["bench", "{}", "echo", "message=hi", "--calls", "60", "--json"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((code, lines.len(), &lines[0]["calls"], &lines[2]["concurrency"]), (0, 4, &60.into(), &16.into()));
    let times: Vec<_> = ["p50_ns", "p90_ns", "p99_ns", "max_ns"].map(|name| lines[0][name].as_u64()).into();
    assert!(times.is_sorted() && times[0] > Some(0), "{times:?}");
}

pub(crate) fn wrong_results_are_counted() {
    let calls = ["--calls", "10", "--concurrency", "2", "--json"];
    let (code, out, error) = mcp(&[&["bench", "{}", "ticket"], &calls[..]].concat());
    assert!(code == 1 && out.contains("\"wrong\":10"), "{code} {out}");
    assert!(error.contains("10 calls failed or had another result"), "{error}");
    assert_eq!(mcp(&[&["bench", "{}", "ticket", "--any-answer"], &calls[..]].concat()).0, 0);
    let (code, out, _) = mcp(&["bench", "{}", "fail"]);
    assert_eq!((code, &*out), (1, "it is broken\n"));
    let (code, out, _) = mcp(&["bench", "{}", "fail", "--json"]);
    let result: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &result["isError"]), (1, &true.into()));
    let (code, _, error) = mcp(&["bench", "{}", "echo", "--concurrency", "0"]);
    assert!(code == 2 && error.contains("not a number from 1 to 256"), "{error}");
}
