//! The `#[test]` attribute of `testkit`. It puts a function into the list of tests that `testkit::trial::main`
//! runs.
//!
//! A crate of its own because attributes have to be. Why not Rust's own `#[test]`: its harness decides at compile
//! time which tests are ignored. Ours ignores a test at run time, with the reason, when a tool is missing.

use proc_macro::{TokenStream, TokenTree};

/// Marks a test. `#[test]` runs the function once; `#[test(each = ROWS)]` runs it once for each row, and each run is
/// a test with its own result.
///
/// ```text
/// use testkit::test;
///
/// #[test]
/// fn adds() {
///     assert_eq!(1 + 1, 2);
/// }
///
/// #[test(each = ["gcc", "clang"])]
/// fn compiles(compiler: &str) {
///     testkit::tools::need([compiler]);
/// }
///
/// fn main() -> std::process::ExitCode {
///     testkit::trial::main()
/// }
/// ```
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let expanded = name(&function).and_then(|name| {
        let cases = cases(arguments, &name)?;
        format!(
            "const _: () = {{
                use ::testkit::trial::{{self, linkme}};
                #[linkme::distributed_slice(trial::TESTS)]
                #[linkme(crate = linkme)]
                static TEST: trial::Test =
                    trial::Test {{ module: module_path!(), name: \"{name}\", cases: || {cases} }};
            }};"
        )
        .parse()
        .map_err(|error| format!("{error}"))
    });
    let registration: TokenStream = expanded
        .unwrap_or_else(|error| format!("compile_error!({error:?});").parse().unwrap_or_default());
    // Lints go easier on what is for tests only.
    let cfg: TokenStream = "#[cfg(test)]".parse().unwrap_or_default();
    [cfg, function, registration].into_iter().collect()
}

/// The word behind `fn`.
fn name(function: &TokenStream) -> Result<String, String> {
    let mut words = function.clone().into_iter().filter_map(|token| match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    });
    words.find(|word| word == "fn").and_then(|_| words.next()).ok_or("not a function".to_owned())
}

/// The expression that makes the cases of the test.
fn cases(arguments: TokenStream, name: &str) -> Result<String, String> {
    let mut tokens = arguments.into_iter();
    match (tokens.next(), tokens.next()) {
        (None, None) => Ok(format!("trial::once({name})")),
        (Some(TokenTree::Ident(each)), Some(TokenTree::Punct(equals)))
            if each.to_string() == "each" && equals.as_char() == '=' =>
        {
            let rows: TokenStream = tokens.collect();
            Ok(format!("trial::each({rows}, {name})"))
        }
        _ => Err("write #[test] or #[test(each = ROWS)]".to_owned()),
    }
}
