//! The attributes of methods, `#[tool]`, `#[prompt]` and `#[resource]`, with their arguments.

use syn::{
    Attribute, Error, Expr, ExprLit, Ident, Lit, LitStr, Meta, Result, Token, ext::IdentExt, parse::ParseStream,
    spanned::Spanned,
};

/// The kind of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tool,
    Prompt,
    Resource,
}

impl Kind {
    /// Returns the kind that an attribute stands for.
    pub(crate) fn of(attribute: &Attribute) -> Option<Self> {
        [Self::Tool, Self::Prompt, Self::Resource].into_iter().find(|kind| attribute.path().is_ident(kind.name()))
    }

    /// Returns the name of the attribute.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }

    /// Returns the arguments of the attribute.
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Tool => &[
                "name",
                "title",
                "description",
                "scope",
                "read_only",
                "destructive",
                "idempotent",
                "open_world",
                "with",
            ],
            Self::Prompt => &["name", "title", "description", "scope", "with"],
            Self::Resource => &["name", "title", "description", "mime_type", "scope", "with"],
        }
    }
}

/// The arguments that are hints about a tool, with the names of their members in `ToolAnnotations`.
pub(crate) const HINTS: [(&str, &str); 4] = [
    ("read_only", "read_only_hint"),
    ("destructive", "destructive_hint"),
    ("idempotent", "idempotent_hint"),
    ("open_world", "open_world_hint"),
];

/// An attribute of a method.
pub(crate) struct ItemAttribute {
    pub(crate) kind: Kind,
    /// The URI of a resource.
    pub(crate) uri: Option<LitStr>,
    pub(crate) settings: Settings,
}

impl ItemAttribute {
    pub(crate) fn parse(kind: Kind, attribute: &Attribute) -> Result<Self> {
        let (uri, settings) = match &attribute.meta {
            Meta::Path(_) => (None, Settings::default()),
            Meta::NameValue(value) => {
                let name = kind.name();
                return Err(Error::new(value.eq_token.span, format!("arguments are in parentheses: `#[{name}(..)]`")));
            }
            Meta::List(_) => attribute.parse_args_with(|input: ParseStream<'_>| {
                let uri: Option<LitStr> = if kind == Kind::Resource && input.peek(LitStr) {
                    let uri = input.parse()?;
                    if !input.is_empty() {
                        input.parse::<Token![,]>()?;
                    }
                    Some(uri)
                } else {
                    None
                };
                Ok((uri, Settings::parse(input, &format!("#[{}]", kind.name()), kind.arguments(), &["scope"])?))
            })?,
        };
        if kind == Kind::Resource && uri.is_none() {
            return Err(Error::new(attribute.path().span(), "a resource has a URI: `#[resource(\"scheme://path\")]`"));
        }
        Ok(Self { kind, uri, settings })
    }
}

/// Arguments of an attribute, each with a value or without.
#[derive(Default)]
pub(crate) struct Settings(Vec<(Ident, Option<Expr>)>);

impl Settings {
    /// Parses arguments that are in `known`. Those in `repeated` may be there several times.
    pub(crate) fn parse(input: ParseStream<'_>, of: &str, known: &[&str], repeated: &[&str]) -> Result<Self> {
        let mut settings: Vec<(Ident, Option<Expr>)> = Vec::new();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            if !known.iter().any(|known| key == known) {
                let known = known.join("`, `");
                return Err(Error::new(key.span(), format!("unknown argument `{key}`: {of} takes `{known}`")));
            }
            if settings.iter().any(|(earlier, _)| *earlier == key) && !repeated.iter().any(|name| key == name) {
                return Err(Error::new(key.span(), format!("the argument `{key}` is there twice")));
            }
            let value = if input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                Some(input.parse()?)
            } else {
                None
            };
            settings.push((key, value));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self(settings))
    }

    /// Returns an argument: its name, and its value if it has one.
    pub(crate) fn find(&self, key: &str) -> Option<(&Ident, Option<&Expr>)> {
        self.0.iter().find(|(name, _)| name == key).map(|(name, value)| (name, value.as_ref()))
    }

    /// Returns the values of an argument that needs one.
    pub(crate) fn values(&self, key: &str) -> Result<Vec<&Expr>> {
        let all = self.0.iter().filter(|(name, _)| name == key);
        all.map(|(name, value)| value.as_ref().ok_or_else(|| without_value(name))).collect()
    }

    /// Returns the value of an argument that needs one.
    pub(crate) fn value(&self, key: &str) -> Result<Option<&Expr>> {
        Ok(self.values(key)?.pop())
    }

    /// Returns the text of an argument, which is a literal.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&LitStr>> {
        match self.value(key)? {
            None => Ok(None),
            Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => Ok(Some(text)),
            Some(other) => Err(Error::new_spanned(other, format!("the argument `{key}` is a text literal"))),
        }
    }
}

fn without_value(name: &Ident) -> Error {
    Error::new(name.span(), format!("the argument `{name}` has a value: `{name} = ..`"))
}
