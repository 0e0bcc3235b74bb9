//! Rules of the specification that checks and records can show to be broken: those rows of `tests/requirements` with
//! their texts. A test compares them.

mod legacy;
mod modern;

/// Returns the text of a rule.
pub(crate) fn text(id: &str) -> &'static str {
    let rules = if id.starts_with("M-") { modern::RULES } else { legacy::RULES };
    rules.binary_search_by_key(&id, |(id, _)| id).map_or("", |at| rules[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_the_tables() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/requirements");
        let tables: String = ["legacy", "modern"]
            .map(|era| std::fs::read_to_string(format!("{folder}/requirements-{era}.csv")).expect("a table"))
            .concat();
        assert!(legacy::RULES.is_sorted() && modern::RULES.is_sorted());
        for (id, text) in legacy::RULES.iter().chain(modern::RULES) {
            let row = tables.lines().find(|row| row.starts_with(&format!("{id},"))).expect(id);
            assert!(row.contains(&text.replace('"', "\"\"")), "{id}: {row}");
        }
    }
}
