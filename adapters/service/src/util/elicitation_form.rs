//! Forms of elicitation: their default values, and the check of a response.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use mcp_proto::schema::{
    ElicitAction, ElicitResult, ElicitSchema, ElicitValue, Map, NumberKind, PrimitiveSchema, StringFormat,
};
use serde_json::Number;

use super::{text_arguments::excerpt, uri::is_uri};

/// Fills in the defaults of the fields without a value.
///
/// The fields are the peer's, so this is linear in their number.
pub(crate) fn fill_in(schema: &ElicitSchema, content: &mut Map<ElicitValue>) {
    let mut answered: HashSet<&str> = content.iter().map(|(name, _)| name).collect();
    let missing: Vec<_> = (&schema.properties)
        .into_iter()
        .filter_map(|(name, field)| Some((name, default(field)?)))
        .filter(|(name, _)| answered.insert(name))
        .collect();
    if !missing.is_empty() {
        let missing = missing.into_iter().map(|(name, value)| (name.to_owned(), value));
        *content = mem::take(content).into_iter().chain(missing).collect();
    }
}

fn default(field: &PrimitiveSchema) -> Option<ElicitValue> {
    let text = |text: &Option<String>| text.clone().map(ElicitValue::String);
    let texts = |texts: &Option<Vec<String>>| texts.clone().map(ElicitValue::Strings);
    match field {
        PrimitiveSchema::String(field) => text(&field.default),
        PrimitiveSchema::Number(field) => field.default.clone().map(ElicitValue::Number),
        PrimitiveSchema::Boolean(field) => field.default.map(ElicitValue::Boolean),
        PrimitiveSchema::UntitledSingleSelect(field) => text(&field.default),
        PrimitiveSchema::TitledSingleSelect(field) => text(&field.default),
        PrimitiveSchema::LegacyTitledEnum(field) => text(&field.default),
        PrimitiveSchema::UntitledMultiSelect(field) => texts(&field.default),
        PrimitiveSchema::TitledMultiSelect(field) => texts(&field.default),
        PrimitiveSchema::Other(_) => None,
    }
}

/// Checks that the content of an accepted form matches the form's schema. The error names the field that does not.
pub(crate) fn check_answer(schema: &ElicitSchema, answer: &ElicitResult) -> Result<(), String> {
    match (&answer.action, &answer.content) {
        (ElicitAction::Accept, Some(content)) => check(schema, content),
        (ElicitAction::Accept, None) => check(schema, &Map::new()),
        _ => Ok(()),
    }
}

/// Checks that the fields allow their default values. The error names the field that does not.
pub(crate) fn check_defaults(schema: &ElicitSchema) -> Result<(), String> {
    for (name, field) in &schema.properties {
        if let Some(value) = default(field) {
            check_field(field, &value).map_err(|why| format!("`{name}` {why}"))?;
        }
    }
    Ok(())
}

/// Checks content against its form. The error names the invalid field.
fn check(schema: &ElicitSchema, content: &Map<ElicitValue>) -> Result<(), String> {
    // The peer chooses the names, so they are looked up in a set and not in a list.
    let answers: HashSet<&str> = content.iter().map(|(name, _)| name).collect();
    let fields: HashMap<&str, &PrimitiveSchema> = schema.properties.iter().collect();
    if let Some(name) = schema.required.iter().flatten().find(|name| !answers.contains(name.as_str())) {
        return Err(format!("`{name}` is missing"));
    }
    for (name, value) in content {
        if let Some(field) = fields.get(name) {
            check_field(field, value).map_err(|why| format!("`{name}` {why}"))?;
        }
    }
    Ok(())
}

