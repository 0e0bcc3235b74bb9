//! Arguments of tools and prompts on the command line.

use std::{
    fs,
    io::{self, Read},
};

use serde_json::{Map, Value};

use crate::error::Failed;

/// The most bytes of arguments in a file or on the standard input.
const MAX_BYTES: u64 = 64 << 20;

/// Reads the arguments of a tool with this input schema.
pub(crate) fn of_tool(arguments: &[String], schema: &Value) -> Result<Map<String, Value>, Failed> {
    if let [whole] = arguments {
        let text = match whole.as_bytes() {
            [b'{', ..] => Some(whole.clone()),
            b"-" => Some(read(io::stdin().lock(), "the standard input")?),
            [b'@', ..] => {
                let name = &whole[1..];
                Some(read(fs::File::open(name).map_err(|error| unreadable(name, &error))?, name)?)
            }
            _ => None,
        };
        if let Some(text) = text {
            return match serde_json::from_str(&text) {
                Ok(Value::Object(arguments)) => Ok(arguments),
                Ok(_) => Err(Failed::usage("the arguments are no JSON object")),
                Err(error) => Err(Failed::usage(format!("the arguments are no JSON: {error}"))),
            };
        }
    }
    let mut read = Map::new();
    for argument in arguments {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => match name.strip_suffix(':') {
                Some(name) => (name, json(name, value)?),
                None => (name, typed(name, value, schema)?),
            },
            None => return Err(Failed::usage(format!("`{argument}` is not `name=value`"))),
        };
        if read.insert(name.to_owned(), value).is_some() {
            return Err(Failed::usage(format!("the argument `{name}` is there twice")));
        }
    }
    Ok(read)
}

/// Reads arguments that are texts.
pub(crate) fn texts(arguments: &[String]) -> Result<Map<String, Value>, Failed> {
    let read = of_tool(arguments, &Value::Null)?;
    match read.iter().find(|(_, value)| !value.is_string()) {
        Some((name, _)) => Err(Failed::usage(format!("the argument `{name}` is no text"))),
        None => Ok(read),
    }
}

/// Reads the values of a form: what is no JSON is a text.
pub(crate) fn answers(answers: &[String]) -> Result<Map<String, Value>, Failed> {
    let pairs = answers.iter().map(|answer| match answer.split_once('=') {
        Some((name, value)) => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((name.to_owned(), value))
        }
        None => Err(Failed::usage(format!("the answer `{answer}` is not `field=value`"))),
    });
    pairs.collect()
}

fn unreadable(name: &str, error: &io::Error) -> Failed {
    Failed::usage(format!("{name} cannot be read: {error}"))
}

fn read(source: impl Read, name: &str) -> Result<String, Failed> {
    let mut text = String::new();
    source.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| unreadable(name, &error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Failed::usage("the arguments are larger than 64 MiB"));
    }
    Ok(text)
}

fn json(name: &str, value: &str) -> Result<Value, Failed> {
    serde_json::from_str(value).map_err(|error| Failed::usage(format!("`{name}` is no JSON: {error}")))
}

/// Reads a value by its type in the schema. Without a known type it is a text.
pub(crate) fn typed(name: &str, value: &str, schema: &Value) -> Result<Value, Failed> {
    let property = schema.get("properties").and_then(|properties| properties.get(name));
    let kinds: Vec<_> = match property.and_then(|property| property.get("type")) {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["string"],
    };
    if kinds.contains(&"string") {
        return Ok(value.into());
    }
    let wrong = || Failed::usage(format!("the argument `{name}` is not of the type {}", kinds.join(" or ")));
    let parsed: Value = serde_json::from_str(value).map_err(|_| wrong())?;
    let fits = kinds.iter().any(|kind| match *kind {
        "integer" => parsed.is_i64() || parsed.is_u64() || parsed.as_f64().is_some_and(|it| it.fract() == 0.0),
        "number" => parsed.is_number(),
        "boolean" => parsed.is_boolean(),
        "array" => parsed.is_array(),
        "object" => parsed.is_object(),
        "null" => parsed.is_null(),
        _ => true,
    });
    if fits { Ok(parsed) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "share": {"type": "number"},
            "yes": {"type": "boolean"}, "list": {"type": "array"}, "maybe": {"type": ["integer", "null"]}, "any": {},
        }})
    }

    fn parse(arguments: &[&str]) -> Result<Value, String> {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        of_tool(&arguments, &schema()).map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_have_the_type_of_the_schema() {
        let read = parse(&["text=7", "count=7", "share=0.5", "yes=true", "list=[1]", "maybe=null", "any=7", "new:=7"]);
        let expected = json!({"text": "7", "count": 7, "share": 0.5, "yes": true, "list": [1], "maybe": null,
            "any": "7", "new": 7});
        assert_eq!(read, Ok(expected));
        assert_eq!(parse(&[r#"{"text": 1}"#]), Ok(json!({"text": 1})));
        assert_eq!(parse(&["text=a=b"]), Ok(json!({"text": "a=b"})));
        assert_eq!(parse(&[]), Ok(json!({})));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, why) in [
            (&["count=x"][..], "the argument `count` is not of the type integer"),
            (&["count=1.5"], "the argument `count` is not of the type integer"),
            (&["maybe=true"], "the argument `maybe` is not of the type integer or null"),
            (&["yes=1"], "the argument `yes` is not of the type boolean"),
            (&["text"], "`text` is not `name=value`"),
            (&["text=1", "text=2"], "the argument `text` is there twice"),
            (&["{"], "the arguments are no JSON"),
        ] {
            let error = parse(arguments).expect_err(why);
            assert!(error.starts_with(why), "{error}");
        }
    }
}
