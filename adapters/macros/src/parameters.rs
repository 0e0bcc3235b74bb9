//! The parameters of a method: its arguments, and the context.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, Error, Expr, FnArg, GenericParam, Ident, LitStr, Meta, Pat, Receiver, ReceiverKind, Result, Safety,
    Signature, Type, parse::ParseStream,
};

use crate::item_attribute::Settings;

/// A parameter after `&self`.
pub(crate) enum Parameter {
    /// The context of the request.
    Context(Type),
    /// All arguments.
    Arguments(Type),
    /// One argument.
    Argument(Box<Argument>),
}

/// A parameter that is one argument.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) docs: Vec<Attribute>,
    /// Its name for clients, if that is another one.
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    /// Whether it has a default, and the default if it is not that of its type.
    pub(crate) default: Option<Option<Expr>>,
}

/// Takes the attributes for this crate off the parameters of a method, and returns what the parameters are. Reports
/// each mistake in the signature.
pub(crate) fn take(signature: &mut Signature) -> (Vec<Parameter>, Vec<Error>) {
    let mut errors = signature_errors(signature);
    let mut parameters: Vec<Parameter> = Vec::new();
    for input in &mut signature.inputs {
        let FnArg::Typed(typed) = input else { continue };
        let mut attributes = Vec::new();
        typed.attrs.retain(|attribute| {
            let is_ours = ["doc", "arg", "arguments", "context"].iter().any(|name| attribute.path().is_ident(name));
            if is_ours {
                attributes.push(attribute.clone());
            }
            !is_ours
        });
        if let Some(condition) = typed.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
            errors.push(Error::new_spanned(condition, "a parameter of a handler is unconditional"));
        }
        match parameter(&typed.pat, &typed.ty, attributes) {
            Ok(parameter) => match clash(&parameters, &parameter) {
                Some(why) => errors.push(Error::new_spanned(&typed.pat, why)),
                None => parameters.push(parameter),
            },
            Err(error) => errors.push(error),
        }
    }
    (parameters, errors)
}

/// Returns the mistakes in a signature that are not in one of its parameters.
fn signature_errors(signature: &Signature) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut error = |at: &dyn ToTokens, why: &str| errors.push(Error::new_spanned(at, why));
    match signature.receiver() {
        Some(Receiver { kind: ReceiverKind::Reference(_, _, None), .. }) => {}
        Some(other) => error(other, "a handler takes `&self`, since handlers run at the same time"),
        None => error(&signature.ident, "a handler is a method: its first parameter is `&self`"),
    }
    let is_generic = |parameter: &&GenericParam| !matches!(parameter, GenericParam::Lifetime(_));
    if let Some(parameter) = signature.generics.params.iter().find(is_generic) {
        error(parameter, "a handler has no type parameters: the types of its arguments are known");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        error(token, "a handler is safe");
    }
    errors
}

fn parameter(pattern: &Pat, ty: &Type, attributes: Vec<Attribute>) -> Result<Parameter> {
    let is_mark =
        |attribute: &&Attribute| ["arg", "arguments", "context"].iter().any(|name| attribute.path().is_ident(name));
    if let Some(second) = attributes.iter().filter(is_mark).nth(1) {
        return Err(Error::new_spanned(second, "a parameter has one of `#[arg(..)]`, `#[arguments]` and `#[context]`"));
    }
    let marked = |name: &str| attributes.iter().any(|attribute| attribute.path().is_ident(name));
    let arg = attributes.iter().find(|attribute| attribute.path().is_ident("arg"));
    if marked("context") || arg.is_none() && !marked("arguments") && is_context(ty) {
        return Ok(Parameter::Context(ty.clone()));
    }
    match ty {
        Type::Reference(reference) => {
            let why = "an argument owns its data, as `String` does: a handler borrows only `&self`";
            return Err(Error::new_spanned(reference, why));
        }
        Type::ImplTrait(other) => {
            return Err(Error::new_spanned(other, "a handler has no type parameters: name the type of the argument"));
        }
        _ => {}
    }
    if marked("arguments") {
        return Ok(Parameter::Arguments(ty.clone()));
    }
    let ident = match pattern {
        Pat::Ident(ident) if ident.by_ref.is_none() && ident.subpat.is_none() => ident.ident.clone(),
        _ => {
            let why = "an argument has a name: take the value, and match the pattern in the method";
            return Err(Error::new_spanned(pattern, why));
        }
    };
    let known = ["name", "description", "default"];
    let settings = match arg {
        Some(arg) if matches!(arg.meta, Meta::List(_)) => {
            arg.parse_args_with(|input: ParseStream<'_>| Settings::parse(input, "#[arg]", &known, &[]))?
        }
        Some(arg) => return Err(Error::new_spanned(arg, "`#[arg(..)]` has arguments in parentheses")),
        None => Settings::default(),
    };
    let (name, description) = (settings.text("name")?.cloned(), settings.text("description")?.cloned());
    let default = settings.find("default").map(|(_, value)| value.cloned());
    // Both are written into items of their own, in which `Self` is another type or none.
    let value = default.as_ref().and_then(Option::as_ref);
    if mentions_self(ty.to_token_stream()) || mentions_self(value.to_token_stream()) {
        let why = "`Self` cannot be in the type or the default of an argument: write the name of the type";
        return Err(Error::new_spanned(pattern, why));
    }
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).cloned().collect();
    Ok(Parameter::Argument(Box::new(Argument { ident, ty: ty.clone(), docs, name, description, default })))
}

/// Returns whether `Self` is in tokens. Items in functions do not know it.
pub(crate) fn mentions_self(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "Self",
        TokenTree::Group(group) => mentions_self(group.stream()),
        _ => false,
    })
}

/// Returns whether the name of a type is that of the context.
fn is_context(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == "Context"))
}

/// Returns why a parameter cannot be there with those before it.
fn clash(before: &[Parameter], next: &Parameter) -> Option<&'static str> {
    let has = |f: fn(&Parameter) -> bool| before.iter().any(f);
    let (has_all, has_one) =
        (has(|other| matches!(other, Parameter::Arguments(_))), has(|other| matches!(other, Parameter::Argument(_))));
    match next {
        Parameter::Context(_) => {
            has(|other| matches!(other, Parameter::Context(_))).then_some("a handler has one context")
        }
        Parameter::Arguments(_) => {
            (has_all || has_one).then_some("`#[arguments]` is all arguments: there are no others beside it")
        }
        Parameter::Argument(_) => has_all.then_some("`#[arguments]` is all arguments: there are no others beside it"),
    }
}