fn check_field(field: &PrimitiveSchema, value: &ElicitValue) -> Result<(), String> {
    let unknown = |value: &str| Err(excerpt(&format_args!("is not among the choices: {value:?}")));
    let is_among = |value: &str, mut values: Box<dyn Iterator<Item = &String> + '_>| {
        if values.any(|known| known == value) { Ok(()) } else { unknown(value) }
    };
    let are_among = |chosen: &[String], values: Box<dyn Iterator<Item = &String> + '_>| {
        let values: HashSet<&String> = values.collect();
        chosen.iter().find(|value| !values.contains(value)).map_or(Ok(()), |value| unknown(value))
    };
    match (field, value) {
        (PrimitiveSchema::String(field), ElicitValue::String(text)) => {
            check_length(text.chars().count(), field.min_length, field.max_length, "characters")?;
            match &field.format {
                Some(format) if !has_format(text, format) => Err(format!("is not of the format {format}")),
                _ => Ok(()),
            }
        }
        (PrimitiveSchema::Number(field), ElicitValue::Number(number)) => {
            if field.kind == NumberKind::Integer && !is_integer(number) {
                return Err("is not an integer".into());
            }
            let value = number.as_f64();
            let limit = |limit: &Option<Number>| limit.as_ref().and_then(Number::as_f64);
            if limit(&field.minimum) > value && field.minimum.is_some() {
                return Err("is too small".into());
            }
            if limit(&field.maximum).is_some_and(|maximum| value > Some(maximum)) {
                return Err("is too large".into());
            }
            Ok(())
        }
        (PrimitiveSchema::Boolean(_), ElicitValue::Boolean(_)) | (PrimitiveSchema::Other(_), _) => Ok(()),
        (PrimitiveSchema::UntitledSingleSelect(field), ElicitValue::String(text)) => {
            is_among(text, Box::new(field.values.iter()))
        }
        (PrimitiveSchema::LegacyTitledEnum(field), ElicitValue::String(text)) => {
            is_among(text, Box::new(field.values.iter()))
        }
        (PrimitiveSchema::TitledSingleSelect(field), ElicitValue::String(text)) => {
            is_among(text, Box::new(field.options.iter().map(|option| &option.value)))
        }
        (PrimitiveSchema::UntitledMultiSelect(field), ElicitValue::Strings(texts)) => {
            check_length(texts.len(), field.min_items, field.max_items, "choices")?;
            are_among(texts, Box::new(field.items.values.iter()))
        }
        (PrimitiveSchema::TitledMultiSelect(field), ElicitValue::Strings(texts)) => {
            check_length(texts.len(), field.min_items, field.max_items, "choices")?;
            are_among(texts, Box::new(field.items.options.iter().map(|option| &option.value)))
        }
        _ => Err("has the wrong type".into()),
    }
}

fn check_length(len: usize, min: Option<u64>, max: Option<u64>, of: &str) -> Result<(), String> {
    let len = u64::try_from(len).unwrap_or(u64::MAX);
    if min.is_some_and(|min| len < min) {
        return Err(format!("has too few {of}"));
    }
    if max.is_some_and(|max| len > max) {
        return Err(format!("has too many {of}"));
    }
    Ok(())
}

/// Returns whether a number is an integer. In JSON Schema 1.0 is one, too.
fn is_integer(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn has_format(text: &str, format: &StringFormat) -> bool {
    match format {
        StringFormat::Email => is_email(text),
        StringFormat::Uri => is_uri(text),
        StringFormat::Date => is_date(text),
        StringFormat::DateTime => is_date_time(text),
        // Unknown formats are not checked.
        StringFormat::Other(_) => true,
    }
}

/// Returns whether a text has a name, an `@` and a host. Only the mail server could check more.
fn is_email(text: &str) -> bool {
    let Some((name, host)) = text.rsplit_once('@') else { return false };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    !name.is_empty()
        && !name.contains(|c: char| c == '@' || c.is_whitespace() || c.is_control())
        && host.split('.').all(is_label)
}

/// Parses a number of exactly `digits` digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let all_digits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { text.parse().ok() } else { None }
}

