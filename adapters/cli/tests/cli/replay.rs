//! Tests of `mcp replay`.

use std::{fmt::Write, fs, path::Path};

use serde_json::{Value, json};

use crate::{Mcp, mcp, recorder::Folder, target};

/// Returns a record of lines of the client (`>`) and of the server (`<`), a millisecond apart.
pub(crate) fn record(lines: &[String]) -> String {
    let header = json!({"mcp_record": 1, "started": "2026", "transport": "stdio", "server": "x", "masked": false});
    let mut text = format!("{header}\n");
    for (number, line) in lines.iter().enumerate() {
        let (from, stream) = if line.starts_with('>') { ("client", "stdin") } else { ("server", "stdout") };
        let entry = json!({"t": number * 1000, "from": from, "stream": stream, "text": format!("{}\n", &line[1..])});
        writeln!(text, "{entry}").expect("it is in memory");
    }
    text
}

/// Returns the handshake of a session with some more lines.
pub(crate) fn session(version: &str, more: &[&str]) -> Vec<String> {
    let client = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let server = json!({"protocolVersion": version, "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}});
    let mut lines = vec![
        format!(">{}", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client})),
        format!("<{}", json!({"jsonrpc": "2.0", "id": 0, "result": server})),
        format!(">{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})),
    ];
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    lines
}

fn replay(file: &Path) -> (i32, Vec<Value>) {
    let (code, out, error) = mcp(&["replay", "--json", file.to_str().expect("UTF-8")]);
    assert_eq!(error, "");
    (code, out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

/// Returns the sides and the rules that were broken.
fn broken(lines: &[Value]) -> Vec<String> {
    let all = lines.iter().filter_map(|line| line["broken"].as_array().filter(|_| line["kind"] != "end")).flatten();
    let name = |it: &Value| format!("{} {}", it["by"].as_str().unwrap_or("?"), it["rule"].as_str().unwrap_or("-"));
    all.map(name).collect()
}

const CALL: &str =
    r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"p"}}}"#;
const RESULT: &str = r#"<{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

pub(crate) fn own_sessions_break_no_rule(run: &Mcp) {
    let folder = Folder::new("replay-own");
    let file = folder.file("a.jsonl");
    let path = file.display();
    let recorder = format!("{} record --quiet -o {path} -- {}", env!("CARGO_BIN_EXE_mcp"), target(""));
    let mut records = 0;
    for command in [
        &["list"][..],
        &["call", "work"],
        &["call", "sign.up", "--answer", "name=Ada"],
        &["call", "sign.up"],
        &["call", "think", "--sample", "4"],
        &["call", "echo", "times=x"],
        &["call", "echo", "message=a"],
        &["call", "wait", "--timeout", "1"],
        &["read", "shop://none"],
    ] {
        let (name, more) = command.split_first().expect("a command");
        run(&[&[name, &*recorder], more].concat());
        records += usize::from(file.exists());
        let (code, lines) = replay(&file);
        assert_eq!((code, broken(&lines)), (0, Vec::new()), "{command:?}: {lines:#?}");
        assert!(lines.len() > 5, "{command:?}");
        let ready = lines.iter().filter(|line| line["client"].as_str().is_some_and(|it| it.starts_with("ready, 202")));
        assert!(ready.count() > 0, "{command:?}: {lines:#?}");
        let text = mcp(&["replay", file.to_str().expect("UTF-8")]);
        assert_eq!(text, mcp(&["replay", file.to_str().expect("UTF-8")]), "the output is deterministic");
        fs::remove_file(&file).expect("it is there");
    }
    assert_eq!(records, 9);
}

