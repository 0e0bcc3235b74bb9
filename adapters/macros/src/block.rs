//! The `impl` block, and the function that registers its handlers.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
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

impl Parse for BlockArguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Self {
            visibility: parse_quote!(pub),
            function: Ident::new("handlers", Span::call_site()),
            service: parse_quote!(::mcp_service),
        };
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

/// Expands the attribute. With mistakes, the block is returned without the function, so that there are no other errors
/// because of them.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut block = match block(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let error = error.into_compile_error();
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
    let function = syn::parse2(attribute).and_then(|arguments: BlockArguments| {
        let methods = block.items.iter().filter_map(|item| match item {
            ImplItem::Fn(method) => Some(&method.sig.ident),
            _ => None,
        });
        if let Some(method) = methods.into_iter().find(|method| **method == arguments.function) {
            let why =
                format!("the block has a method `{method}`: `#[handlers(fn ..)]` gives the function another name");
            return Err(Error::new(method.span(), why));
        }
        if handlers.is_empty() && errors.is_empty() {
            let why = "no method of the block has `#[tool]`, `#[prompt]` or `#[resource(..)]`";
            return Err(Error::new_spanned(&block.self_ty, why));
        }
        registration(&arguments, &handlers, &block)
    });
    match function {
        Ok(function) if errors.is_empty() => block.items.push(ImplItem::Verbatim(function)),
        Ok(_) => {}
        Err(error) => errors.push(error),
    }
    let errors = errors.into_iter().map(Error::into_compile_error);
    quote!(#block #(#errors)*)
}

fn block(item: TokenStream) -> Result<ItemImpl> {
    match syn::parse2(item)? {
        Item::Impl(block) if block.trait_.is_none() => Ok(block),
        Item::Impl(block) => {
            let why = "the methods of a trait are no handlers: write an `impl` block of the type alone";
            Err(Error::new_spanned(block.trait_.map(|(path, _)| path), why))
        }
        _ => Err(Error::new(Span::call_site(), "`#[handlers]` belongs to an `impl` block")),
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

/// Returns the function that registers handlers.
fn registration(arguments: &BlockArguments, handlers: &[Handler], block: &ItemImpl) -> Result<TokenStream> {
    let BlockArguments { visibility, function, service } = arguments;
    let state = block.generics.params.is_empty().then_some(&*block.self_ty);
    let statements: Vec<_> =
        handlers.iter().map(|handler| handler.registration(service, state)).collect::<Result<_>>()?;
    let with = handlers.iter().any(|handler| handler.attribute.settings.find("with").is_some()).then(|| {
        quote! {
            fn with<T, U>(item: T, change: impl ::core::ops::FnOnce(T) -> U) -> U {
                change(item)
            }
        }
    });
    let span = function.span();
    let name = quote_spanned!(span=> #function);
    Ok(quote! {
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
    })
}

#[cfg(test)]
mod tests;
