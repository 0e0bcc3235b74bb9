//! The frontmatter of a `SKILL.md`: YAML between two lines of dashes.

use mcp_proto::schema::SkillFrontmatter;
use serde_json::Value;

use super::yaml;

/// Parses the frontmatter of a `SKILL.md`.
///
/// # Errors
/// If the frontmatter is missing or invalid. The text is the reason.
pub(crate) fn parse(text: &str) -> Result<SkillFrontmatter, String> {
    let members = yaml::parse(between(text).ok_or("it does not begin with lines between two `---`")?)?;
    if !members.is_object() {
        return Err("its frontmatter is not a mapping".into());
    }
    serde_json::from_value(members).map_err(|error| error.to_string())
}

/// Returns whether two of them are equal. Encoders of JSON may write the same number differently.
pub(super) fn same(one: &SkillFrontmatter, other: &SkillFrontmatter) -> bool {
    match (serde_json::to_value(one), serde_json::to_value(other)) {
        (Ok(one), Ok(other)) => same_value(&one, &other),
        _ => false,
    }
}

fn same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| same_value(one, other)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_value(one, other))
        }
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

/// Returns the text between the first two lines of dashes.
fn between(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&rest[..length]);
        }
        length += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parses_all_frontmatter_fields() {
        let text = "---\r\nname: refunds\r\ndescription: >\r\n  Gives money\r\n  back\r\nlicense: MIT\r\nmetadata: {version: \"2.1\"}\r\n--- \r\n# Refunds\n---\n";
        let read = parse(text).expect("frontmatter");
        assert_eq!((read.name.as_str(), read.description.as_str()), ("refunds", "Gives money back\n"));
        let expected = json!({"name": "refunds", "description": "Gives money back\n", "license": "MIT",
            "metadata": {"version": "2.1"}});
        assert_eq!(serde_json::to_value(&read).expect("JSON"), expected);
        assert!(parse("\u{feff}---\nname: a\ndescription: b\n---").is_ok());
    }

    #[test]
    fn equal_frontmatter_may_differ_in_spelling() {
        let read = |more: &str| -> SkillFrontmatter {
            serde_json::from_str(&format!(r#"{{"name":"a","description":"b"{more}}}"#)).expect("frontmatter")
        };
        assert!(same(&read(r#","x":[1.0,{"y":1}],"z":null"#), &read(r#","z":null,"x":[1,{"y":1.0}]"#)));
        for more in [r#","z":null"#, r#","x":1,"z":null"#, r#","x":[1],"z":null"#, r#","x":[1,{"y":2}],"z":null"#] {
            assert!(!same(&read(r#","x":[1,{"y":1}],"z":null"#), &read(more)), "{more}");
        }
        assert!(!same(&read(r#","x":"1""#), &read(r#","x":1"#)));
    }

    #[test]
    fn rejects_text_without_frontmatter() {
        for text in [
            "",
            "# A",
            "---\nname: a\ndescription: b\n",
            " ---\nname: a\ndescription: b\n---\n",
            "---\n---\n",
            "---\nname: a\n---\n",
            "---\nname: 5\ndescription: b\n---\n",
            "---\n- name\n---\n",
            "---\ntext\n---\n",
            "----\nname: a\ndescription: b\n----\n",
        ] {
            parse(text).expect_err(text);
        }
    }
}