/// Returns whether a text is a date such as `2025-11-25` (RFC 3339).
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut next = |digits| parts.next().and_then(|part| number(part, digits));
    let (Some(year), Some(month), Some(day)) = (next(4), next(2), next(2)) else { return false };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Returns whether a text is a time such as `2025-11-25T12:00:00.5+01:00` (RFC 3339).
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let Some(zone) = time.find(['Z', 'z', '+', '-']) else { return false };
    let (time, zone) = time.split_at(zone);
    let is_clock = |text: &str, last: u32| {
        text.split_once(':').is_some_and(|(hour, minute)| {
            number(hour, 2).is_some_and(|hour| hour < 24) && number(minute, 2).is_some_and(|minute| minute <= last)
        })
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let Some((clock, second)) = whole.rsplit_once(':') else { return false };
    is_date(date)
        && is_clock(clock, 59)
        && number(second, 2).is_some_and(|second| second <= 60)
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
        && (matches!(zone, "Z" | "z") || is_clock(&zone[1..], 59))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> ElicitSchema {
        serde_json::from_str(text).expect("a form")
    }

    fn content(text: &str) -> Map<ElicitValue> {
        serde_json::from_str(text).expect("content")
    }

    // req: ELIC-019 ELIC-022 ELIC-023 ELIC-025 ELIC-026
    #[test]
    fn checks_content_against_the_form() {
        let form = schema(
            r#"{"type":"object","required":["s"],"properties":{
                "s":{"type":"string","minLength":2,"maxLength":3,"pattern":"^x"},
                "i":{"type":"integer","minimum":1,"maximum":3},"n":{"type":"number","minimum":0.5},"b":{"type":"boolean"},
                "e":{"type":"string","enum":["a","b"]},"t":{"type":"string","oneOf":[{"const":"a","title":"A"}]},
                "l":{"type":"string","enum":["a"],"enumNames":["A"]},
                "m":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b"]}},
                "u":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}}}"#,
        );
        for good in [
            r#"{"s":"äö"}"#,
            r#"{"s":"abc","i":1,"n":0.5,"b":false,"e":"b","t":"a","l":"a","m":["a","b"],"u":[],"other":1}"#,
            r#"{"s":"abc","i":3.0}"#,
        ] {
            assert_eq!(check(&form, &content(good)), Ok(()), "{good}");
        }
        for bad in [
            r#"{}"#,
            r#"{"s":1}"#,
            r#"{"s":"a"}"#,
            r#"{"s":"abcd"}"#,
            r#"{"s":"abc","i":0}"#,
            r#"{"s":"abc","i":4}"#,
            r#"{"s":"abc","i":1.5}"#,
            r#"{"s":"abc","i":"1"}"#,
            r#"{"s":"abc","n":0.4}"#,
            r#"{"s":"abc","b":"true"}"#,
            r#"{"s":"abc","e":"c"}"#,
            r#"{"s":"abc","t":"A"}"#,
            r#"{"s":"abc","l":"A"}"#,
            r#"{"s":"abc","m":[]}"#,
            r#"{"s":"abc","m":["a","b","a"]}"#,
            r#"{"s":"abc","m":["c"]}"#,
            r#"{"s":"abc","m":"a"}"#,
            r#"{"s":"abc","u":["b"]}"#,
            r#"{"s":"abc","b":{"deep":1}}"#,
        ] {
            assert!(check(&form, &content(bad)).is_err(), "{bad}");
        }
    }

    // req: ELIC-020 ELIC-032
    #[test]
    fn defaults_fill_the_gaps() {
        let form = schema(
            r#"{"type":"object","properties":{"s":{"type":"string","default":"x"},"n":{"type":"number","default":95.5},
                "b":{"type":"boolean","default":true},"e":{"type":"string","enum":["a"],"default":"a"},
                "m":{"type":"array","items":{"type":"string","enum":["a"]},"default":["a"]},"none":{"type":"string"}}}"#,
        );
        let mut answer = content(r#"{"s":"mine"}"#);
        fill_in(&form, &mut answer);
        assert_eq!(answer, content(r#"{"s":"mine","n":95.5,"b":true,"e":"a","m":["a"]}"#));
    }

    // req: ELIC-021
    #[test]
    fn checks_string_formats() {
        let table: [(&str, &[&str], &[&str]); 4] = [
            ("email", &["a@b", "a.b+c@d-e.org"], &["", "a", "@b", "a@", "a@b@c", "a b@c", "a@-b", "a@b..c"]),
            ("uri", &["https://a/b?c#d", "urn:x:y"], &["", "a", "/a", "1a:b", "https://a b", "a:\n"]),
            (
                "date",
                &["2025-11-25", "2000-02-29"],
                &["", "2025-02-29", "2025-13-01", "2025-1-1", "2025-01-01 ", "25-01-01"],
            ),
            (
                "date-time",
                &["2025-11-25T00:00:00Z", "2025-11-25t23:59:60.123+01:00", "2025-11-25T00:00:00-23:59"],
                &[
                    "2025-11-25",
                    "2025-11-25T00:00:00",
                    "2025-11-25T24:00:00Z",
                    "2025-11-25T00:00Z",
                    "2025-11-25T00:00:00.Z",
                    "2025-11-25T00:00:00+1:00",
                    "2025-11-25 00:00:00Z",
                ],
            ),
        ];
        for (format, good, bad) in table {
            let format = StringFormat::from(format);
            for text in good {
                assert!(has_format(text, &format), "{format} {text:?}");
            }
            for text in bad {
                assert!(!has_format(text, &format), "{format} {text:?}");
            }
        }
    }
}
