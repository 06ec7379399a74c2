//! The name of a function as people write it, made of what demanglers write.
//!
//! It knows no symbols.
//!
//! Sources: Itanium C++ ABI, 5.1 (operators, ABI tags, local names); Rust RFC 2603 (paths in angle brackets).

use std::borrow::Cow;

/// What demanglers write before a name to say what else the symbol is for.
const PREFIXES: [&str; 8] = [
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
    "transaction clone for ",
    "non-transaction clone for ",
    "TLS init function for ",
    "TLS wrapper function for ",
    "guard variable for ",
];

/// The operators of C++, between bars. If one begins with another, it comes first.
const OPERATORS: &str = "()|[]|->*|->|<=>|<<=|>>=|<<|>>|<=|>=|==|!=|&&|++|--|+=|-=|*=|/=|%=|^=|&=|<|>|+|-|*|/|%|^|&|~|!|=|,\
                         | new[]| new| delete[]| delete| co_await|\"\" | \"\" |\"\"| ";
/// Those with a bar.
const WITH_BARS: [&str; 3] = ["||", "|=", "|"];

/// How often one name can be within another, as in `void (*name(int))(char)`.
const DEEPEST: usize = 8;

/// The simple form of `name`, a demangled name; `None` if it isn't one that a demangler writes.
pub(super) fn simple(name: &str) -> Option<Cow<'_, str>> {
    within(name, 0)
}

fn within(name: &str, depth: usize) -> Option<Cow<'_, str>> {
    if depth > DEEPEST {
        return None;
    }
    if name.starts_with(['-', '+']) {
        // Objective-C: `-[Class method:]`.
        return Some(name.into());
    }
    for prefix in PREFIXES {
        if let Some(of) = name.strip_prefix(prefix) {
            return Some(format!("{prefix}{}", within(of, depth + 1)?).into());
        }
    }
    if let Some(of) = thunk(name) {
        return Some(format!("thunk to {}", within(of, depth + 1)?).into());
    }
    if let Some((what, of)) = name.strip_suffix(')').and_then(|name| name.split_once(" of "))
        && what.starts_with("(static ")
    {
        return Some(format!("{what} of {})", within(of, depth + 1)?).into());
    }
    let mut reader = Reader { rest: name, out: String::new(), depth };
    while !reader.rest.is_empty() {
        reader.component()?;
    }
    let out = without_hash(&reader.out);
    (!out.is_empty()).then(|| out.to_owned().into())
}

/// The function that a thunk leads to, in the words of the demangler `cpp_demangle`: `{virtual override thunk({offset(-8)}, f())}`.
fn thunk(name: &str) -> Option<&str> {
    let inside = name.strip_prefix("{virtual override thunk(")?.strip_suffix(")}")?;
    let mut rest = inside;
    while rest.starts_with('{') {
        let Some(behind) = rest.get(balanced(rest)?..)?.strip_prefix(", ") else { break };
        rest = behind;
    }
    Some(rest)
}

/// Without the hash that ends old names of Rust: `::h` and 16 digits.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash))
            if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            path
        }
        _ => name,
    }
}

struct Reader<'n> {
    /// What isn't read yet.
    rest: &'n str,
    /// The name so far, with `::` after each component but the last.
    out: String,
    /// How many names this one is within.
    depth: usize,
}

impl<'n> Reader<'n> {
    /// Reads a component of the path with what is after it, up to the next.
    fn component(&mut self) -> Option<()> {
        if let Some(inside) = self.declarator() {
            self.out = within(inside, self.depth + 1)?.into_owned();
            self.rest = "";
            return Some(());
        }
        let before = self.out.len();
        match self.rest.chars().next()? {
            '(' => {
                let group = self.group()?;
                self.out.push_str(group);
            }
            '<' => self.angle()?,
            _ if self.is_operator() => self.operator()?,
            _ => {}
        }
        self.word(before)?;
        self.behind();
        Some(())
    }