/// Returns progress of the request with the token `p`.
fn progress(value: f64) -> String {
    let params = json!({"progressToken": "p", "progress": value});
    format!("<{}", json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
}

/// A revision, the lines of a session, and the rules that they break.
type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

const CANCELLATIONS: &[Row<'static>] = &[
    (
        "2025-11-25",
        &[r#">{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#],
        &["client CANC-004"],
    ),
    (
        "2025-11-25",
        &[r#">{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#],
        &["client CANC-001"],
    ),
    (
        "2025-11-25",
        &[CALL, RESULT, r#">{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#],
        &[],
    ),
    (
        "2025-11-25",
        &[CALL, r#">{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#, RESULT],
        &[],
    ),
];

pub(crate) fn broken_rules_of_sessions() {
    let folder = Folder::new("replay-broken");
    let (one, two) = (progress(1.0), progress(2.0));
    let rows: &[Row<'_>] = &[
        ("2025-11-25", &[CALL, &one, &two, RESULT], &[]),
        ("2025-11-25", &[CALL, &two, &one, RESULT], &["server PROG-007"]),
        ("2025-11-25", &[CALL, RESULT, &one], &["server PROG-009"]),
        ("2025-11-25", &["<banner"], &["server STDIO-007"]),
        ("2025-03-26", &["<[INFO] started"], &["server STDIO-007"]),
        ("2025-03-26", &["<[]"], &["server -"]),
        ("2025-11-25", &[">{]"], &["client STDIO-008"]),
        ("2025-11-25", &[r#"<{"id":1}"#], &["server BASE-001"]),
        ("2025-11-25", &[r#"<{"jsonrpc":"2.0","id":1}"#], &["server STDIO-006"]),
        ("2025-11-25", &[r#"<{"jsonrpc":"2.0","id":7,"result":{}}"#], &["server BASE-008"]),
        ("2025-11-25", &[CALL, RESULT, RESULT], &["server BASE-008"]),
        ("2025-11-25", &[CALL, r#"<{"jsonrpc":"2.0","id":"1","result":{}}"#], &["server BASE-008"]),
        ("2025-11-25", &[CALL, r#"<{"jsonrpc":"2.0","id":1,"result":[]}"#], &["server BASE-017"]),
        ("2025-11-25", &[CALL, r#"<{"jsonrpc":"2.0","id":1,"result":{"content":1}}"#], &["server -"]),
        ("2025-11-25", &[CALL, r#"<{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#], &["server BASE-011"]),
        // The error for what is no request has its id.
        (
            "2025-11-25",
            &[
                r#">{"jsonrpc":"1.0","id":7,"method":"ping"}"#,
                r#"<{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"x"}}"#,
            ],
            &["client BASE-001"],
        ),
        ("2025-11-25", &[CALL, CALL], &["client BASE-006"]),
        ("2025-11-25", &[CALL, RESULT, CALL, RESULT], &["client BASE-006"]),
        ("2025-11-25", &[r#">{"jsonrpc":"2.0","id":null,"method":"ping"}"#], &["client BASE-004"]),
        ("2025-11-25", &[r#">{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#], &["client BASE-003"]),
        ("2025-11-25", &[r#">{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#], &["client BASE-021"]),
        ("2025-11-25", &[r#">{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#], &["client LIFE-022"]),
        ("2024-11-05", &[r#">{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#], &["client LIFE-021"]),
        ("2025-11-25", &[r#"<{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#], &["server LIFE-022"]),
        ("2025-11-25", &[r#">[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#], &["client BATCH-012"]),
        ("2024-11-05", &[r#">[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#], &["client BATCH-014"]),
        (
            "2025-11-25",
            &[r#">[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, r#"<{"jsonrpc":"2.0","id":1,"result":{}}"#],
            &["client BATCH-012", "server BATCH-013"],
        ),
        (
            "2025-03-26",
            &[r#">[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, r#"<[{"jsonrpc":"2.0","id":1,"result":{}}]"#],
            &[],
        ),
    ];
    for (version, more, expected) in rows.iter().chain(CANCELLATIONS) {
        let file = folder.file("a.jsonl");
        fs::write(&file, record(&session(version, more))).expect("it is written");
        let (code, lines) = replay(&file);
        assert_eq!(broken(&lines), *expected, "{version} {more:?}: {lines:#?}");
        assert_eq!(code, i32::from(!expected.is_empty()));
    }
    // Before the session is open.
    let early = record(&session("2025-11-25", &[]));
    let mut early: Vec<_> = early.lines().map(str::to_owned).collect();
    let list = r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#;
    early.insert(2, json!({"t": 1, "from": "client", "stream": "stdin", "text": format!("{list}\n")}).to_string());
    let file = folder.file("b.jsonl");
    fs::write(&file, early.join("\n") + "\n").expect("it is written");
    assert_eq!(broken(&replay(&file).1), ["client LIFE-007"]);
}

/// The token of a request stays valid as long as its task.
pub(crate) fn tokens_of_tasks_stay_valid() {
    let folder = Folder::new("replay-tasks");
    let (one, two) = (progress(1.0), progress(2.0));
    let call = CALL.replace(r#""name":"a","#, r#""name":"a","task":{},"#);
    let task = json!({"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null});
    let created = format!("<{}", json!({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}));
    for (more, expected) in [
        (&[&*call, &one, &created, &two][..], &[][..]),
        (&[&call, &two, &created, &one], &["server PROG-007"]),
        (&[&call, RESULT, &one], &["server PROG-009"]),
    ] {
        let capabilities = r#"{\"tools\":{},\"tasks\":{\"requests\":{\"tools\":{\"call\":{}}}}}"#;
        let text = record(&session("2025-11-25", more)).replace(r#"{\"tools\":{}}"#, capabilities);
        let file = folder.file("task.jsonl");
        fs::write(&file, text).expect("it is written");
        let lines = replay(&file).1;
        assert_eq!(broken(&lines), *expected, "{more:?}: {lines:#?}");
    }
}

pub(crate) fn broken_rules_of_2026() {
    let folder = Folder::new("replay-modern");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let request = |id: u8, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        format!(">{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let result = |id: u8, result: Value| format!("<{}", json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let discover = vec![
        request(0, "server/discover", json!({})),
        result(
            0,
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private"}),
        ),
    ];
    let call = request(1, "tools/call", json!({"name": "a"}));
    let good = result(1, json!({"resultType": "complete", "content": []}));
    let cancelled = |from: char, id: u8| {
        let params = json!({"requestId": id});
        format!("{from}{}", json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
    };
    let rows: Vec<(Vec<String>, &[&str])> = vec![
        (vec![call.clone(), good.clone()], &[]),
        (vec![call.clone(), result(1, json!({"content": []}))], &["server M-BASE-009"]),
        (vec![format!("<{}", json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}))], &["server M-BASE-023"]),
        (vec![request(2, "prompts/list", json!({}))], &["client M-BASE-055"]),
        (vec![call.clone(), cancelled('>', 1)], &[]),
        (vec![cancelled('>', 9)], &["client M-CANC-003"]),
        (vec![cancelled('<', 9)], &["server M-CANC-007"]),
        (
            vec![format!(">{}", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}))],
            &["client M-META-001"],
        ),
        (vec![good.clone()], &["server M-BASE-007"]),
        (vec!["<[]".into()], &["server M-STDIO-002"]),
    ];
    for (more, expected) in rows {
        let file = folder.file("a.jsonl");
        fs::write(&file, record(&[discover.clone(), more.clone()].concat())).expect("it is written");
        let (_, lines) = replay(&file);
        assert_eq!(broken(&lines), *expected, "{more:?}: {lines:#?}");
    }
    let with_token = |id: u8, token: &str| {
        let call = request(id, "tools/call", json!({"name": "a"}));
        call.replace(r#""_meta":{"#, &format!(r#""_meta":{{"progressToken":"{token}","#))
    };
    let progress = |token: &str| {
        let params = json!({"progressToken": token, "progress": 1});
        format!("<{}", json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
    };
    let tasks = |request: String| {
        let extension = r#"clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        request.replace(r#"clientCapabilities":{}"#, extension)
    };
    let created = result(
        1,
        json!({"resultType": "task", "taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null}),
    );
    let [discover, discovered] = &discover[..] else { unreachable!("two lines") };
    let handshake = session("2025-11-25", &[])[0].replace(r#""id":0"#, r#""id":9"#);
    let refused = json!({"jsonrpc": "2.0", "id": 9, "error": {"code": -32022, "message": "it is 2026-07-28"}});
    for lines in [
        // The discovery is slow, so the client has begun a handshake.
        vec![discover.clone(), handshake, discovered.clone(), format!("<{refused}"), call.clone(), good.clone()],
        // Without discovery.
        vec![call.clone(), good.clone()],
        vec![tasks(call.clone()), created, tasks(request(3, "tasks/get", json!({"taskId": "t"})))],
        // Before the discovery, and while it is pending.
        vec![with_token(1, "p"), progress("p"), discover.clone(), good.clone(), discovered.clone()],
        vec![discover.clone(), with_token(1, "p"), progress("p"), good, discovered.clone(), with_token(2, "q")],
    ] {
        let file = folder.file("b.jsonl");
        fs::write(&file, record(&lines)).expect("it is written");
        let (code, out) = replay(&file);
        assert_eq!((code, broken(&out)), (0, Vec::new()), "{lines:?}: {out:#?}");
    }
}

/// Ids of subscriptions are those of the client, whatever ids a state machine uses.
pub(crate) fn subscriptions_of_2026() {
    let folder = Folder::new("replay-subscriptions");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let listen = |id: Value| {
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        format!(">{}", json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}))
    };
    let said = |method: &str, id: Value, mut params: Value| {
        params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
        format!("<{}", json!({"jsonrpc": "2.0", "method": method, "params": params}))
    };
    let acknowledged = |id: Value| {
        said("notifications/subscriptions/acknowledged", id, json!({"notifications": {"toolsListChanged": true}}))
    };
    let changed = |id: Value| said("notifications/tools/list_changed", id, json!({}));
    let ended = |id: Value| {
        let result = json!({"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": id}});
        format!("<{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))
    };
    let cancelled = |from: char, id: Value| {
        let params = json!({"requestId": id});
        format!("{from}{}", json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
    };
    for id in [json!("listen:0"), json!(4711)] {
        let id = || id.clone();
        let rows: [(Vec<String>, &[&str]); 6] = [
            (vec![listen(id()), acknowledged(id()), changed(id()), changed(id())], &[]),
            // Both ends of a subscription, and a change that crosses the cancellation of the client.
            (vec![listen(id()), acknowledged(id()), ended(id()), cancelled('<', id())], &[]),
            (vec![listen(id()), acknowledged(id()), cancelled('<', id())], &[]),
            (vec![listen(id()), acknowledged(id()), cancelled('>', id()), changed(id())], &[]),
            (vec![listen(id()), changed(id())], &["server M-SUBS-006"]),
            (vec![listen(id()), acknowledged(id()), changed(json!("other"))], &["server M-SUBS-010"]),
        ];
        for (lines, expected) in rows {
            let file = folder.file("a.jsonl");
            fs::write(&file, record(&lines)).expect("it is written");
            let (_, out) = replay(&file);
            assert_eq!(broken(&out), *expected, "{lines:#?}: {out:#?}");
        }
    }
}

/// A mistake in the params is one broken rule, and the text says where it is.
pub(crate) fn wrong_params_are_found_once() {
    let folder = Folder::new("replay-params");
    let file = folder.file("a.jsonl");
    let set = r#">{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}"#;
    let text = record(&session("2025-11-25", &[set])).replace(r#"{\"tools\":{}}"#, r#"{\"logging\":{}}"#);
    fs::write(&file, text).expect("it is written");
    let (_, lines) = replay(&file);
    let what: Vec<_> = lines.iter().filter_map(|line| line["broken"][0]["what"].as_str()).collect();
    assert_eq!(broken(&lines), ["client -"], "{lines:#?}");
    assert!(what[0].contains("SetLevelParams.level"), "{what:?}");
}

pub(crate) fn requests_without_a_response() {
    let folder = Folder::new("replay-open");
    let file = folder.file("a.jsonl");
    let record = record(&session("2025-11-25", &[CALL]));
    for (end, why) in [
        ("{\"t\":9,\"exit\":3}\n", "the server ended with the exit code 3"),
        ("{\"t\":9,\"signal\":9}\n", "the server was ended by the signal 9"),
        ("{\"t\":9,\"stopped\":\"full\"}\n", "the recording stopped: full"),
        ("", "the record ends here"),
        (
            "{\"t\":9,\"from\":\"server\",\"stream\":\"stdout\",\"text\":\"{}",
            "the last line of the record is incomplete",
        ),
    ] {
        fs::write(&file, format!("{record}{end}")).expect("it is written");
        let (code, out, _) = mcp(&["replay", file.to_str().expect("UTF-8")]);
        assert!(code == 0 && out.contains(why) && out.contains("tools/call 1 a of the client: no response"), "{out}");
    }
    // A message that ends with the stream.
    let cut = "{\"t\":9,\"from\":\"server\",\"stream\":\"stdout\",\"text\":\"{\\\"jsonrpc\"}\n";
    fs::write(&file, format!("{record}{cut}")).expect("it is written");
    assert_eq!(broken(&replay(&file).1), ["server STDIO-004"]);
}

pub(crate) fn wrong_records() {
    let folder = Folder::new("replay-wrong");
    let file = folder.file("a.jsonl");
    let path = file.to_str().expect("UTF-8");
    for (text, why) in [
        ("", "is empty"),
        ("{}\n", "has no member `mcp_record`"),
        ("x\n", "the first line is no JSON"),
        ("{\"mcp_record\":1,\"transport\":\"pigeon\"}\n", "which this version cannot read"),
        ("{\"mcp_record\":1,\"transport\":\"stdio\"}\n[]\n", "line 2 of"),
    ] {
        fs::write(&file, text).expect("it is written");
        let (code, _, error) = mcp(&["replay", path]);
        assert!(code == 2 && error.contains(why), "{code} {error}");
    }
    assert_eq!(mcp(&["replay", "/no/such/file"]).0, 2);
    fs::write(&file, record(&[])).expect("it is written");
    let (code, out, _) = mcp(&["replay", path]);
    assert!(code == 0 && out.ends_with("\nThe record has no messages.\nNo rule was broken.\n"), "{out}");
    let (code, _, error) = mcp(&["replay", path, "--against", "http://127.0.0.1:1/mcp"]);
    assert!(code == 2 && error.contains("--against starts the program of a server, and uses no URL"), "{error}");
    // Texts of a record cannot control the terminal.
    let hostile = [
        "<\u{1b}[2J\u{9b}",
        r#">{"jsonrpc":"2.0","id":"\u001b[2J\n","method":"\u001b]0;x","params":{"name":"\u001b[1m"}}"#,
    ];
    fs::write(&file, record(&session("2025-11-25", &hostile))).expect("it is written");
    let (_, out, _) = mcp(&["replay", path]);
    assert!(!out.contains(['\u{1b}', '\u{9b}']), "{out}");
}

pub(crate) fn responses_are_compared(run: &Mcp) {
    let folder = Folder::new("against");
    let file = folder.file("a.jsonl");
    let path = file.to_str().expect("UTF-8");
    let recorder = format!("{} record --quiet -o {path} -- {}", env!("CARGO_BIN_EXE_mcp"), target(""));
    let (code, out, error) = run(&["call", &recorder, "sign.up", "--answer", "name=Ada"]);
    assert_eq!((code, &*out), (0, "accept {\"name\":\"Ada\",\"news\":true}\n"), "{error}");
    let (code, out, error) = mcp(&["replay", path, "--against", "{}"]);
    // The state of the request in 2026-07-28 is sealed with a key of the process.
    let is_modern = fs::read_to_string(&file).expect("a record").contains("requestState");
    if !is_modern {
        assert!(code == 0 && out.contains("2 responses are the same, 0 differ"), "{out} {error}");
        let changed = fs::read_to_string(&file).expect("a record").replace("accept {", "decline {");
        fs::write(&file, changed).expect("it is written");
        let (code, out, _) = mcp(&["replay", path, "--against", "{}"]);
        assert!(code == 1 && out.contains("DIFFERS  tools/call 2\n         /result/content/0/text"), "{out}");
        assert_eq!(mcp(&["replay", path, "--against", "{}", "--ignore", "text"]).0, 0);
        let (code, out, _) = mcp(&["replay", path, "--against", "{}", "--json"]);
        assert!(code == 1 && out.lines().last().is_some_and(|line| line.contains("\"different\":1")), "{out}");
    } else {
        assert_eq!(code, 1, "{out}");
    }
    let (code, _, error) = mcp(&["replay", path, "--against", "/no/such/program"]);
    assert!(code == 3 && error.contains("cannot be started"), "{error}");
    let (code, _, error) = mcp(&["replay", path, "--against", "sleep 2", "--timeout", "0.2"]);
    assert!(code == 5 && error.contains("the server has not sent the response to"), "{code} {error}");
    let (code, _, error) = mcp(&["replay", path, "--against", "true"]);
    assert!(code == 3 && error.contains("the server"), "{code} {error}");
}

/// Plays a record against a server that responds to each `initialize`, after it has sent some lines.
#[cfg(unix)]
fn play_against(folder: &Folder, version: &str, more: &[&str], sends: &str) -> (i32, String, String) {
    let file = folder.file("b.jsonl");
    fs::write(&file, record(&session(version, more))).expect("it is written");
    let info = r#""capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}"#;
    let result = format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{version}",{info}}}}}"#);
    let script = format!(r#"read a; printf "%s\\n" '{result}'; {sends} cat > /dev/null"#);
    let server = format!("sh -c {}", shell_words::quote(&script));
    mcp(&["replay", file.to_str().expect("UTF-8"), "--against", &server, "--timeout", "5"])
}

/// Returns a notification of the client that is longer than a pipe holds.
#[cfg(unix)]
fn long_notification() -> String {
    let params = json!({"a": "a".repeat(100_000)});
    format!(">{}", json!({"jsonrpc": "2.0", "method": "notifications/long", "params": params}))
}

#[cfg(unix)]
pub(crate) fn servers_that_write_before_they_read_are_drained() {
    let (folder, long) = (Folder::new("against-drain"), long_notification());
    // A server that still waits for its reader after a minute is ended.
    let writes = r#"(sleep 60; kill $$) > /dev/null 2>&1 & guard=$!
        i=0; while [ $i -lt 100000 ]; do echo '{"jsonrpc":"2.0","method":"notifications/a"}'; i=$((i + 1)); done
        kill $guard;"#;
    let reads = format!("read b; read c; read d; echo '{}';", &RESULT[1..]);
    let (code, out, error) = play_against(&folder, "2025-11-25", &[&long, CALL, RESULT], &format!("{writes} {reads}"));
    assert!(code == 0 && out.contains("2 responses are the same, 0 differ"), "{code} {out} {error}");
    let (code, out, error) = play_against(&folder, "2025-11-25", &[&long], "exec sleep 60;");
    assert!(code == 5 && error.contains("the server has not read a message in time"), "{code} {out} {error}");
}

#[cfg(unix)]
pub(crate) fn requests_that_the_server_does_not_send_differ() {
    let folder = Folder::new("against-missing");
    let question = r#"<{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#;
    let answer = r#">{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}"#;
    // The rest of the input is shown.
    let server = format!("read b; read c; echo '{}'; cat >&2;", &RESULT[1..]);
    let (code, out, error) = play_against(&folder, "2025-11-25", &[CALL, question, answer, RESULT, CALL], &server);
    let difference = "DIFFERS  roots/list 7\n         the response\n           recorded: the request roots/list\n           \
                      received: nothing\n";
    assert!(code == 1 && out.contains(difference), "{code} {out} {error}");
    assert!(out.contains("2 responses are the same, 1 differ"), "{out}");
    assert!(error.contains("tools/call") && !error.contains("roots"), "no response without its request: {error}");
}

#[cfg(unix)]
pub(crate) fn batches_and_other_requests_are_compared() {
    let folder = Folder::new("against-batch");
    let batch = [r#">[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, r#"<[{"jsonrpc":"2.0","id":1,"result":{}}]"#];
    let answer = |result: &str| format!(r#"echo '[{{"jsonrpc":"2.0","id":1,"result":{result}}}]';"#);
    let play = |more: &[&str], sends: &str| play_against(&folder, "2025-03-26", more, sends);
    // A response before its request is none.
    let read = "read b; read c;";
    let (code, out, error) = play(&batch, &format!("{read} {}", answer("{}")));
    assert!(code == 0 && out.contains("2 responses are the same, 0 differ"), "{code} {out} {error}");
    let (code, out, error) = play(&batch, &format!("{read} {}", answer(r#"{"a":1}"#)));
    assert!(code == 1 && out.contains("1 responses are the same, 1 differ"), "{code} {out} {error}");
    // Neither a recorded ping of the server nor a response that crossed its cancellation is waited for.
    let optional = [
        r#"<{"jsonrpc":"2.0","id":9,"method":"ping"}"#,
        r#">{"jsonrpc":"2.0","id":9,"result":{}}"#,
        CALL,
        r#">{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        RESULT,
    ];
    let (code, out, error) = play(&optional, "");
    assert!(code == 0 && out.contains("1 responses are the same, 0 differ"), "{code} {out} {error}");
    // The server goes on only after the response to each of its requests.
    let ask = |method: &str| {
        let request = format!(r#"{{"jsonrpc":"2.0","id":"q","method":"{method}"}}"#);
        format!("{read} echo '{request}'; read d; case $d in *'\"q\"'*) {} esac;", answer("{}"))
    };
    let (code, out, error) = play(&batch, &ask("ping"));
    assert!(code == 0 && out.contains("2 responses are the same, 0 differ"), "{code} {out} {error}");
    let (code, out, error) = play(&batch, &ask("roots/list"));
    assert!(code == 1 && out.contains("DIFFERS  roots/list"), "{code} {out} {error}");
}
