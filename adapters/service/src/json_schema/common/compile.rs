//! Compiles a schema into nodes with rules.

use std::{collections::HashMap, fmt, ptr};

use serde_json::{Map, Value};

use super::{
    super::{annotation::annotation, types::Types},
    check::{MAX_STEPS, size},
    numbers::{has_equal_values, integer},
    pattern::Pattern,
    rule::{CommonChecker, Counted, Id, Members, Node, Rule},
};

/// How deep schemas may be nested, or refer to each other for the same value. Each level takes some of the stack.
const MAX_LEVELS: u32 = 256;

/// The most memory that the patterns of a schema take, in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 20;

/// The number of steps that a check of the application's schema may take: some seconds.
const MAX_OWN_STEPS: u64 = 5 * MAX_STEPS;

/// The reason for which a schema cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::json_schema) enum CompileError {
    /// A keyword, or a value of it, that is not in common use, and its place.
    Uncommon(String, String),
    /// A keyword whose value is not valid, and its place.
    Invalid(String, String),
    /// A schema that is applied to a value because it is applied to that value.
    Circle,
    TooDeep,
    /// The patterns take too much memory.
    TooManyPatterns,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncommon(keyword, place) => {
                let place = if place.is_empty() { "its root" } else { place };
                write!(f, "it has the keyword {keyword:?} at {place}: {TAKES_FEATURE}")
            }
            Self::Invalid(keyword, place) => {
                let place = if place.is_empty() { "its root" } else { place };
                write!(f, "not a valid schema: the value of {keyword:?} at {place}")
            }
            Self::Circle => f.write_str("the schema is applied to a value because it is applied to it"),
            Self::TooDeep => write!(f, "the schema has more than {MAX_LEVELS} levels"),
            Self::TooManyPatterns => write!(f, "the patterns of the schema take more than {MAX_PATTERN_BYTES} bytes"),
        }
    }
}

const TAKES_FEATURE: &str = "checking that takes the feature `json-schema` of mcp-service";

type Result<T> = std::result::Result<T, CompileError>;

/// The dialect of a schema, of those whose keywords in common use are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Draft7,
    Draft2019,
    Draft2020,
}

impl Dialect {
    fn of(schema: &Value) -> Option<Self> {
        let Some(name) = schema.get("$schema") else { return Some(Self::Draft2020) };
        let name = name.as_str()?.trim_end_matches('#');
        let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
        match name {
            "json-schema.org/draft-07/schema" => Some(Self::Draft7),
            "json-schema.org/draft/2019-09/schema" => Some(Self::Draft2019),
            "json-schema.org/draft/2020-12/schema" => Some(Self::Draft2020),
            _ => None,
        }
    }
}

/// A place in a schema, as the names that lead to it.
#[derive(Clone, Copy)]
struct SchemaPath<'a> {
    outer: Option<&'a Self>,
    name: &'a str,
    level: u32,
}

impl<'a> SchemaPath<'a> {
    fn inner(&'a self, name: &'a str) -> Self {
        Self { outer: Some(self), name, level: self.level + 1 }
    }

    fn uncommon(&self, keyword: &str) -> CompileError {
        CompileError::Uncommon(keyword.into(), self.to_string())
    }

    fn invalid(&self, keyword: &str) -> CompileError {
        CompileError::Invalid(keyword.into(), self.to_string())
    }
}

impl fmt::Display for SchemaPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outer {
            None => f.write_str(self.name),
            Some(outer) => write!(f, "{outer}/{}", self.name),
        }
    }
}

/// Keywords with rules that are not in common use, and those that change the meaning of references. Other unknown
/// keywords are no rules.
const UNCOMMON: [&str; 15] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "contentSchema",
    "dependencies",
    "dependentSchemas",
    "maxContains",
    "minContains",
    "unevaluatedItems",
];

