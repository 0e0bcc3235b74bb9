//! One method that is a handler, and the calls of the builder that register it.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Attribute, Error, Expr, ExprLit, Ident, ImplItemFn, Lit, LitStr, Path, Result, ReturnType, Type, ext::IdentExt,
};

use crate::{
    item_attribute::{HINTS, ItemAttribute, Kind},
    parameters::{self, Argument, Parameter, mentions_self},
    template::variables,
};

/// The longest name of a tool, in bytes.
const MAX_NAME: usize = 128;

/// A method with one of the attributes of methods.
pub(crate) struct Handler {
    method: Ident,
    is_async: bool,
    output: ReturnType,
    pub(crate) attribute: ItemAttribute,
    parameters: Vec<Parameter>,
    /// The text of the doc comment, or the expression of the text.
    docs: Option<TokenStream>,
    /// The conditions under which the method is compiled.
    conditions: Vec<Attribute>,
}

impl Handler {
    /// Takes the attributes for this crate off a method, and returns the handler if it has one. Reports each mistake.
    pub(crate) fn take(method: &mut ImplItemFn) -> (Option<Self>, Vec<Error>) {
        let mut kinds = Vec::new();
        method.attrs.retain(|attribute| match Kind::of(attribute) {
            Some(kind) => {
                kinds.push((kind, attribute.clone()));
                false
            }
            None => true,
        });
        let Some((kind, attribute)) = kinds.first() else { return (None, Vec::new()) };
        let (parameters, mut errors) = parameters::take(&mut method.sig);
        let more = kinds.iter().skip(1);
        errors.extend(more.map(|(_, other)| Error::new_spanned(other, "a method is a handler of one kind")));
        let attribute = match ItemAttribute::parse(*kind, attribute) {
            Ok(attribute) => attribute,
            Err(error) => {
                errors.push(error);
                return (None, errors);
            }
        };
        let handler = Self {
            method: method.sig.ident.clone(),
            is_async: method.sig.asyncness.is_some(),
            output: method.sig.output.clone(),
            attribute,
            parameters,
            docs: doc_text(&method.attrs, method.sig.ident.span()),
            conditions: method.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect(),
        };
        errors.extend(handler.check().err());
        (Some(handler), errors)
    }

    /// Returns what identifies the item among those of its kind, and its place. A method that is not always compiled
    /// has none.
    pub(crate) fn key(&self) -> Option<(Kind, String, Span)> {
        if !self.conditions.is_empty() {
            return None;
        }
        let (kind, name) = (self.attribute.kind, self.name().ok()?);
        let key = self.attribute.uri.clone().unwrap_or(name);
        Some((kind, key.value(), key.span()))
    }

    fn name(&self) -> Result<LitStr> {
        let default = || LitStr::new(&self.method.unraw().to_string(), self.method.span());
        Ok(self.attribute.settings.text("name")?.cloned().unwrap_or_else(default))
    }

