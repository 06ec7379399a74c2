//! Conditions on the arguments and the result of a call, as people write them: `size > 4096 && name == "x"`.
//!
//! They're read here, and decided for values that were recorded. A recorder that decides them while the program runs
//! translates the tree.

use crate::values::{Named, Value};
use std::fmt;

/// How deep parentheses and signs may be nested.
const DEEPEST: usize = 64;

/// The longest text that something can be compared with, in bytes: no more of one is recorded.
const LONGEST: usize = 64;

/// The name of what a call returns.
pub const RESULT: &str = "result";

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    /// What it says.
    pub root: Node,
}

/// A part of a condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Both hold.
    And(Box<Node>, Box<Node>),
    /// One of them holds.
    Or(Box<Node>, Box<Node>),
    /// It doesn't hold.
    Not(Box<Node>),
    /// They compare like this.
    Compare(Comparison, Operand, Operand),
    /// It isn't 0, null or false.
    IsSet(Operand),
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// An argument, or with the name [`RESULT`] the result.
    Name(String),
    /// A whole number.
    Number(i128),
    /// Any other number.
    Real(f64),
    /// A text.
    Text(Vec<u8>),
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    NotGreater,
    /// `>`
    Greater,
    /// `>=`
    NotLess,
}

/// Why a condition can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    condition: String,
    /// Which character, from 1 on.
    pub column: usize,
    reason: String,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "condition '{}', column {}: {}", self.condition, self.column, self.reason)
    }
}

impl std::error::Error for ConditionError {}

impl Comparison {
    /// Whether it holds for things in this order; of what has no order, such as NaN, only "not equal" holds.
    #[must_use]
    pub fn holds(self, order: Option<std::cmp::Ordering>) -> bool {
        let Some(order) = order else { return self == Self::NotEqual };
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::NotGreater => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::NotLess => order.is_ge(),
        }
    }
}

impl Condition {
    /// Reads a condition: comparisons of names, numbers and texts in quotes with `== != < <= > >=`, joined by `&& || !` and
    /// parentheses.
    ///
    /// # Errors
    ///
    /// It's none; the error has the column of the first character that doesn't fit.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let tokens = tokens(text)?;
        let mut reader = Reader { text, tokens: &tokens, depth: 0 };
        let root = reader.either()?;
        match reader.tokens.first() {
            None => Ok(Self { text: text.to_owned(), root }),
            Some((at, _)) => Err(wrong(text, *at, "expected &&, || or the end here")),
        }
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says of arguments and what of the result: both must hold.
    ///
    /// # Errors
    ///
    /// They can't be told apart: they are joined by something other than `&&`. The text says so.
    pub fn split(&self) -> Result<(Option<Node>, Option<Node>), String> {
        let mut all = Vec::new();
        self.root.clone().conjuncts(&mut all);
        let (mut arguments, mut result) = (None, None);
        for one in all {
            let names = one.names();
            let half = match (names.contains(&RESULT), names.iter().any(|name| *name != RESULT)) {
                (true, true) => {
                    return Err(format!(
                        "condition '{}': while the program runs, a result can be joined with arguments by && only",
                        self.text
                    ));
                }
                (true, false) => &mut result,
                (false, _) => &mut arguments,
            };
            *half = Some(match half.take() {
                Some(former) => Node::And(Box::new(former), Box::new(one)),
                None => one,
            });
        }
        Ok((arguments, result))
    }

    /// Whether it holds for a call with these arguments and this result; if something that it names isn't known, it
    /// doesn't.
    #[must_use]
    pub fn holds(&self, arguments: &[Named], result: Option<&Value>) -> bool {
        let find = |name: &str| find(name, arguments, result);
        self.root.decide(&find).unwrap_or(false)
    }
}

/// The value with this name: an argument by its name, or by its place as `arg1`, or a field of one.
fn find<'v>(name: &str, arguments: &'v [Named], result: Option<&'v Value>) -> Option<&'v Value> {
    let mut parts = name.split('.');
    let first = parts.next()?;
    let mut value = if first == RESULT {
        result?
    } else {
        let named = arguments.iter().find(|one| one.name == first);
        &named.or_else(|| place_of(first).and_then(|at| arguments.get(at)))?.value
    };
    for part in parts {
        let Value::Structure(fields) = value else { return None };
        value = &fields.iter().find(|field| field.name == part)?.value;
    }
    Some(value)
}