struct Compiler<'a> {
    root: &'a Value,
    dialect: Dialect,
    nodes: Vec<Node>,
    known: HashMap<*const Value, Id>,
    /// Schemas that references lead to, which are compiled later.
    waiting: Vec<(Id, &'a Value, &'a str)>,
    has_references: bool,
    /// The memory of the patterns so far, in bytes.
    pattern_bytes: usize,
}

impl CommonChecker {
    /// Compiles a schema of the application, or one of a peer, whose checks may take fewer steps.
    pub(in crate::json_schema) fn new(schema: &Value, is_ours: bool) -> Result<Self> {
        let root = SchemaPath { outer: None, name: "", level: 0 };
        let dialect = Dialect::of(schema).ok_or_else(|| root.uncommon("$schema"))?;
        let mut compiler = Compiler::new(schema, dialect);
        compiler.schema(schema, &root)?;
        while let Some((id, schema, reference)) = compiler.waiting.pop() {
            compiler.fill(id, schema, &SchemaPath { outer: None, name: reference, level: 0 })?;
        }
        let Compiler { nodes, has_references, .. } = compiler;
        let limit = if is_ours { MAX_OWN_STEPS } else { MAX_STEPS };
        let checker = Self { nodes, keeps_results: has_references, limit };
        checker.reject_circles()?;
        Ok(checker)
    }

    /// Refuses a schema that is applied to a value because it is applied to that value.
    fn reject_circles(&self) -> Result<()> {
        let mut levels = vec![None; self.nodes.len()];
        (0..self.nodes.len()).try_for_each(|id| self.levels_in_place(id as Id, 0, &mut levels).map(drop))
    }

    /// Counts the schemas that are applied to a value one below the other. One that is being counted has 0.
    fn levels_in_place(&self, id: Id, outer: u32, known: &mut [Option<u32>]) -> Result<u32> {
        let levels = match known[id as usize] {
            Some(0) => return Err(CompileError::Circle),
            Some(levels) => levels,
            None if outer >= MAX_LEVELS => return Err(CompileError::TooDeep),
            None => {
                known[id as usize] = Some(0);
                let mut deepest = 0;
                for rule in &self.nodes[id as usize].rules {
                    for inner in in_place(rule) {
                        deepest = deepest.max(self.levels_in_place(inner, outer + 1, known)?);
                    }
                }
                known[id as usize] = Some(deepest + 1);
                deepest + 1
            }
        };
        if outer + levels > MAX_LEVELS { Err(CompileError::TooDeep) } else { Ok(levels) }
    }
}

