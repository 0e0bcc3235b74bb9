//! The `impl` block, and the function that registers its handlers.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Error, Ident, ImplItem, Item, ItemImpl, Path, Result, Token, Visibility, ext::IdentExt, parse::Parse,
    parse::ParseStream, parse_quote,
};

use crate::{handler::Handler, item_attribute::Kind};

/// The arguments of the attribute of the block.
struct BlockArguments {
    visibility: Visibility,
    function: Ident,
    /// The path of `mcp-service`.
    service: Path,
}

impl Default for BlockArguments {
    fn default() -> Self {
        Self {
            visibility: parse_quote!(pub),
            function: Ident::new("handlers", Span::call_site()),
            service: parse_quote!(::mcp_service),
        }
    }
}

impl Parse for BlockArguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Self::default();
        let expected = "expected `fn name`, `pub(crate) fn name` or `crate = path`";
        while !input.is_empty() {
            if input.peek(Token![crate]) && input.peek2(Token![=]) {
                input.call(Ident::parse_any)?;
                input.parse::<Token![=]>()?;
                arguments.service = input.call(Path::parse_mod_style)?;
            } else if input.peek(Token![fn]) || input.peek(Token![pub]) {
                arguments.visibility = input.parse()?;
                input.parse::<Token![fn]>()?;
                arguments.function = input.parse()?;
            } else {
                return Err(input.error(expected));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

/// Expands the attribute. With mistakes, the function of the block registers nothing, so that there are no other errors
/// because of them.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut block = match block(item.clone()) {
        Ok(block) => block,
        Err((block, error)) => {
            let (item, error) = (block.map_or(item, ToTokens::into_token_stream), error.into_compile_error());
            return quote!(#item #error);
        }
    };
    let mut errors = Vec::new();
    let mut handlers = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let (handler, found) = Handler::take(method);
        errors.extend(found);
        handlers.extend(handler);
    }
    errors.extend(duplicates(&handlers));
    let arguments = syn::parse2(attribute).unwrap_or_else(|error| {
        errors.push(error);
        BlockArguments::default()
    });
    let methods = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(method) => Some(&method.sig.ident),
        _ => None,
    });
    let taken = methods.into_iter().find(|method| **method == arguments.function);
    if let Some(method) = taken {
        let why = format!("the block has a method `{method}`: `#[handlers(fn ..)]` gives the function another name");
        errors.push(Error::new(method.span(), why));
    } else if handlers.is_empty() && errors.is_empty() {
        let why = "no method of the block has `#[tool]`, `#[prompt]` or `#[resource(..)]`";
        errors.push(Error::new_spanned(&block.self_ty, why));
    }
    let is_taken = taken.is_some();
    let state = block.generics.params.is_empty().then_some(&*block.self_ty);
    let statements: Result<Vec<_>> =
        handlers.iter().map(|handler| handler.registration(&arguments.service, state)).collect();
    let statements = statements.unwrap_or_else(|error| {
        errors.push(error);
        Vec::new()
    });
    if !is_taken {
        let function = if errors.is_empty() {
            registration(&arguments, &handlers, &statements)
        } else {
            registration(&arguments, &[], &[])
        };
        block.items.push(ImplItem::Verbatim(function));
    }
    let errors = errors.into_iter().map(Error::into_compile_error);
    quote!(#block #(#errors)*)
}

/// Returns the block. That of a trait is an error, with the block without the attributes for this crate.
fn block(item: TokenStream) -> std::result::Result<ItemImpl, (Option<Box<ItemImpl>>, Error)> {
    match syn::parse2(item).map_err(|error| (None, error))? {
        Item::Impl(block) if block.trait_.is_none() => Ok(block),
        Item::Impl(mut block) => {
            let why = "the methods of a trait are no handlers: write an `impl` block of the type alone";
            let error = Error::new_spanned(block.trait_.as_ref().map(|(path, _)| path), why);
            for item in &mut block.items {
                if let ImplItem::Fn(method) = item {
                    Handler::take(method);
                }
            }
            Err((Some(Box::new(block)), error))
        }
        _ => Err((None, Error::new(Span::call_site(), "`#[handlers]` belongs to an `impl` block"))),
    }
}

/// Returns an error for each handler whose name, or URI, an earlier one has.
fn duplicates(handlers: &[Handler]) -> Vec<Error> {
    let mut seen: Vec<(Kind, String)> = Vec::new();
    let mut errors = Vec::new();
    for (kind, key, span) in handlers.iter().filter_map(Handler::key) {
        if seen.iter().any(|(other, name)| (*other, name) == (kind, &key)) {
            errors.push(Error::new(span, format!("the block has a {} {key:?} already", kind.name())));
        } else {
            seen.push((kind, key));
        }
    }
    errors
}

/// Returns the function that registers handlers, with the statements of its body.
fn registration(arguments: &BlockArguments, handlers: &[Handler], statements: &[TokenStream]) -> TokenStream {
    let BlockArguments { visibility, function, service } = arguments;
    let with = handlers.iter().any(|handler| handler.attribute.settings.find("with").is_some()).then(|| {
        quote! {
            fn __with<T, U>(item: T, change: impl ::core::ops::FnOnce(T) -> U) -> U {
                change(item)
            }
        }
    });
    let span = function.span();
    let name = quote_spanned!(span=> #function);
    quote! {
        /// Registers the tools, prompts and resources of this block.
        #[allow(unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic, reason = "the code is written by an attribute")]
        #visibility fn #name<__State>(builder: #service::ServiceBuilder<__State>) -> #service::ServiceBuilder<__State>
        where
            __State: ::core::marker::Send + ::core::marker::Sync + 'static,
            #service::State<Self>: #service::FromState<__State>,
        {
            #with
            #(#statements)*
            builder
        }
    }
}

#[cfg(test)]
mod tests;