/// Which argument `arg1` is, from 0 on.
#[must_use]
pub fn place_of(name: &str) -> Option<usize> {
    name.strip_prefix("arg")?.parse::<usize>().ok()?.checked_sub(1)
}

impl Node {
    fn conjuncts(self, all: &mut Vec<Self>) {
        match self {
            Self::And(one, other) => {
                one.conjuncts(all);
                other.conjuncts(all);
            }
            one => all.push(one),
        }
    }

    /// The names in it.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::And(one, other) | Self::Or(one, other) => [one.names(), other.names()].concat(),
            Self::Not(one) => one.names(),
            Self::Compare(_, one, other) => one.name().into_iter().chain(other.name()).collect(),
            Self::IsSet(one) => one.name().into_iter().collect(),
        }
    }

    fn decide<'v>(&'v self, find: &impl Fn(&str) -> Option<&'v Value>) -> Option<bool> {
        match self {
            Self::And(one, other) => Some(one.decide(find)? && other.decide(find)?),
            Self::Or(one, other) => Some(one.decide(find)? || other.decide(find)?),
            Self::Not(one) => Some(!one.decide(find)?),
            Self::Compare(how, one, other) => {
                how.decide(&Known::of(one, find)?, &Known::of(other, find)?)
            }
            Self::IsSet(one) => {
                Comparison::NotEqual.decide(&Known::of(one, find)?, &Known::Number(0))
            }
        }
    }
}

impl Operand {
    /// The name, if it's one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

/// A value that is known.
enum Known<'v> {
    Number(i128),
    Real(f64),
    /// A text, which may have an address.
    Text(&'v [u8], Option<u64>),
    /// One of an enumeration.
    Enumerator(&'v str, i128),
}

impl<'v> Known<'v> {
    fn of(operand: &'v Operand, find: &impl Fn(&str) -> Option<&'v Value>) -> Option<Self> {
        match operand {
            Operand::Name(name) => Self::value(find(name)?),
            Operand::Number(number) => Some(Self::Number(*number)),
            Operand::Real(number) => Some(Self::Real(*number)),
            Operand::Text(bytes) => Some(Self::Text(bytes, None)),
        }
    }

    fn value(value: &'v Value) -> Option<Self> {
        Some(match value {
            Value::Signed(value) => Self::Number(*value),
            Value::Unsigned(value) => Self::Number(i128::try_from(*value).unwrap_or(i128::MAX)),
            Value::Boolean(value) => Self::Number(i128::from(*value)),
            Value::Character(value) => Self::Number(i128::from(*value)),
            Value::Float(value) => Self::Real(*value),
            Value::Single(value) => Self::Real(f64::from(*value)),
            Value::Pointer(address) => Self::Number(i128::from(*address)),
            // More than is ever compared with; or nothing that can be known.
            Value::Text { address, bytes, is_cut, is_bad } => {
                let is_known = !is_cut && !is_bad && *address != 0;
                Self::Text(if is_known { bytes } else { &[0; LONGEST + 1] }, Some(*address))
            }
            Value::Enumerator(name, value) => {
                Self::Enumerator(name.as_deref().unwrap_or(""), i128::from(value.cast_signed()))
            }
            Value::Missing | Value::Structure(_) => return None,
        })
    }

    fn number(&self) -> Option<i128> {
        match self {
            Self::Number(number) | Self::Enumerator(_, number) => Some(*number),
            Self::Text(_, address) => address.map(i128::from),
            Self::Real(_) => None,
        }
    }

    fn real(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "as in C")]
        match self {
            Self::Real(number) => Some(*number),
            _ => self.number().map(|number| number as f64),
        }
    }
}

impl Comparison {
    /// `None` if they can't be compared.
    fn decide(self, one: &Known<'_>, other: &Known<'_>) -> Option<bool> {
        let order = match (one, other) {
            (Known::Text(one, _), Known::Text(other, _)) => Some(one.cmp(other)),
            (Known::Enumerator(name, _), Known::Text(text, _))
            | (Known::Text(text, _), Known::Enumerator(name, _)) => Some(name.as_bytes().cmp(text)),
            (Known::Real(_), _) | (_, Known::Real(_)) => one.real()?.partial_cmp(&other.real()?),
            _ => Some(one.number()?.cmp(&other.number()?)),
        };
        Some(self.holds(order))
    }
}

