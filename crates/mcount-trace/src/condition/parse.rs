//! Reads conditions: words and signs, then what they say.

use super::{Comparison, ConditionError, LONGEST, Node, Operand};

/// How deep parentheses and signs may be nested.
const DEEPEST: usize = 64;

/// How many words and signs a condition has at most: what is made of them is as deep as a chain of && or || is long.
const MOST: usize = 1000;

/// What a condition says.
pub(super) fn node(text: &str) -> Result<Node, ConditionError> {
    let tokens = tokens(text)?;
    let mut reader = Reader { text, tokens: &tokens, depth: 0 };
    let root = reader.either()?;
    match reader.tokens.first() {
        None => Ok(root),
        Some((at, _)) => Err(wrong(text, *at, "expected &&, || or the end here")),
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
        if all.len() == MOST {
            return Err(wrong(text, at, format!("a condition has at most {MOST} words and signs")));
        }
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
    let mut length = 0;
    loop {
        let behind = rest.get(length..).unwrap_or_default();
        length += behind.find(|one| !is_in(one)).unwrap_or(behind.len());
        // A field of what a pointer leads to.
        let field = rest.get(length..).and_then(|behind| behind.strip_prefix("->"));
        if !field
            .is_some_and(|field| field.starts_with(|one: char| one.is_alphabetic() || one == '_'))
        {
            break;
        }
        length += "->".len();
    }
    let word = rest.get(..length).unwrap_or_default();
    let operand = match word {
        "null" | "NULL" | "nullptr" | "false" => Operand::Number(0),
        "true" => Operand::Number(1),
        _ => Operand::Name(word.replace("->", ".")),
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