    /// The name in a function that returns a pointer or a reference to a function or an array, as in `void (*name(int))(char)`.
    fn declarator(&self) -> Option<&'n str> {
        let inside = self.rest.strip_prefix('(')?;
        if !self.out.is_empty() || !inside.starts_with(['*', '&']) {
            return None;
        }
        let end = balanced(self.rest)?;
        self.rest.get(1..end - 1).map(|inside| inside.trim_start_matches(['*', '&', ' ']))
    }

    /// Takes a group in brackets.
    fn group(&mut self) -> Option<&'n str> {
        let (group, rest) = self.rest.split_at_checked(balanced(self.rest)?)?;
        self.rest = rest;
        Some(group)
    }

    /// Angle brackets where a component begins: a type with or without its trait, or what is between `::<` and `>` in Rust.
    fn angle(&mut self) -> Option<()> {
        let group = self.group()?;
        match self.out.strip_suffix("::").map(str::len) {
            Some(end) if !group.starts_with("<impl ") => self.out.truncate(end),
            _ => push_without_arguments(&mut self.out, group)?,
        }
        Some(())
    }

    fn is_operator(&self) -> bool {
        let behind = self.rest.strip_prefix("operator");
        behind.is_some_and(|behind| !behind.starts_with(is_of_word) && !behind.is_empty())
    }

    /// Reads an operator: the longest behind which there is what can be after a name.
    fn operator(&mut self) -> Option<()> {
        let behind = self.rest.strip_prefix("operator")?;
        let ends = |rest: &str| {
            let rest = rest.strip_prefix(' ').unwrap_or(rest);
            rest.is_empty() || rest.starts_with(['<', '(', '[']) || rest.starts_with("::")
        };
        let symbol = WITH_BARS.into_iter().chain(OPERATORS.split('|')).find(|symbol| {
            let rest = behind.strip_prefix(*symbol);
            rest.is_some_and(|rest| symbol.ends_with([' ', '"']) || ends(rest))
        })?;
        self.out.push_str("operator");
        self.out.push_str(symbol);
        self.rest = behind.get(symbol.len()..)?;
        if symbol == " " {
            return self.conversion();
        }
        if !symbol.ends_with([' ', '"']) {
            self.rest = self.rest.strip_prefix(' ').unwrap_or(self.rest);
        }
        Some(())
    }

    /// Reads the type that a conversion operator makes, up to the arguments of the operator: it has none.
    fn conversion(&mut self) -> Option<()> {
        let mut at = 0;
        let is_end = |rest: &str| {
            let behind = rest.strip_prefix("()");
            behind.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':']))
        };
        while let Some(c) = self
            .rest
            .get(at..)?
            .chars()
            .next()
            .filter(|_| !is_end(self.rest.get(at..).unwrap_or_default()))
        {
            at += if matches!(c, '(' | '<' | '[' | '{') {
                balanced(self.rest.get(at..)?)?
            } else {
                c.len_utf8()
            };
        }
        let (of, rest) = self.rest.split_at_checked(at)?;
        self.rest = rest;
        push_without_arguments(&mut self.out, of)
    }

    /// Reads the rest of a word, with all that isn't arguments. `before` is where the component begins in the output.
    fn word(&mut self, before: usize) -> Option<()> {
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' => return Some(()),
                ':' if self.rest.starts_with("::") => return Some(()),
                '{' => {
                    let group = self.group()?;
                    match group.strip_prefix("{lambda(").and_then(|inside| inside.rsplit_once(')'))
                    {
                        Some(("", _)) | None => self.out.push_str(group),
                        Some((_, number)) => {
                            self.out.push_str("{lambda(...)");
                            self.out.push_str(number);
                        }
                    }
                }
                '[' if self.rest.starts_with("[abi:") => {
                    self.group()?;
                }
                // Go: `package.(*Type).Method`.
                '(' | '[' if self.out.ends_with('.') || c == '[' => {
                    let group = self.group()?;
                    self.out.push_str(group);
                }
                '(' if self.out.len() == before => return None,
                '<' | '(' => {
                    self.group()?;
                }
                ')' | ']' | '}' => return None,
                _ => {
                    self.out.push(c);
                    self.rest = self.rest.get(c.len_utf8()..)?;
                }
            }
        }
        Some(())
    }

    /// Reads what is after a component: its qualifiers, and `::` or what shows that it was the type of a result.
    fn behind(&mut self) {
        /// Behind these, there is no more of the name.
        const NOTES: [&str; 3] = [" [clone ", " (.", " requires "];
        const QUALIFIERS: [&str; 5] = [" const", " volatile", " &&", " &", " noexcept"];
        loop {
            let behind = QUALIFIERS.iter().find_map(|word| self.rest.strip_prefix(word));
            match behind.filter(|rest| rest.is_empty() || rest.starts_with([' ', ':'])) {
                Some(rest) => self.rest = rest,
                None => break,
            }
        }
        if let Some(rest) = self.rest.strip_prefix("::") {
            self.out.push_str("::");
            self.rest = rest;
        } else if NOTES.iter().any(|note| self.rest.starts_with(note)) {
            self.rest = "";
        } else if let Some(rest) = self.rest.strip_prefix(' ') {
            // What came before it is the type of the result.
            self.out.clear();
            self.rest = rest;
        }
    }
}

