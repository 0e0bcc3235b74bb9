use super::*;

fn variable(name: &str) -> Option<String> {
    match name {
        "HOME" => Some("/home/me".into()),
        "EMPTY" => Some(String::new()),
        "NESTED" => Some("${HOME}".into()),
        "TOKEN" => Some("s3cret".into()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<ServersConfig, ConfigError> {
    ServersConfig::parse(text, variable)
}

/// Parses the members of one server.
fn server(members: &str) -> Result<ServerConfig, String> {
    let config = parse(&format!(r#"{{"mcpServers":{{"s":{{{members}}}}}}}"#)).map_err(|error| error.to_string())?;
    Ok(config.get("s").expect("it is there").clone())
}

#[test]
fn reads_files_of_several_applications() {
    let desktop =
        r#"{"mcpServers":{"files":{"command":"npx","args":["-y","server","${HOME}/a b"],"env":{"K":"${TOKEN}"}}}}"#;
    let config = parse(desktop).expect("a configuration");
    let Some(ServerConfig::Stdio(files)) = config.get("files") else { panic!("a program") };
    assert_eq!(files.args, ["-y", "server", "/home/me/a b"]);
    assert_eq!(files.env, [("K".to_owned(), "s3cret".to_owned())]);

    let code = r#"{"inputs":[],"servers":{"b":{"type":"http","url":"https://x/mcp","gallery":true},
        "a":{"type":"stdio","command":"c","cwd":"/tmp"},"off":{"disabled":true,"command":7}},"other":1}"#;
    let config = parse(code).expect("a configuration");
    assert_eq!(config.servers().map(|(name, _)| name).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(config.warnings(), ["servers.b.gallery is ignored", "other is ignored"]);
    let enabled = parse(r#"{"servers":{"a":{"command":"c","disabled":false}}}"#).expect("a configuration");
    assert_eq!((enabled.servers().count(), enabled.warnings()), (1, &[][..]));
    for (kind, transport) in [
        ("\"type\":\"sse\",", HttpTransport::Sse),
        ("\"type\":\"streamable-http\",", HttpTransport::Streamable),
        ("", HttpTransport::Streamable),
    ] {
        let http = server(&format!(r#"{kind}"url":"http://a/b","headers":{{"X":"1"}}"#)).expect("a server");
        let ServerConfig::Http(http) = http else { panic!("over HTTP") };
        assert_eq!((http.transport, http.headers.len()), (transport, 1));
    }
}

#[test]
fn variables_are_replaced_once() {
    let command = |text: &str| match server(&format!(r#""command":"{text}""#)) {
        Ok(ServerConfig::Stdio(stdio)) => Ok(stdio.command),
        Ok(_) => panic!("a program"),
        Err(why) => Err(why),
    };
    for (text, expanded) in [
        ("${HOME}", "/home/me"),
        ("a${env:HOME}b${HOME}", "a/home/meb/home/me"),
        ("${NONE:-x y}", "x y"),
        ("x${NONE:-}", "x"),
        ("x${EMPTY}", "x"),
        ("${EMPTY:-d}", "d"),
        ("${NESTED}", "${HOME}"),
        ("$HOME $ {} }", "$HOME $ {} }"),
    ] {
        assert_eq!(command(text).as_deref(), Ok(expanded), "{text}");
    }
    for (text, why) in [
        ("${NONE}", "mcpServers.s.command: the variable NONE is not set"),
        ("${HOME", "mcpServers.s.command: \"${\" without \"}\""),
        ("${input:key}", "mcpServers.s.command: \"${input:key}\" is not supported"),
        ("${NONE:-${HOME}}", "mcpServers.s.command: \"${\" inside \"${..}\" is not supported"),
        ("${HOME:-a${b}", "mcpServers.s.command: \"${\" inside \"${..}\" is not supported"),
        ("${}", "mcpServers.s.command: \"${}\" is not supported"),
    ] {
        assert_eq!(command(text), Err(why.into()), "{text}");
    }
}

#[test]
fn wrong_files_are_refused() {
    for (text, why) in [
        ("", "the file is not JSON"),
        ("[]", "it is not an object"),
        ("{}", "there is no \"mcpServers\" or \"servers\""),
        (r#"{"servers":{},"mcpServers":{}}"#, "there are both"),
        (r#"{"servers":{},"servers":{}}"#, "servers: it is there twice"),
        (r#"{"servers":{"a":{"command":"x"},"\u0061":{"command":"y"}}}"#, "servers.a: it is there twice"),
        (r#"{"servers":{"a":{"command":"x","command":"y"}}}"#, "servers.a.command: it is there twice"),
        (r#"{"servers":{"a":{"command":"x","env":{"K":"1","K":"2"}}}}"#, "servers.a.env.K: it is there twice"),
        (r#"{"servers":{"a":7}}"#, "servers.a: it is not an object"),
        (r#"{"servers":{"":{"command":"x"}}}"#, "it is no name"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    for (members, why) in [
        ("", "it has neither a \"command\" nor a \"url\""),
        (r#""command":"a","url":"b""#, "it has both"),
        (r#""type":"stdio","url":"b""#, "has no \"url\""),
        (r#""type":"stdio","args":["a"]"#, "a server of the type \"stdio\" needs a \"command\""),
        (r#""type":"http","command":"b""#, "needs a \"url\""),
        (r#""type":"ws","url":"b""#, "its type is none of"),
        (r#""command":7"#, "mcpServers.s.command: it is not a text"),
        (r#""command":"a","args":"b""#, "mcpServers.s.args: it is not a list"),
        (r#""command":"a","args":[7]"#, "mcpServers.s.args.0: it is not a text"),
        (r#""command":"a","env":{"K":1}"#, "mcpServers.s.env.K: it is not a text"),
    ] {
        let error = server(members).expect_err(members);
        assert!(error.contains(why), "{members}: {error}");
    }
}

#[test]
fn sizes_are_bounded() {
    let long = "x".repeat(ServersConfig::MAX_BYTES + 1);
    assert!(parse(&long).expect_err("it is too large").to_string().contains("too large"));
    let empty = r#"{"servers":{}}"#;
    let longest = format!("{empty}{}", " ".repeat(ServersConfig::MAX_BYTES - empty.len()));
    assert!(parse(&longest).is_ok());
    assert!(parse(&format!("{longest} ")).is_err());
    // A short text with a long variable, many times.
    let many = vec!["\"${LONG}\""; 2000].join(",");
    let text = format!(r#"{{"servers":{{"a":{{"command":"x","args":[{many}]}}}}}}"#);
    let value = "y".repeat(10_000);
    let error = ServersConfig::parse(&text, |_| Some(value.clone())).expect_err("it is too large");
    assert!(error.to_string().contains("the texts are too long"), "{error}");
}

#[test]
fn the_number_of_warnings_is_bounded() {
    for (unknown, warnings) in [(99, 99), (100, 100), (101, 100), (500, 100)] {
        let members: Vec<_> = (0..unknown).map(|number| format!(r#""x{number}":1"#)).collect();
        let config = parse(&format!(r#"{{"servers":{{}},{}}}"#, members.join(","))).expect("a configuration");
        assert_eq!(config.warnings().len(), warnings, "{unknown}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let text = r#"{"servers":{"a":{"command":"x","args":["--key=${TOKEN}"],"env":{"K":"${TOKEN}"}},
        "b":{"url":"https://me:${TOKEN}@host:1/p?key=${TOKEN}","headers":{"Authorization":"Bearer ${TOKEN}"}}}}"#;
    let shown = format!("{:?}", parse(text).expect("a configuration"));
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(
        shown.contains("https://host:1/..") && shown.contains("Authorization") && shown.contains("\"K\""),
        "{shown}"
    );
}

#[test]
fn values_from_variables_are_not_shown() {
    let shown = |members: &str| format!("{:?}", server(members).expect("a server"));
    let stdio = shown(r#""command":"/bin/${TOKEN}","cwd":"/tmp/${TOKEN:-x}""#);
    assert!(!stdio.contains("s3cret") && !stdio.contains("/bin") && !stdio.contains("/tmp"), "{stdio}");
    let stdio = shown(r#""command":"npx","cwd":"/tmp""#);
    assert!(stdio.contains("\"npx\"") && stdio.contains("/tmp"), "{stdio}");
    let stdio = shown(r#""command":"npx","cwd":"${HOME}""#);
    assert!(stdio.contains("\"npx\"") && !stdio.contains("/home"), "{stdio}");
    for url in ["${TOKEN}", "s3cret", "s3cret/a?b", "me:s3cret@host"] {
        let http = shown(&format!(r#""url":"{url}""#));
        let bytes = url.replace("${TOKEN}", "s3cret").len();
        assert!(!http.contains("s3cret") && http.contains(&format!("{bytes} redacted")), "{http}");
    }
    // Equal servers are equal, with variables or without.
    assert_eq!(server(r#""command":"${HOME}""#), server(r#""command":"/home/me""#));
}