/// Returns the schemas that a rule applies to the same value.
fn in_place(rule: &Rule) -> Vec<Id> {
    match rule {
        Rule::All(ids) | Rule::Any(ids) | Rule::One(ids) => ids.clone(),
        Rule::Not(id) | Rule::Reference(id) => vec![*id],
        Rule::If { condition, then, otherwise } => {
            [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
        }
        _ => Vec::new(),
    }
}

impl<'a> Compiler<'a> {
    fn new(root: &'a Value, dialect: Dialect) -> Self {
        let (nodes, known, waiting) = (Vec::new(), HashMap::new(), Vec::new());
        Self { root, dialect, nodes, known, waiting, has_references: false, pattern_bytes: 0 }
    }

    /// Compiles a schema at a place, once.
    fn schema(&mut self, schema: &'a Value, place: &SchemaPath<'_>) -> Result<Id> {
        if let Some(id) = self.known.get(&ptr::from_ref(schema)) {
            return Ok(*id);
        }
        let id = self.add(schema);
        self.fill(id, schema, place)?;
        Ok(id)
    }

    fn add(&mut self, schema: &'a Value) -> Id {
        #[allow(clippy::cast_possible_truncation, reason = "each is a part of a text of less than 4 GiB")]
        let id = self.nodes.len() as Id;
        self.nodes.push(Node::default());
        self.known.insert(schema, id);
        id
    }

    fn fill(&mut self, id: Id, schema: &'a Value, place: &SchemaPath<'_>) -> Result<()> {
        if place.level > MAX_LEVELS {
            return Err(CompileError::TooDeep);
        }
        let rules = match schema {
            Value::Bool(true) => Vec::new(),
            Value::Bool(false) => vec![Rule::Never],
            Value::Object(keywords) => self.rules(id, schema, keywords, place)?,
            _ => return Err(place.invalid("schema")),
        };
        self.nodes[id as usize].rules = rules;
        Ok(())
    }

    /// Compiles the keywords of a schema. The rules that take the least time are first.
    fn rules(
        &mut self,
        id: Id,
        schema: &Value,
        keywords: &'a Map<String, Value>,
        place: &SchemaPath<'_>,
    ) -> Result<Vec<Rule>> {
        let is_root = ptr::eq(schema, self.root);
        let mut rules = Vec::new();
        for (keyword, value) in keywords {
            let is_root_only = matches!(keyword.as_str(), "$schema" | "$id");
            match keyword.as_str() {
                _ if is_root_only && is_root && value.is_string() => {}
                // A name that no reference uses has no effect.
                "$anchor" if value.is_string() && self.dialect != Dialect::Draft7 => {}
                name if UNCOMMON.contains(&name) => return Err(place.uncommon(keyword)),
                "format" | "contentEncoding" | "contentMediaType" => {
                    // Draft 7 lets a checker decide whether these are rules. The checker of all keywords has them.
                    if self.dialect == Dialect::Draft7 && cfg!(feature = "json-schema") {
                        return Err(place.uncommon(keyword));
                    }
                    value.as_str().ok_or_else(|| place.invalid(keyword))?;
                }
                "$defs" | "definitions" => {
                    for (name, schema) in value.as_object().ok_or_else(|| place.invalid(keyword))? {
                        self.schema(schema, &place.inner(keyword).inner(name))?;
                    }
                }
                name => {
                    if annotation(name).is_some_and(|kind| !kind.has_value(value)) {
                        return Err(place.invalid(keyword));
                    }
                }
            }
        }
        self.assertions(keywords, place, &mut rules)?;
        self.members(keywords, place, &mut rules)?;
        self.items(keywords, place, &mut rules)?;
        self.choices(keywords, place, &mut rules)?;
        if let Some(reference) = keywords.get("$ref") {
            let is_rule = |name: &String| {
                let is_definition = ["$ref", "$id", "$defs", "definitions"].contains(&name.as_str());
                !is_definition && annotation(name).is_none()
            };
            // In draft 7 the other keywords have no effect.
            if self.dialect == Dialect::Draft7 && keywords.keys().any(is_rule) {
                return Err(place.uncommon("$ref"));
            }
            rules.push(Rule::Reference(self.reference(reference, place)?));
        }
        if keywords.contains_key("unevaluatedProperties") && self.dialect == Dialect::Draft7 {
            return Err(place.uncommon("unevaluatedProperties"));
        }
        rules.extend(
            self.optional("unevaluatedProperties", keywords, place)?.map(|schema| Rule::Unevaluated { of: id, schema }),
        );
        Ok(rules)
    }

    /// Returns the schema that a reference leads to: the root, or a place in it.
    fn reference(&mut self, reference: &'a Value, place: &SchemaPath<'_>) -> Result<Id> {
        let reference = reference.as_str().ok_or_else(|| place.invalid("$ref"))?;
        let id = self.root.get("$id").and_then(Value::as_str).unwrap_or_default();
        let is_inside = reference.starts_with('#') || reference.starts_with(id) && !id.is_empty();
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let pointer = pointer.filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        // Nothing is fetched.
        let why = || if is_inside { place.uncommon("$ref") } else { place.invalid("$ref") };
        let target = self.root.pointer(pointer.ok_or_else(why)?);
        let target = target.filter(|target| target.is_object() || target.is_boolean());
        let target = target.ok_or_else(|| place.invalid("$ref"))?;
        self.has_references = true;
        if let Some(id) = self.known.get(&ptr::from_ref(target)) {
            return Ok(*id);
        }
        let id = self.add(target);
        self.waiting.push((id, target, reference));
        Ok(id)
    }

    fn members(
        &mut self,
        keywords: &'a Map<String, Value>,
        place: &SchemaPath<'_>,
        rules: &mut Vec<Rule>,
    ) -> Result<()> {
        let mut members = Members::default();
        if let Some(value) = keywords.get("properties") {
            let place = place.inner("properties");
            for (name, schema) in value.as_object().ok_or_else(|| place.invalid("properties"))? {
                members.known.push((name.clone(), self.schema(schema, &place.inner(name))?));
            }
            // A map may be in the order of insertion.
            members.known.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        }
        if let Some(value) = keywords.get("patternProperties") {
            let inner = place.inner("patternProperties");
            for (pattern, schema) in value.as_object().ok_or_else(|| place.invalid("patternProperties"))? {
                let id = self.schema(schema, &inner.inner(pattern))?;
                members.patterns.push((self.pattern(pattern, "patternProperties", place)?, id));
            }
        }
        members.others = self.optional("additionalProperties", keywords, place)?;
        if !members.known.is_empty() || !members.patterns.is_empty() || members.others.is_some() {
            rules.push(Rule::Members(members));
        }
        rules.extend(self.optional("propertyNames", keywords, place)?.map(Rule::Names));
        Ok(())
    }

    fn items(&mut self, keywords: &'a Map<String, Value>, place: &SchemaPath<'_>, rules: &mut Vec<Rule>) -> Result<()> {
        let mut first = Vec::new();
        if keywords.contains_key("prefixItems") {
            if self.dialect != Dialect::Draft2020 {
                return Err(place.uncommon("prefixItems"));
            }
            first = self.list("prefixItems", keywords, place)?;
        }
        if keywords.get("items").is_some_and(Value::is_array) && self.dialect != Dialect::Draft2020 {
            return Err(place.uncommon("items"));
        }
        let others = self.optional("items", keywords, place)?;
        if !first.is_empty() || others.is_some() {
            rules.push(Rule::Items { first, others });
        }
        rules.extend(self.optional("contains", keywords, place)?.map(Rule::Contains));
        Ok(())
    }

    /// Compiles the keywords without schemas in them.
    fn assertions(
        &mut self,
        keywords: &Map<String, Value>,
        place: &SchemaPath<'_>,
        rules: &mut Vec<Rule>,
    ) -> Result<()> {
        for keyword in ASSERTIONS {
            let Some(value) = keywords.get(keyword) else { continue };
            if keyword == "dependentRequired" && self.dialect == Dialect::Draft7 {
                return Err(place.uncommon(keyword));
            }
            if keyword == "pattern" {
                let text = value.as_str().ok_or_else(|| place.invalid(keyword))?;
                rules.push(Rule::Pattern(self.pattern(text, keyword, place)?, text.to_owned()));
                continue;
            }
            // Other divisors take arithmetic that is not binary.
            let is_uncommon = || keyword == "multipleOf" && value.as_f64().is_some_and(|divisor| divisor > 0.0);
            rules.push(assertion(keyword, value).ok_or_else(|| match is_uncommon() {
                true => place.uncommon(keyword),
                false => place.invalid(keyword),
            })?);
        }
        Ok(())
    }

    /// Compiles a pattern of a keyword. Other patterns than those in common use take another engine.
    fn pattern(&mut self, text: &str, keyword: &str, place: &SchemaPath<'_>) -> Result<Box<Pattern>> {
        let pattern = Pattern::new(text).ok_or_else(|| place.uncommon(keyword))?;
        self.pattern_bytes += pattern.size();
        if self.pattern_bytes > MAX_PATTERN_BYTES { Err(CompileError::TooManyPatterns) } else { Ok(Box::new(pattern)) }
    }

    fn choices(
        &mut self,
        keywords: &'a Map<String, Value>,
        place: &SchemaPath<'_>,
        rules: &mut Vec<Rule>,
    ) -> Result<()> {
        for (keyword, rule) in [("allOf", Rule::All as fn(_) -> _), ("anyOf", Rule::Any), ("oneOf", Rule::One)] {
            if keywords.contains_key(keyword) {
                rules.push(rule(self.list(keyword, keywords, place)?));
            }
        }
        rules.extend(self.optional("not", keywords, place)?.map(Rule::Not));
        let [condition, then, otherwise] =
            ["if", "then", "else"].map(|keyword| self.optional(keyword, keywords, place));
        let (condition, then, otherwise) = (condition?, then?, otherwise?);
        rules.extend(condition.map(|condition| Rule::If { condition, then, otherwise }));
        Ok(())
    }

    fn optional(
        &mut self,
        keyword: &str,
        keywords: &'a Map<String, Value>,
        place: &SchemaPath<'_>,
    ) -> Result<Option<Id>> {
        keywords.get(keyword).map(|schema| self.schema(schema, &place.inner(keyword))).transpose()
    }

    /// Compiles a list of schemas, which must not be empty.
    fn list(&mut self, keyword: &str, keywords: &'a Map<String, Value>, place: &SchemaPath<'_>) -> Result<Vec<Id>> {
        let list = keywords.get(keyword).and_then(Value::as_array).filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| place.invalid(keyword))?;
        let place = place.inner(keyword);
        list.iter().map(|schema| self.schema(schema, &place)).collect()
    }
}

