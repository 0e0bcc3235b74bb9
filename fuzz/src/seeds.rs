//! Where the corpora come from: the published examples of the specification, and recorded conversations.

use std::{collections::BTreeMap, fs, io, path::Path};

use arbitrary::Unstructured;
use mcp_proto::{
    connection::{ClientConfig, ServerConfig},
    protocol::{ProtocolVersion, VersionSet},
    schema::{ArbitraryAt, At, ClientRequest, ClientResult, Encode, ServerRequest, ServerResult},
};
use mcp_tests::{
    bed::{Bed, End},
    link::LinkConfig,
    solo::{full_client, full_server},
};
use serde_json::Value;

use crate::{app::App, dice::Dice, script::act};

/// Inputs by target and name.
pub type Seeds = BTreeMap<(&'static str, String), Vec<u8>>;

/// Every seed, the same each time. `spec` is the folder with the published `examples`.
///
/// # Errors
/// If the examples cannot be read.
pub fn seeds(spec: &Path) -> io::Result<Seeds> {
    let mut seeds = Seeds::new();
    examples(&mut seeds, &spec.join("examples"))?;
    for opening in 0..7 {
        conversation(&mut seeds, opening);
    }
    random_values(&mut seeds);
    by_hand(&mut seeds);
    Ok(seeds)
}

/// The types of the specification that are named after a method.
const NAMES: [(&str, &str); 14] = [
    ("CallTool", "tools/call"),
    ("Complete", "completion/complete"),
    ("CreateMessage", "sampling/createMessage"),
    ("Discover", "server/discover"),
    ("Elicit", "elicitation/create"),
    ("GetPrompt", "prompts/get"),
    ("InputRequired", "tools/call"),
    ("ListPrompts", "prompts/list"),
    ("ListResourceTemplates", "resources/templates/list"),
    ("ListResources", "resources/list"),
    ("ListRoots", "roots/list"),
    ("ListTools", "tools/list"),
    ("ReadResource", "resources/read"),
    ("SubscriptionsListen", "subscriptions/listen"),
];

fn examples(seeds: &mut Seeds, folder: &Path) -> io::Result<()> {
    for kind in fs::read_dir(folder)? {
        let kind = kind?;
        for example in fs::read_dir(kind.path())? {
            let path = example?.path();
            let example: Value = serde_json::from_str(&fs::read_to_string(&path)?).map_err(io::Error::other)?;
            let kind = kind.file_name().to_string_lossy().into_owned();
            let name = format!("{kind}-{}", path.file_stem().unwrap_or_default().to_string_lossy());
            let text = example.to_string();
            let mut add = |target, text: String| drop(seeds.insert((target, name.clone()), text.into_bytes()));
            if example.get("jsonrpc").is_some() {
                add("message", text.clone());
                add("server", format!("6@{text}\n"));
                // An answer needs a question before it.
                let method = NAMES.iter().find(|(name, _)| kind.strip_prefix(name) == Some("ResultResponse"));
                let question = method.map_or(String::new(), |(_, method)| format!("@c{method}\n"));
                let mut answer = example.clone();
                if !question.is_empty() {
                    answer["id"] = 2.into();
                }
                add("client", format!("7@{question}{answer}\n"));
            }
            if let (Some(method), Some(params)) = (example["method"].as_str(), example.get("params")) {
                add("params", format!("{method}\n{params}"));
            }
            for (name, method) in NAMES {
                if let Some("Result" | "RequestParams" | "RequestFormParams" | "RequestURLParams") =
                    kind.strip_prefix(name)
                {
                    add("params", format!("{method}\n{text}"));
                }
            }
        }
    }
    Ok(())
}

/// What two applications do to each other: which one, and what it does in the language of `script`.
const SCENE: [(Who, &str); 38] = {
    use Who::{Client as C, Server as S};
    [
        (C, "ctools/list {}"),
        (S, "r0"),
        (C, "ctools/call {\"name\":\"t\",\"arguments\":{\"a\":1}}"),
        (S, "p0"),
        (S, "l0"),
        (S, "p0"),
        (S, "r0"),
        (C, "ctools/call {\"name\":\"t\"}"),
        (S, "i0"),
        (C, "r0"),
        (C, "r0"),
        (S, "r0"),
        (C, "cprompts/get {\"name\":\"p\"}"),
        (C, "x0"),
        (S, "e0"),
        (C, "cresources/read {\"uri\":\"a:b\"}"),
        (S, "e0"),
        (C, "cresources/subscribe {\"uri\":\"a:b\"}"),
        (S, "r0"),
        (S, "nnotifications/resources/updated {\"uri\":\"a:b\"}"),
        (C, "clogging/setLevel {\"level\":\"info\"}"),
        (S, "r0"),
        (S, "nnotifications/message {\"level\":\"error\",\"data\":1}"),
        (
            C,
            "fsubscriptions/listen {\"notifications\":{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"a:b\"]}}",
        ),
        (S, "nnotifications/tools/list_changed"),
        (S, "nnotifications/resources/updated {\"uri\":\"a:b/c\"}"),
        (C, "x0"),
        (C, "cping"),
        (S, "croots/list"),
        (C, "r0"),
        (S, "csampling/createMessage {\"messages\":[],\"maxTokens\":1}"),
        (C, "p0"),
        (S, "x0"),
        (S, "celicitation/create {\"message\":\"m\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}"),
        (C, "e0"),
        (C, "ctools/call {\"name\":\"t\",\"task\":{}}"),
        (S, "r0"),
        (C, "nnotifications/roots/list_changed"),
    ]
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Client,
    Server,
}

/// Plays the scene between two peers, and writes down what each of them does and hears.
fn conversation(seeds: &mut Seeds, opening: usize) {
    let versions = match opening {
        0..=3 => VersionSet::only(ProtocolVersion::LEGACY[opening]),
        4 => VersionSet::LEGACY,
        5 => VersionSet::ALL,
        _ => VersionSet::only(ProtocolVersion::V2026_07_28),
    };
    let (mut client, mut server): (ClientConfig, ServerConfig) = (full_client(), full_server());
    (client.settings.versions, server.settings.versions) = (versions, versions);
    let mut bed = Bed::new(client, server, LinkConfig::default(), LinkConfig::default());
    let (mut client, mut server) = (App::default(), App::default());
    // The scripts begin before the handshake.
    let start = if opening == 6 {
        "6P@\n"
    } else if opening == 5 {
        "5P@\n"
    } else {
        "4P@\n"
    };
    let (mut at_client, mut at_server) = (start.to_owned(), start.to_owned());
    for (who, line) in [(Who::Client, "")].iter().chain(&SCENE) {
        let mut letters = line.chars();
        if let Some(verb) = letters.next() {
            match who {
                Who::Client => act(&mut bed.client.conn, &mut client, bed.now, verb, letters.as_str()),
                Who::Server => act(&mut bed.server.conn, &mut server, bed.now, verb, letters.as_str()),
            }
            let script = if *who == Who::Client { &mut at_client } else { &mut at_server };
            *script += &format!("@{line}\n");
        }
        bed.settle();
        hear(&mut client, &mut bed.client, &mut at_server);
        hear(&mut server, &mut bed.server, &mut at_client);
    }
    seeds.insert(("client", format!("conversation-{opening}")), at_client.into_bytes());
    seeds.insert(("server", format!("conversation-{opening}")), at_server.into_bytes());
}

/// The application hears what there is, and the other one's script gets what has left.
fn hear<E>(app: &mut App, end: &mut End<E>, script: &mut String) {
    for event in std::mem::take(&mut end.events) {
        app.on_event(&mut end.conn, event);
    }
    for line in std::mem::take(&mut end.log) {
        *script += &line;
        *script += "\n@\n";
    }
}

/// One value of each method, and bytes to make values of.
fn random_values(seeds: &mut Seeds) {
    let mut dice = Dice::new(1);
    let mut bytes = |len: usize| (0..len).map(|_| dice.roll(256) as u8).collect::<Vec<u8>>();
    for n in 0..16 {
        seeds.insert(("values", format!("random-{n:02}")), bytes(256));
        seeds.insert(("pair", format!("random-{n:02}")), bytes(200));
    }
    for n in 0..400 {
        let bytes = bytes(600);
        let mut u = Unstructured::new(&bytes);
        let one = match n % 4 {
            0 => some(&mut u, ClientRequest::method).map(|found| ("client-request", found)),
            1 => some(&mut u, ServerRequest::method).map(|found| ("server-request", found)),
            2 => some(&mut u, ClientResult::method).map(|found| ("client-result", found)),
            _ => some(&mut u, ServerResult::method).map(|found| ("server-result", found)),
        };
        if let Some((side, (method, text))) = one.filter(|(_, (_, text))| text.len() < 1500) {
            let name = format!("random-{side}-{}", method.replace('/', "-"));
            seeds.insert(("params", name), format!("{method}\n{text}").into_bytes());
        }
    }
}

fn some<T: ArbitraryAt + Encode>(
    u: &mut Unstructured<'_>,
    method: impl Fn(&T) -> mcp_proto::protocol::Method,
) -> Option<(&'static str, String)> {
    let value = T::arbitrary_at(u, None).ok()?;
    Some((method(&value).as_str(), serde_json::to_string(&At(&value, None)).ok()?))
}

/// What no example has.
fn by_hand(seeds: &mut Seeds) {
    let mut add = |target, name: &str, text: &[u8]| drop(seeds.insert((target, name.to_owned()), text.to_vec()));
    add("lines", "mixed", b"\x20\x01{\"a\":1}\r\n\n \t\r\n{\"b\":2}\nhalf");
    add("lines", "mark", b"\x08\x02\xEF\xBB\xBF{}\n\xEF\xBB\xBF\n\xEF\xBB");
    add("lines", "long", b"\x04\x03xxxxx\nxxxx\r\nxxxxx\r\n\r\r\r\r\r\r\nok\nxxxxxxxxx");
    for (name, text) in [
        ("array", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"a"},[],1]"#),
        ("ids", r#"[1,1.0,1e0,"1","\u0031",-0,0,10e-1,1.5,"\ud800",18446744073709551616,null,1e64,1e65]"#),
        ("twice", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#),
        ("both", r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#),
        ("params", r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"ab\"c"},"params":{"resultType":"abc"}}"#),
        ("error", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-3.2e4,"message":"\ud83e\udd80","data":[[]]}}"#),
        ("escapes", r#" { "\u006asonrpc" : "2.0" , "i\u0064":"\/","method" : "a\nb" , "params" : null } "#),
        (
            "meta",
            r#"{"jsonrpc":"2.0","id":"x","method":"m","params":{"a":[1,{}],"_meta":{"progressToken":7},"_meta":1}}"#,
        ),
        ("range", r#"{"jsonrpc":"2.0","id":1,"result":{"big":1e999,"half":"\udc00","x":[[[[]]]]}}"#),
    ] {
        add("message", name, text.as_bytes());
    }
    add("message", "deep", format!("{}{}", "[".repeat(127), "]".repeat(127)).as_bytes());
    add("server", "batch", b"1@[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}},1]\n@\n[]\n");
    add(
        "server",
        "junk",
        b"4C\xff\xfe\n{\"id\":1}\nnot json\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}\n@s\n@t5000\n@u\n",
    );
    add("client", "banner", b"4Chello\nI am a server\n{}\n@t40000\n");
    add("client", "pings", b"3D@t3000\n@t3000\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n@t10000\n");
    add("client", "probe", b"5@@\n{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32022,\"message\":\"m\",\"data\":{\"supported\":[\"2025-06-18\"],\"requested\":\"2026-07-28\"}}}\n@\n");
    add("client", "late", b"3@@ctools/list\n@t2000\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":\"2\",\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n");
    for (name, text) in [
        ("path", "file:///{+path}\nfile:///a/b\n/x\n"),
        ("query", "weather://{city}{?day,unit}\nweather://x?unit=c&day=1\n\u{e9}\nb c"),
        ("labels", "a://b{.x,y}{/z}\na://b.1.2/3\n1\n2\n3"),
        ("matrix", "a://b{;x,y}{#f}\na://b;y=2;x#g\n\n%\n&"),
        ("between", "t://{id}/data\nt://a%2Fb/data\n/"),
    ] {
        add("template", name, text.as_bytes());
    }
    add(
        "sse",
        "mixed",
        b"\x40\x01: hello\n\nid: 7\ndata: one\r\ndata:two\rdata\n\nevent: x\ndata: y\n\nretry: 500\n\nid\ndata: half",
    );
    add("sse", "mark", b"\x20\x02\xEF\xBB\xBFdata: x\r\n\r\n\xEF\xBB\xBFdata: y\n\nid: a\0\ndata\n\n");
    add("sse", "long", b"\x08\x03data: 12345678\n\ndata: 123456789\nid: 1\n\nevent: 123456\ndata: 123\n\ndata: ok\n\n");
    add("headers", "plain", b"row 12");
    add("headers", "base64", b"=?base64?Y2Fmw6k=?=");
    let schema = br#"caf\u00e9
{"properties":{"s":{"type":"string","x-mcp-header":"S"},"o":{"properties":{"i":{"type":["integer","null"],"x-mcp-header":"I"}}},"b":{"type":"boolean","x-mcp-header":"B"}}}
{"s":" x","o":{"i":4.2e1},"b":true}"#;
    add("headers", "arguments", schema);
    for (name, text) in [
        ("http", "http://[::1]:80/a?b=c/d?e#f/g?h"),
        ("urn", "urn:isbn:0451450523"),
        ("data", "data:text/plain;base64,aGk="),
        ("escape", "file:///a/b%20c"),
    ] {
        add("uri", name, text.as_bytes());
    }
    add("base64", "text", b"aGVsbG8=");
    add("base64", "bytes", b"\0\xff\xfe");
}