/// Appends `text` without the arguments of templates in it. A path in angle brackets, as `<T as Trait>`, stays.
fn push_without_arguments(out: &mut String, text: &str) -> Option<()> {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_behind_name = out.ends_with(is_of_word) || out.ends_with("::");
        if c == '<' && is_behind_name && !rest.starts_with("<impl ") {
            rest = rest.get(balanced(rest)?..)?;
            out.truncate(out.strip_suffix("::").unwrap_or(out).len());
        } else {
            out.push(c);
            rest = rest.get(c.len_utf8()..)?;
        }
    }
    Some(())
}

/// Where the group ends that `text` begins with: behind its last bracket.
fn balanced(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    for (at, c) in text.char_indices() {
        let (before, behind) = (text.get(..at)?, text.get(at + c.len_utf8()..)?);
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            '<' | '>' if at != 0 && is_sign(c, before, behind) => {}
            '<' => open.push('>'),
            '>' if before.ends_with('-') || open.last() != Some(&'>') => {}
            ')' | ']' | '}' | '>' if open.pop() != Some(c) => return None,
            _ => {}
        }
        if open.is_empty() {
            return Some(at + c.len_utf8());
        }
    }
    None
}

/// Does `c`, which is `<` or `>` between `before` and `behind`, belong to an operator, or to an expression like `(n < 3)`?
fn is_sign(c: char, before: &str, behind: &str) -> bool {
    /// How operators begin that go on with one of them.
    const SIGNS: [&str; 6] = ["", "<", ">", "-", "<=", "->"];
    let is_compared = behind.starts_with('=')
        || before.ends_with(')') && behind.starts_with('(')
        || before.ends_with(' ') && behind.starts_with(' ');
    let is_operator = SIGNS
        .iter()
        .any(|sign| before.strip_suffix(sign).is_some_and(|before| before.ends_with("operator")));
    is_operator || c == '<' && is_compared
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use crate::simple_name;

    /// What demanglers write, and what is left of it.
    const ROWS: &[(&str, &str)] = &[
        ("{virtual override thunk({offset(-16)}, A<int>::f(int))}", "thunk to A::f"),
        (
            "{virtual override thunk({virtual offset(0, -24)}, {offset(8)}, A::~A())}",
            "thunk to A::~A",
        ),
        ("foo(int) const::{lambda()#1}::operator()() const", "foo::{lambda()#1}::operator()"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(...)#1}::operator()"),
        ("void (*get<int>(int))(char)", "get"),
        ("foo(int)::Local::bar()", "foo::Local::bar"),
        (
            "std::operator+(A const&)::{lambda(int)#1}::operator()(int) const",
            "std::operator+::{lambda(...)#1}::operator()",
        ),
        ("bool operator< <int>(A<int> const&, A<int> const&)", "operator<"),
        ("bool operator<<int>(A<int> const&)", "operator<"),
        ("bool ns::operator<=><int>(A<int>)", "ns::operator<=>"),
        ("bool operator||<int>(A)", "operator||"),
        ("bool operator|=(A, A)", "operator|="),
        ("A::operator->() const", "A::operator->"),
        ("A::operator->*<int>(int)", "A::operator->*"),
        ("A::operator()(int)", "A::operator()"),
        ("A::operator[](int)", "A::operator[]"),
        ("A::operator std::vector<int, std::allocator<int> >() const", "A::operator std::vector"),
        ("A::operator int (*)(char)()", "A::operator int (*)(char)"),
        (
            "A::operator int()::{lambda()#1}::operator()() const",
            "A::operator int::{lambda()#1}::operator()",
        ),
        ("operator\"\" _km(long double)", "operator\"\" _km"),
        ("A::operator delete[](void*)", "A::operator delete[]"),
        ("operator new(unsigned long)", "operator new"),
        ("(anonymous namespace)::A<int>::~A()", "(anonymous namespace)::A::~A"),
        ("ns::(anonymous namespace)::g()", "ns::(anonymous namespace)::g"),
        ("decltype (x->y) ns::f<int>(int)", "ns::f"),
        ("f(int) [clone .cold]", "f"),
        ("std::enable_if<(3 < 4), int>::type f<int>()", "f"),
        ("f<(3)<(4)>()", "f"),
        ("f<&(bool operator< <int>(A))>()", "f"),
        ("void f<int, &g(int)>()", "f"),
        ("A<(b)1>::c<decltype (x->y)>::d()", "A::c::d"),
        ("unsigned long f<unsigned long, 3ul>(unsigned long)", "f"),
        ("llvm::toString[abi:cxx11](llvm::Error)", "llvm::toString"),
        ("ns::f(int) volatile &&", "ns::f"),
        ("f(int) requires A<int>", "f"),
        ("operators::f(int)", "operators::f"),
        ("non-virtual thunk to A<int>::f(int)", "non-virtual thunk to A::f"),
        ("(static initializers of f(int))", "(static initializers of f)"),
        ("(static initializers of a.cpp)", "(static initializers of a.cpp)"),
        (
            "<alloc::vec::Vec<T> as core::iter::Extend<U>>::extend",
            "<alloc::vec::Vec as core::iter::Extend>::extend",
        ),
        ("<&[T] as core::fmt::Debug>::fmt", "<&[T] as core::fmt::Debug>::fmt"),
        ("<fn(i32) -> i32 as a::B>::call", "<fn(i32) -> i32 as a::B>::call"),
        ("<<A as B<i32>>::C as D>::f", "<<A as B>::C as D>::f"),
        ("core::ptr::drop_in_place::<alloc::string::String>", "core::ptr::drop_in_place"),
        (
            "core::fmt::num::imp::<impl core::fmt::Display for &[T]>::fmt::h0123456789abcdef",
            "core::fmt::num::imp::<impl core::fmt::Display for &[T]>::fmt",
        ),
        ("a::b::{{closure}}", "a::b::{{closure}}"),
        (
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
        ),
        ("main.(*T).Method", "main.(*T).Method"),
        ("slices.Sort[go.shape.int]", "slices.Sort[go.shape.int]"),
        ("-[Foo bar:]", "-[Foo bar:]"),
        ("handle_request", "handle_request"),
        ("parse.part.0.cold", "parse"),
    ];

    #[test]
    fn names_of_demanglers() {
        for (name, expected) in ROWS {
            assert_eq!(simple_name(name), *expected, "{name}");
        }
    }

    #[test]
    fn what_nobody_demangled_stays() {
        for name in ["", "f(", "f<", "f)", "f<int>>(", "_ZN3bad", " ", "::", "operator", "f(]", ")"]
        {
            assert_eq!(simple_name(name), name);
        }
        for part in
            ["(*", "guard variable for ", "<", "(static a of ", "operator", "::", "{lambda("]
        {
            let name = part.repeat(100_000);
            assert!(!simple_name(&name).is_empty(), "{part}");
        }
    }
}