/// Keywords without schemas in them, the ones that take the least time first.
const ASSERTIONS: [&str; 18] = [
    "type",
    "const",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "dependentRequired",
    "minLength",
    "maxLength",
    "pattern",
    "uniqueItems",
];

/// Compiles a keyword without schemas in it; `None` if its value is not valid or not in common use.
fn assertion(keyword: &str, value: &Value) -> Option<Rule> {
    let limit =
        |is_minimum, is_exclusive| Some(Rule::Limit { limit: value.as_number()?.clone(), is_minimum, is_exclusive });
    let count = |counted, is_minimum| {
        let limit = integer(value.as_number()?)?.try_into().ok()?;
        Some(Rule::Count { counted, limit, is_minimum })
    };
    match keyword {
        "type" => match value {
            Value::String(name) => Types::of_names([name.as_str()]),
            value => Types::of_names(names(value)?.iter().map(String::as_str)),
        }
        .map(Rule::Types),
        "const" => Some(Rule::Values(vec![value.clone()], size(value))),
        "enum" => value.as_array().map(|values| Rule::Values(values.clone(), values.iter().map(size).sum())),
        "minimum" => limit(true, false),
        "maximum" => limit(false, false),
        "exclusiveMinimum" => limit(true, true),
        "exclusiveMaximum" => limit(false, true),
        "multipleOf" => {
            let divisor = integer(value.as_number()?)?.try_into().ok().filter(|divisor| *divisor != 0)?;
            Some(Rule::MultipleOf(divisor))
        }
        "minItems" => count(Counted::Items, true),
        "maxItems" => count(Counted::Items, false),
        "minProperties" => count(Counted::Members, true),
        "maxProperties" => count(Counted::Members, false),
        "minLength" => count(Counted::Characters, true),
        "maxLength" => count(Counted::Characters, false),
        "required" => names(value).map(Rule::Required),
        "dependentRequired" => {
            let all = value.as_object()?.iter().map(|(name, needed)| Some((name.clone(), names(needed)?)));
            all.collect::<Option<_>>().map(Rule::DependentRequired)
        }
        _ => value.as_bool().map(|is_unique| if is_unique { Rule::Unique } else { Rule::All(Vec::new()) }),
    }
}

/// Reads a list of different names.
fn names(value: &Value) -> Option<Vec<String>> {
    let names: Option<Vec<_>> = value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    names.filter(|_| !has_equal_values(value.as_array().map_or(&[], Vec::as_slice)))
}
