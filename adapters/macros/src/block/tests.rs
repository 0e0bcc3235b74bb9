use quote::quote;

use super::expand;

/// The attribute writes calls that a program can write by hand, with the public names of `mcp-service`.
#[test]
fn expands_to_calls_of_the_builder() {
    let block = quote! {
        impl Garden {
            /// Digs a hole.
            #[tool(title = "Dig", read_only, with = |tool| tool.defer_task())]
            async fn dig(&self, context: Context, #[doc = " How deep."] depth: u32) -> String {}

            #[resource("garden://{bed}")]
            fn bed(&self, #[arguments] bed: Bed, context: Context) -> String {}

            #[cfg(unix)]
            #[prompt]
            fn plan(&self) -> String {}
        }
    };
    let expected = quote! {
        impl Garden {
            /// Digs a hole.
            async fn dig(&self, context: Context, depth: u32) -> String {}
            fn bed(&self, bed: Bed, context: Context) -> String {}
            #[cfg(unix)]
            fn plan(&self) -> String {}

            /// Registers the tools, prompts and resources of this block.
            #[allow(unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic, reason = "the code is written by an attribute")]
            pub fn handlers<__State>(builder: ::mcp_service::ServiceBuilder<__State>) -> ::mcp_service::ServiceBuilder<__State>
            where
                __State: ::core::marker::Send + ::core::marker::Sync + 'static,
                ::mcp_service::State<Self>: ::mcp_service::FromState<__State>,
            {
                fn __with<T, U>(item: T, change: impl ::core::ops::FnOnce(T) -> U) -> U {
                    change(item)
                }
                let builder = builder.tool({
                    #[derive(::mcp_service::serde::Deserialize, ::mcp_service::schemars::JsonSchema)]
                    #[serde(crate = "::mcp_service::serde")]
                    #[schemars(crate = "::mcp_service::schemars")]
                    struct __Arguments {
                        #[doc = " How deep."]
                        depth: u32,
                    }
                    fn __call<'a>(
                        state: &'a Garden,
                        arguments: __Arguments,
                        context: Context
                    ) -> impl ::core::future::Future<Output = String> + 'a {
                        <Garden>::dig(state, context, arguments.depth)
                    }
                    __with(
                        ::mcp_service::Tool::new_async("dig", __call)
                        .title("Dig")
                        .description("Digs a hole.")
                        .annotations({
                            let mut annotations =
                                <::mcp_service::ToolAnnotations as ::core::default::Default>::default();
                            annotations.read_only_hint = ::core::option::Option::Some(true);
                            annotations
                        }),
                        |tool| tool.defer_task()
                    )
                });
                let builder = builder.template({
                    ::mcp_service::ResourceTemplate::new("garden://{bed}", "bed", Self::bed)
                });
                #[cfg(unix)]
                let builder = builder.prompt({ ::mcp_service::Prompt::new("plan", Self::plan) });
                builder
            }
        }
    };
    assert_eq!(expand(quote!(), block).to_string(), expected.to_string());
}

#[test]
fn the_function_and_the_crate_have_other_names() {
    let block = quote!(impl Garden { #[tool] fn dig(&self) {} });
    let expanded = expand(quote!(pub(super) fn tools, crate = mcp_tokio::mcp_service), block).to_string();
    for part in [quote!(pub(super) fn tools<__State>), quote!(mcp_tokio::mcp_service::Tool::new("dig", Self::dig))] {
        assert!(expanded.contains(&part.to_string()), "{part} is not in {expanded}");
    }
}

/// A block with mistakes keeps its methods, and has a function, so that the mistakes cause no other errors.
#[test]
fn a_block_with_mistakes_keeps_its_methods() {
    let methods = quote! {
        fn dig(&self, depth: &u32) {}
        fn fill(&self) {}
    };
    let block = quote!(impl Garden { #[tool(wrong)] fn dig(&self, #[arg(default)] depth: &u32) {} fn fill(&self) {} });
    let expanded = expand(quote!(name), block).to_string();
    let block = quote!(impl Garden { #methods }).to_string();
    assert!(expanded.starts_with(block.trim_end_matches(" }")), "{expanded}");
    assert_eq!(expanded.matches("compile_error").count(), 3, "{expanded}");
    assert!(expanded.contains(&quote!(pub fn handlers<__State>).to_string()), "{expanded}");
    assert!(!expanded.contains("Tool"), "{expanded}");
    // The methods of a trait have no attributes of this crate.
    let of_trait = quote!(impl Dig for Garden { fn dig(&self, depth: u32) {} });
    let expanded =
        expand(quote!(), quote!(impl Dig for Garden { #[tool] fn dig(&self, #[arg(default)] depth: u32) {} }));
    assert!(expanded.to_string().starts_with(&of_trait.to_string()), "{expanded}");
    assert_eq!(expanded.to_string().matches("compile_error").count(), 1, "{expanded}");
}

#[test]
fn mistakes_of_parameters_are_explained() {
    let twice = "a parameter has one of";
    let own = "`Self` cannot be in the type or the default";
    for (parameter, why) in [
        (quote!(#[arg(default)] #[arg(name = "a")] depth: u32), twice),
        (quote!(#[arg(default)] #[context] context: Context), twice),
        (quote!(#[arguments] #[arg(default)] all: All), twice),
        (quote!(depth: Option<Self>), own),
        (quote!(#[arg(default = Self::DEPTH)] depth: u32), own),
    ] {
        let expanded = expand(quote!(), quote!(impl Garden { #[tool] fn dig(&self, #parameter) {} })).to_string();
        assert!(expanded.contains(why), "{expanded}");
        assert_eq!(expanded.matches("compile_error").count(), 1, "{expanded}");
    }
    let expanded = expand(
        quote!(),
        quote!(impl Garden { #[tool] async fn dig(&self, #[arguments] all: Of<Self>, context: C, other: u8) {} }),
    );
    assert!(expanded.to_string().contains("compile_error"), "{expanded}");
    let expanded =
        expand(quote!(), quote!(impl Garden { #[tool] async fn dig(&self, context: Context<Self>, other: u8) {} }));
    assert!(!expanded.to_string().contains("fn __call"), "{expanded}");
}

#[test]
fn expressions_are_documentation() {
    let block = quote!(impl Garden { #[doc = " Digs."] #[doc = include_str!("dig.md")] #[tool] fn dig(&self) {} });
    let call = quote!(.description(::core::concat!("Digs.", "\n", include_str!("dig.md"), "\n").trim()));
    let expanded = expand(quote!(), block).to_string();
    assert!(expanded.contains(&call.to_string()), "{expanded}");
}
