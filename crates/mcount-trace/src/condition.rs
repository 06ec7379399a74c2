//! Conditions on the arguments and the result of a call, as people write them: `size > 4096 && name == "x"`.
//!
//! They're read here, and decided for values that were recorded. A recorder that decides them while the program runs
//! translates the tree.

mod parse;

pub use crate::values::{NAME_OF_RESULT as RESULT, place_of};

use crate::values::{Named, Value};
use std::fmt;

/// The longest text that something can be compared with, in bytes: no more of one is recorded.
const LONGEST: usize = 64;

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

    /// The comparison that says the same of two things in the other order.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::NotGreater => Self::NotLess,
            Self::Greater => Self::Less,
            Self::NotLess => Self::NotGreater,
            same => same,
        }
    }

    /// The comparison with a whole number that says the same of whole numbers with up to 64 bits as this one with `real`.
    #[must_use]
    pub fn of_whole(self, real: f64) -> (Self, i128) {
        /// No number is below it.
        const LEAST: i128 = i64::MIN as i128;
        let (is_above, is_below) = (real >= 2_f64.powi(64), real < -(2_f64.powi(63)));
        let is_between = is_above || is_below || real.fract() != 0.0;
        #[expect(clippy::cast_possible_truncation, reason = "they are whole")]
        let (floor, ceil) = (real.floor() as i128, real.ceil() as i128);
        let holds = match self {
            Self::Equal => is_between.then_some(false),
            Self::NotEqual => is_between.then_some(true),
            Self::Less | Self::NotGreater => (is_above || is_below).then_some(is_above),
            Self::Greater | Self::NotLess => (is_above || is_below).then_some(is_below),
        };
        match (holds, self) {
            (Some(true), _) => (Self::NotLess, LEAST),
            (Some(false), _) => (Self::Less, LEAST),
            (None, Self::Less | Self::NotLess) => (self, ceil),
            (None, _) => (self, floor),
        }
    }
}

/// The number that a constant is for a value of 4 bytes: such a value is shown as 0.1 if it's the nearest one to that.
#[must_use]
pub fn nearest_single(constant: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "the nearest one is meant")]
    let nearest = constant as f32;
    if nearest.is_normal() { f64::from(nearest) } else { constant }
}

impl Condition {
    /// Reads a condition: comparisons of names, numbers and texts in quotes with `== != < <= > >=`, joined by `&& || !` and
    /// parentheses.
    ///
    /// # Errors
    ///
    /// It's none; the error has the column of the first character that doesn't fit.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        Ok(Self { text: text.to_owned(), root: parse::node(text)? })
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
            let is_result = |name: &&&str| name.split('.').next() == Some(RESULT);
            let results = names.iter().filter(is_result).count();
            let half = match (results != 0, results != names.len()) {
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
        let Value::Structure(fields) = behind(value) else { return None };
        value = &fields.iter().find(|field| field.name == part)?.value;
    }
    Some(value)
}

/// What a value leads to, if it's a pointer or has something with it.
fn behind(mut value: &Value) -> &Value {
    while let Value::Leads { to: Some(to), .. } | Value::Case(_, Some(to)) = value {
        value = to;
    }
    value
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

    /// How many fields of fields are named in it, at most: 1 for `p->x`.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.names().iter().map(|name| name.matches('.').count()).max().unwrap_or(0)
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
    /// One of 4 bytes.
    Single(f32),
    /// One that's written in the condition.
    Constant(f64),
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
            Operand::Real(number) => Some(Self::Constant(*number)),
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
            Value::Single(value) => Self::Single(*value),
            Value::Pointer(address) | Value::Leads { address, .. } => {
                Self::Number(i128::from(*address))
            }
            // More than is ever compared with; or nothing that can be known.
            Value::Text { address, bytes, is_cut, is_bad } => {
                let is_known = !is_cut && !is_bad && *address != 0;
                Self::Text(if is_known { bytes } else { &[0; LONGEST + 1] }, Some(*address))
            }
            Value::Enumerator(name, value) => {
                Self::Enumerator(name.as_deref().unwrap_or(""), i128::from(value.cast_signed()))
            }
            Value::Characters { bytes, is_cut } => {
                Self::Text(if *is_cut { &[0; LONGEST + 1] } else { bytes }, None)
            }
            Value::Missing | Value::Structure(_) | Value::List { .. } | Value::Case(..) => {
                return None;
            }
        })
    }

    fn number(&self) -> Option<i128> {
        match self {
            Self::Number(number) | Self::Enumerator(_, number) => Some(*number),
            Self::Text(_, address) => address.map(i128::from),
            Self::Real(_) | Self::Single(_) | Self::Constant(_) => None,
        }
    }

    fn real(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "as in C")]
        match self {
            Self::Real(number) | Self::Constant(number) => Some(*number),
            Self::Single(number) => Some(f64::from(*number)),
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
            (Known::Single(one), Known::Constant(other)) => {
                f64::from(*one).partial_cmp(&nearest_single(*other))
            }
            (Known::Constant(one), Known::Single(other)) => {
                nearest_single(*one).partial_cmp(&f64::from(*other))
            }
            _ => match (one.number(), other.number()) {
                (Some(one), Some(other)) => Some(one.cmp(&other)),
                _ => one.real()?.partial_cmp(&other.real()?),
            },
        };
        Some(self.holds(order))
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
    fn arguments() -> [Named; 13] {
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
            named("small", Value::Single(0.1)),
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
            ("small == 0.1 && 0.1 == small && small <= 0.1", true),
            ("small != 0.1 || small > 0.1 || small == ratio", false),
            ("size > 4096.5 && 4097.5 > size && size == 4097.0", true),
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
        // As many words and signs as there may be, but for one.
        let long = Condition::parse(&(["size == 1"; 250].join("||"))).unwrap();
        assert!(!long.holds(&arguments(), None) && long.split().is_ok());
    }

    #[test]
    fn whole_numbers_compare_with_others() {
        use Comparison::{Equal, Greater, Less, NotEqual, NotGreater, NotLess};
        let reals = [8.0, 8.5, -8.5, 0.0, -0.5, 1e30, -1e30, 1.8e19, f64::INFINITY];
        let numbers = [i64::MIN.into(), -9, -8, 0, 7, 8, 9, i128::from(u64::MAX)];
        for how in [Equal, NotEqual, Less, NotGreater, Greater, NotLess] {
            for (real, number) in reals.iter().flat_map(|one| numbers.map(|other| (*one, other))) {
                let (whole, of) = how.of_whole(real);
                let as_real = Known::Number(number).real().unwrap();
                let expected = how.holds(as_real.partial_cmp(&real));
                assert_eq!(whole.holds(Some(number.cmp(&of))), expected, "{number} {how:?} {real}");
                assert_eq!(how.mirrored().holds(real.partial_cmp(&as_real)), expected);
            }
        }
        for same in [1e300, 1e-300, 0.0, 0.5] {
            assert_eq!(nearest_single(same).to_bits(), same.to_bits());
        }
    }

    #[test]
    fn errors_have_a_column() {
        let long = format!("name == \"{}\"", "x".repeat(65));
        let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        let endless = "a||".repeat(50_000);
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
            (&endless, 1501),
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
            ("a->x && result->y.z == 3", Some((true, true))),
            ("result->x == 3 || a.x", None),
            ("result == a", None),
        ];
        for (condition, expected) in rows {
            let halves = Condition::parse(condition).unwrap().split().ok();
            let halves = halves.map(|(arguments, result)| (arguments.is_some(), result.is_some()));
            assert_eq!(halves, expected, "{condition}");
        }
    }
}
