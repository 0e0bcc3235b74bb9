//! Variables in texts.

/// Replaces the variables in a text; `left` is the number of bytes that the result may have, and is reduced by them.
/// Its cost is linear in the text and the result.
pub(super) fn expand(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    left: &mut usize,
) -> Result<String, String> {
    let mut expanded = String::new();
    let mut push = |part: &str| {
        *left = left.checked_sub(part.len()).ok_or("the texts are too long")?;
        expanded.push_str(part);
        Ok::<(), String>(())
    };
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        push(before)?;
        let (inside, behind) = after.split_once('}').ok_or("\"${\" without \"}\"")?;
        if inside.contains("${") {
            return Err("\"${\" inside \"${..}\" is not supported".into());
        }
        rest = behind;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(format!("\"${{{}}}\" is not supported", shorten(inside)));
        }
        // As in a shell, an empty variable has its default.
        match (variable(name).filter(|value| !value.is_empty() || default.is_none()), default) {
            (Some(value), _) => push(&value)?,
            (None, Some(default)) => push(default)?,
            (None, None) => return Err(format!("the variable {} is not set", shorten(name))),
        }
    }
    push(rest)?;
    Ok(expanded)
}

fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}