    fn check(&self) -> Result<()> {
        let name = self.name()?;
        let is_name = |name: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_part)
        };
        if self.attribute.kind == Kind::Tool && !is_name(&name.value()) {
            let why = format!("the name of a tool has 1 to {MAX_NAME} ASCII letters, digits and `_-.`");
            return Err(Error::new(name.span(), why));
        }
        let Some(uri) = &self.attribute.uri else { return Ok(()) };
        let uri = uri.value();
        let variables = variables(&uri);
        for argument in self.arguments() {
            let name = argument.name.as_ref().map_or_else(|| argument.ident.unraw().to_string(), LitStr::value);
            if !variables.contains(&name.as_str()) {
                let why =
                    format!("`{name}` is not a variable of the URI: the arguments of a resource are its variables");
                return Err(Error::new(argument.ident.span(), why));
            }
        }
        Ok(())
    }

    fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(argument) => Some(&**argument),
            _ => None,
        })
    }

    /// Returns the statement that registers the handler with a variable `builder`. `service` is the path of the crate,
    /// and `state` the type of the block if it is not generic.
    pub(crate) fn registration(&self, service: &Path, state: Option<&Type>) -> Result<TokenStream> {
        let (name, conditions) = (self.name()?, &self.conditions);
        // Errors about the types of the method are shown at its name. The closure contains no code of the user.
        let span = self.method.span();
        let service = &placed(service, span);
        let constructor = if self.is_async { "new_async" } else { "new" };
        let constructor = Ident::new(constructor, span);
        let (declared, handler) = self.handler(service, state, span);
        let (register, item) = match (self.attribute.kind, &self.attribute.uri) {
            (Kind::Tool, _) => ("tool", quote_spanned!(span=> #service::Tool::#constructor(#name, #handler))),
            (Kind::Prompt, _) => ("prompt", quote_spanned!(span=> #service::Prompt::#constructor(#name, #handler))),
            (_, Some(uri)) if uri.value().contains('{') => {
                ("template", quote_spanned!(span=> #service::ResourceTemplate::#constructor(#uri, #name, #handler)))
            }
            (_, uri) => ("resource", quote_spanned!(span=> #service::Resource::#constructor(#uri, #name, #handler))),
        };
        let (register, details) = (format_ident!("{register}"), self.details(service)?);
        let item = quote!(#item #details);
        let item = match self.attribute.settings.value("with")? {
            Some(with) => quote!(__with(#item, #with)),
            None => item,
        };
        Ok(quote!(#(#conditions)* let builder = builder.#register({ #declared #item });))
    }

    /// Returns the calls of the builder of the item, beginning with a dot.
    fn details(&self, service: &TokenStream) -> Result<TokenStream> {
        let settings = &self.attribute.settings;
        let mut calls = TokenStream::new();
        for key in ["title", "description", "mime_type"] {
            let call = format_ident!("{key}");
            match settings.value(key)? {
                Some(value) => calls.extend(quote!(.#call(#value))),
                None if key == "description" => calls.extend(self.docs.iter().map(|docs| quote!(.#call(#docs)))),
                None => {}
            }
        }
        for scope in settings.values("scope")? {
            calls.extend(quote!(.scope(#scope)));
        }
        let mut hints = TokenStream::new();
        for (key, member) in HINTS {
            let Some((_, value)) = settings.find(key) else { continue };
            let (member, value) =
                (format_ident!("{member}"), value.map_or_else(|| quote!(true), |value| quote!(#value)));
            hints.extend(quote!(annotations.#member = ::core::option::Option::Some(#value);));
        }
        if !hints.is_empty() {
            calls.extend(quote!(.annotations({
                let mut annotations = <#service::ToolAnnotations as ::core::default::Default>::default();
                #hints
                annotations
            })));
        }
        Ok(calls)
    }

    /// Returns the declarations that the handler needs, and the handler: the method itself if it has the parameters of
    /// one, or else a closure or a function that calls it.
    fn handler(&self, service: &TokenStream, state: Option<&Type>, span: Span) -> (TokenStream, TokenStream) {
        let method = &self.method;
        let has_own_order = matches!(
            self.parameters.as_slice(),
            [] | [Parameter::Context(_) | Parameter::Arguments(_)] | [Parameter::Arguments(_), Parameter::Context(_)]
        );
        if has_own_order {
            return (TokenStream::new(), quote_spanned!(span=> Self::#method));
        }
        let (mut declared, mut arguments, mut context) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        if self.arguments().next().is_some() {
            declared = self.declaration(service);
            arguments = quote_spanned!(span=> , arguments: __Arguments);
        }
        let mut values = Vec::new();
        for parameter in &self.parameters {
            match parameter {
                Parameter::Context(ty) => {
                    context = quote_spanned!(span=> , context: #ty);
                    values.push(quote_spanned!(span=> context));
                }
                Parameter::Arguments(ty) => {
                    arguments = quote_spanned!(span=> , arguments: #ty);
                    values.push(quote_spanned!(span=> arguments));
                }
                Parameter::Argument(argument) => {
                    let ident = &argument.ident;
                    values.push(quote_spanned!(span=> arguments.#ident));
                }
            }
        }
        let call = quote_spanned!(span=> Self::#method(state, #(#values),*));
        let handler = match (self.is_async, state) {
            (false, _) => quote_spanned!(span=> |state: &Self #arguments #context| #call),
            // A function returns the future of the method itself, which a closure that borrows cannot.
            (true, Some(state))
                if !mentions_self(self.output.to_token_stream()) && !mentions_self(quote!(#arguments #context)) =>
            {
                let output = match &self.output {
                    ReturnType::Default => quote_spanned!(span=> ()),
                    ReturnType::Type(_, output) => output.to_token_stream(),
                };
                declared.extend(quote_spanned! {span=>
                    fn __call<'a>(
                        state: &'a #state #arguments #context
                    ) -> impl ::core::future::Future<Output = #output> + 'a {
                        <#state>::#method(state, #(#values),*)
                    }
                });
                quote_spanned!(span=> __call)
            }
            (true, _) => quote_spanned!(span=> async |state: &Self #arguments #context| #call.await),
        };
        (declared, handler)
    }

    /// Returns the struct of the arguments.
    fn declaration(&self, service: &TokenStream) -> TokenStream {
        let path = |name: &str| LitStr::new(&format!("{}{name}", quote!(#service)).replace(' ', ""), Span::call_site());
        let (serde, schemars) = (path("::serde"), path("::schemars"));
        let (mut fields, mut defaults) = (TokenStream::new(), TokenStream::new());
        for (number, argument) in self.arguments().enumerate() {
            let Argument { ident, ty, docs, name, description, default } = argument;
            let docs = match description {
                Some(text) => quote!(#[doc = #text]),
                None => quote!(#(#docs)*),
            };
            let name = name.as_ref().map(|name| quote!(#[serde(rename = #name)]));
            let default = default.as_ref().map(|value| match value {
                None => quote!(#[serde(default)]),
                Some(value) => {
                    let function = format_ident!("__default_{number}");
                    defaults.extend(quote!(fn #function() -> #ty { #value }));
                    let function = function.to_string();
                    quote!(#[serde(default = #function)])
                }
            });
            fields.extend(quote!(#docs #name #default #ident: #ty,));
        }
        quote! {
            #defaults
            #[derive(#service::serde::Deserialize, #service::schemars::JsonSchema)]
            #[serde(crate = #serde)]
            #[schemars(crate = #schemars)]
            struct __Arguments { #fields }
        }
    }
}

/// Returns a path as tokens at one place, which errors point at.
fn placed(path: &Path, span: Span) -> TokenStream {
    let at_place = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    path.to_token_stream().into_iter().map(at_place).collect()
}

/// Returns the text of a doc comment, without the space at the beginning of each line. It is an expression if a line
/// has a macro such as `include_str!`.
fn doc_text(attributes: &[Attribute], span: Span) -> Option<TokenStream> {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let lines: Vec<_> = lines.filter_map(|attribute| attribute.meta.require_name_value().ok()).collect();
    let texts: Vec<_> = lines.iter().map(|line| text_of(&line.value)).collect();
    if let Some(texts) = texts.iter().cloned().collect::<Option<Vec<_>>>() {
        let text = texts.join("\n").trim().to_owned();
        return (!text.is_empty()).then(|| quote!(#text));
    }
    let lines = lines
        .iter()
        .zip(texts)
        .map(|(line, text)| text.map_or_else(|| line.value.to_token_stream(), |text| quote!(#text)));
    Some(quote_spanned!(span=> ::core::concat!(#(#lines, "\n"),*).trim()))
}

/// Returns the text of a line of a doc comment, if it is a literal.
fn text_of(line: &Expr) -> Option<String> {
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = line else { return None };
    let text = text.value();
    Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
}
