//! The variables of a URI template (RFC 6570).

/// Returns the names of the variables in a template: the texts in braces, without operators.
pub(crate) fn variables(template: &str) -> Vec<&str> {
    let expressions = template.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0));
    expressions
        .flat_map(|expression| expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']).split(','))
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn variables_have_no_operators() {
        assert_eq!(variables("file:///{+path}"), ["path"]);
        assert_eq!(variables("weather://{city}{?day,unit}#x"), ["city", "day", "unit"]);
        assert_eq!(variables("plain://text"), [""; 0]);
        assert_eq!(variables("open://{text"), [""; 0]);
    }
}