/// A word or a sign.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Operand(Operand),
    Compare(Comparison),
    And,
    Or,
    Not,
    Minus,
    Open,
    Close,
}

/// Where a token begins, in bytes, and the token.
type Placed = (usize, Token);

fn wrong(text: &str, at: usize, reason: impl Into<String>) -> ConditionError {
    let column = text.get(..at).unwrap_or(text).chars().count() + 1;
    ConditionError { condition: text.to_owned(), column, reason: reason.into() }
}

const SIGNS: [(&str, Token); 12] = [
    ("&&", Token::And),
    ("||", Token::Or),
    ("==", Token::Compare(Comparison::Equal)),
    ("!=", Token::Compare(Comparison::NotEqual)),
    ("<=", Token::Compare(Comparison::NotGreater)),
    (">=", Token::Compare(Comparison::NotLess)),
    ("<", Token::Compare(Comparison::Less)),
    (">", Token::Compare(Comparison::Greater)),
    ("!", Token::Not),
    ("-", Token::Minus),
    ("(", Token::Open),
    (")", Token::Close),
];

fn tokens(text: &str) -> Result<Vec<Placed>, ConditionError> {
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else { return Ok(all) };
        if let Some((sign, token)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            all.push((at, token.clone()));
            rest = rest.get(sign.len()..).unwrap_or_default();
            continue;
        }
        let (operand, length) = match first {
            '"' | '\'' => quoted(text, at, first)?,
            '0'..='9' => number(text, at)?,
            _ if first.is_alphabetic() || first == '_' => name(rest),
            '=' => return Err(wrong(text, at, "'=' compares nothing: write ==")),
            '&' | '|' => return Err(wrong(text, at, "write && or ||")),
            _ => return Err(wrong(text, at, format!("'{first}' doesn't belong here"))),
        };
        all.push((at, Token::Operand(operand)));
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn name(rest: &str) -> (Operand, usize) {
    let is_in = |one: char| one.is_alphanumeric() || one == '_' || one == '.';
    let length = rest.find(|one| !is_in(one)).unwrap_or(rest.len());
    let word = rest.get(..length).unwrap_or_default();
    let operand = match word {
        "null" | "NULL" | "nullptr" | "false" => Operand::Number(0),
        "true" => Operand::Number(1),
        _ => Operand::Name(word.to_owned()),
    };
    (operand, length)
}

fn number(text: &str, at: usize) -> Result<(Operand, usize), ConditionError> {
    const UNITS: [(char, i128); 4] =
        [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];
    let rest = text.get(at..).unwrap_or_default();
    let mut length = 0;
    for (place, one) in rest.char_indices() {
        // The sign of an exponent.
        let is_sign = matches!(one, '-' | '+')
            && rest.get(..place).is_some_and(|word| word.ends_with(['e', 'E']))
            && !rest.starts_with("0x");
        if !(one.is_ascii_alphanumeric() || one == '.' || one == '_' || is_sign) {
            break;
        }
        length = place + one.len_utf8();
    }
    let word = rest.get(..length).unwrap_or_default().replace('_', "");
    let prefixes = [("0x", 16), ("0X", 16), ("0b", 2), ("0o", 8)];
    let based =
        prefixes.into_iter().find_map(|(prefix, base)| Some((word.strip_prefix(prefix)?, base)));
    let unit = UNITS.into_iter().find_map(|(unit, size)| Some((word.strip_suffix(unit)?, size)));
    let whole = match (based, unit) {
        (Some((digits, base)), _) => u64::from_str_radix(digits, base).ok().map(i128::from),
        (None, Some((digits, size))) => {
            digits.parse::<u64>().ok().map(|count| i128::from(count) * size)
        }
        (None, None) => word.parse::<u64>().ok().map(i128::from),
    };
    let real =
        word.parse::<f64>().ok().filter(|real| real.is_finite() && word.contains(['.', 'e', 'E']));
    let operand = whole.map(Operand::Number).or(real.map(Operand::Real));
    let wrong = || wrong(text, at, format!("'{word}' is no number of up to 64 bits"));
    Ok((operand.ok_or_else(wrong)?, length))
}

/// A text in quotes, or a character in single ones.
fn quoted(text: &str, at: usize, quote: char) -> Result<(Operand, usize), ConditionError> {
    let mut bytes = Vec::new();
    let mut count = 0_usize;
    let inner = text.get(at + 1..).unwrap_or_default();
    let mut all = inner.char_indices();
    let mut last = 0;
    while let Some((place, one)) = all.next() {
        let found = match one {
            _ if one == quote => {
                let length = place + 2;
                if quote == '"' && bytes.len() <= LONGEST {
                    return Ok((Operand::Text(bytes), length));
                }
                if quote == '"' {
                    return Err(wrong(text, at, format!("a text has at most {LONGEST} bytes")));
                }
                if count == 1 {
                    return Ok((Operand::Number(i128::from(last)), length));
                }
                return Err(wrong(text, at, "one character is between single quotes"));
            }
            '\\' => match all.next().map(|(_, one)| one) {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('0') => '\0',
                Some(same @ ('\\' | '"' | '\'')) => same,
                _ => {
                    return Err(wrong(
                        text,
                        at + 1 + place,
                        "escapes are \\n, \\t, \\r, \\0, \\\\, \\\" and \\'",
                    ));
                }
            },
            one => one,
        };
        last = u32::from(found);
        count += 1;
        bytes.extend(found.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Err(wrong(text, at, format!("no {quote} ends this")))
}

/// Reads tokens, the tightest signs last.
struct Reader<'t> {
    text: &'t str,
    tokens: &'t [Placed],
    depth: usize,
}

impl Reader<'_> {
    fn take(&mut self, token: &Token) -> bool {
        let Some(((_, first), rest)) = self.tokens.split_first() else { return false };
        if first == token {
            self.tokens = rest;
        }
        first == token
    }

    fn at(&self) -> usize {
        self.tokens.first().map_or(self.text.len(), |(at, _)| *at)
    }

    fn either(&mut self) -> Result<Node, ConditionError> {
        let mut one = self.both()?;
        while self.take(&Token::Or) {
            one = Node::Or(Box::new(one), Box::new(self.both()?));
        }
        Ok(one)
    }

    fn both(&mut self) -> Result<Node, ConditionError> {
        let mut one = self.single()?;
        while self.take(&Token::And) {
            one = Node::And(Box::new(one), Box::new(self.single()?));
        }
        Ok(one)
    }

    fn single(&mut self) -> Result<Node, ConditionError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(wrong(self.text, self.at(), "this is nested too deeply"));
        }
        let node = if self.take(&Token::Not) {
            Node::Not(Box::new(self.single()?))
        } else if self.take(&Token::Open) {
            let inner = self.either()?;
            if !self.take(&Token::Close) {
                return Err(wrong(self.text, self.at(), "expected ) here"));
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, ConditionError> {
        let at = self.at();
        let one = self.operand()?;
        let Some(((_, Token::Compare(how)), rest)) = self.tokens.split_first() else {
            return match one {
                Operand::Name(_) => Ok(Node::IsSet(one)),
                _ => Err(wrong(self.text, self.at(), "expected a comparison such as == or < here")),
            };
        };
        self.tokens = rest;
        let behind = self.at();
        let other = self.operand()?;
        if let Some((sign_at, Token::Compare(_))) = self.tokens.first() {
            return Err(wrong(self.text, *sign_at, "join comparisons by &&"));
        }
        let has_text = [&one, &other].iter().any(|one| matches!(one, Operand::Text(_)));
        let is_order = !matches!(how, Comparison::Equal | Comparison::NotEqual);
        if has_text && is_order {
            return Err(wrong(self.text, behind, "texts compare by == and != only"));
        }
        if one.name().or(other.name()).is_none() {
            return Err(wrong(self.text, at, "this compares nothing of a call"));
        }
        Ok(Node::Compare(*how, one, other))
    }

    fn operand(&mut self) -> Result<Operand, ConditionError> {
        let at = self.at();
        let is_negative = self.take(&Token::Minus);
        let Some(((_, Token::Operand(operand)), rest)) = self.tokens.split_first() else {
            return Err(wrong(self.text, self.at(), "expected a name, a number or a text here"));
        };
        self.tokens = rest;
        match operand.clone() {
            Operand::Number(number) if is_negative => Ok(Operand::Number(-number)),
            Operand::Real(number) if is_negative => Ok(Operand::Real(-number)),
            _ if is_negative => Err(wrong(self.text, at, "only numbers have a sign")),
            operand => Ok(operand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, value: Value) -> Named {
        Named { name: name.to_owned(), value }
    }

    fn text(text: &str) -> Value {
        Value::Text { address: 0x1000, bytes: text.into(), is_cut: false, is_bad: false }
    }

    /// Arguments of a call.
    fn arguments() -> [Named; 12] {
        let fields = vec![named("x", Value::Signed(3)), named("y", Value::Signed(-4))];
        let none = Value::Text { address: 0, bytes: Vec::new(), is_cut: false, is_bad: false };
        [
            named("size", Value::Unsigned(4097)),
            named("fd", Value::Signed(-1)),
            named("name", text("x\"y")),
            named("none", none),
            named("ratio", Value::Float(0.5)),
            named("nan", Value::Single(f32::NAN)),
            named("at", Value::Structure(fields)),
            named("state", Value::Enumerator(Some("RUNNING".to_owned()), 2)),
            named("key", Value::Character(u32::from('k'))),
            named("gone", Value::Missing),
            named("", Value::Pointer(u64::MAX)),
            named("flag", Value::Boolean(true)),
        ]
    }

    #[test]
    fn conditions_hold_or_not() {
        let rows = [
            ("size > 4096", true),
            ("size > 4K", true),
            ("size>=0x1001&&size<=4_097", true),
            ("4097 == size", true),
            ("size != 4097", false),
            ("fd < 0", true),
            ("fd == -1", true),
            ("-1 == fd", true),
            ("fd", true),
            ("!fd", false),
            ("!!fd && flag == true", true),
            ("fd > size", false),
            ("name == \"x\\\"y\"", true),
            ("name != \"x\"", true),
            ("name", true),
            ("none == null", true),
            ("none == \"\"", false),
            ("none", false),
            ("ratio < 0.6 && ratio > 4e-1", true),
            ("ratio == 5e-1", true),
            ("ratio > 0", true),
            ("nan == nan", false),
            ("nan != 0", true),
            ("nan < 1 || nan >= 1", false),
            ("at.x == 3 && at.y == -4", true),
            ("at.z == 3", false),
            ("at == 3", false),
            ("state == \"RUNNING\" && state == 2", true),
            ("key == 'k'", true),
            ("gone == 0 || gone != 0", false),
            ("!(gone == 0)", false),
            ("arg11 == 0xffffffffffffffff", true),
            ("arg1 == 4097", true),
            ("arg0 == 4097 || arg99 == 1", false),
            ("missing == 1", false),
            ("size == 1 || fd == -1 && flag", true),
            ("(size == 1 || fd == -1) && !flag", false),
            ("result < 0", true),
            ("result == -2 && size", true),
        ];
        for (condition, expected) in rows {
            let parsed = Condition::parse(condition).unwrap();
            let result = Value::Signed(-2);
            assert_eq!(parsed.holds(&arguments(), Some(&result)), expected, "{condition}");
            assert_eq!(parsed.text(), condition);
        }
        assert!(!Condition::parse("result < 0").unwrap().holds(&arguments(), None));
    }

    #[test]
    fn errors_have_a_column() {
        let long = format!("name == \"{}\"", "x".repeat(65));
        let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        let rows = [
            ("", 1),
            ("size >", 7),
            ("size > > 3", 8),
            ("size = 3", 6),
            ("size & 3", 6),
            ("(size > 3", 10),
            ("size > 3)", 9),
            ("size > 3 fd", 10),
            ("size > 3x", 8),
            ("size > 99999999999999999999", 8),
            ("1 == 1", 1),
            ("3", 2),
            ("a < b < c", 7),
            ("name < \"x\"", 8),
            ("name == \"x", 9),
            ("näme == \"\\q\"", 10),
            ("c == 'xy'", 6),
            ("-size < 3", 1),
            ("size ? 3", 6),
            (&long, 9),
            (&deep, 65),
        ];
        for (condition, column) in rows {
            let error = Condition::parse(condition).unwrap_err();
            assert_eq!(error.column, column, "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn arguments_are_told_from_results() {
        let rows = [
            ("a > 1 && result < 0 && b", Some((true, true))),
            ("a > 1 || b", Some((true, false))),
            ("result", Some((false, true))),
            ("a || result", None),
            ("result == a", None),
        ];
        for (condition, expected) in rows {
            let halves = Condition::parse(condition).unwrap().split().ok();
            let halves = halves.map(|(arguments, result)| (arguments.is_some(), result.is_some()));
            assert_eq!(halves, expected, "{condition}");
        }
    }
}
