//! Prints tokens the same way on every version of the libraries.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;

/// Prints a piece of syntax on one line.
pub(crate) fn print(syntax: &impl ToTokens) -> String {
    tokens(syntax.to_token_stream())
}

/// Prints tokens on one line.
pub(crate) fn tokens(stream: TokenStream) -> String {
    let mut out = String::new();
    let mut before = None;
    for tree in stream {
        let is_word = matches!(tree, TokenTree::Ident(_) | TokenTree::Literal(_));
        let after_word = matches!(before, Some(TokenTree::Ident(_) | TokenTree::Literal(_) | TokenTree::Group(_)));
        let after_angle = matches!(&before, Some(TokenTree::Punct(sign)) if sign.as_char() == '>');
        let is_brace = matches!(&tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let is_lifetime = matches!(&tree, TokenTree::Punct(sign) if sign.as_char() == '\'');
        if !out.ends_with([' ', '(', '['])
            && ((is_word && (after_word || after_angle)) || is_brace || (is_lifetime && after_word))
        {
            out.push(' ');
        }
        match &tree {
            TokenTree::Group(group) => {
                let inner = tokens(group.stream());
                match group.delimiter() {
                    Delimiter::Parenthesis => out.push_str(&format!("({inner})")),
                    Delimiter::Bracket => out.push_str(&format!("[{inner}]")),
                    Delimiter::Brace => out.push_str(&format!("{{ {inner} }}")),
                    Delimiter::None => out.push_str(&inner),
                }
            }
            TokenTree::Punct(sign) => punct(&mut out, sign.as_char()),
            tree => out.push_str(&tree.to_string()),
        }
        before = Some(tree);
    }
    out.trim().trim_end_matches(',').to_owned()
}

/// Prints one token with its spaces: after separators, around operators.
fn punct(out: &mut String, sign: char) {
    match sign {
        ',' | ';' => out.push_str(&format!("{sign} ")),
        ':' if out.ends_with(": ") => {
            out.truncate(out.len() - 2);
            out.push_str("::");
        }
        ':' if out.ends_with("::") => out.push(':'),
        ':' => out.push_str(": "),
        '>' if out.ends_with(" - ") => {
            out.truncate(out.len() - 3);
            out.push_str(" -> ");
        }
        '>' if out.ends_with(" = ") => {
            out.truncate(out.len() - 3);
            out.push_str(" => ");
        }
        '+' | '=' | '-' => {
            let space = if out.ends_with(' ') { "" } else { " " };
            out.push_str(&format!("{space}{sign} "));
        }
        sign => out.push(sign),
    }
}
