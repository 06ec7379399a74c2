//! Arguments and results as they're printed: as in C for people, and as JSON.

use super::{json_string, printable};
use mcount_trace::{Call, Field, Named, Trace, Value, Values};
use std::fmt::Write;

/// The arguments and results that a trace has, for calls in the order of starts.
pub(crate) struct Recorded<'t>(Option<Values<'t>>);

impl<'t> Recorded<'t> {
    pub(crate) fn of(trace: &'t Trace<'_>) -> Self {
        Self(trace.has_values().then(|| trace.values()))
    }

    /// The arguments of a call, if they were recorded.
    pub(crate) fn arguments(&mut self, call: &Call) -> Option<Vec<Named>> {
        self.0.as_mut()?.arguments(call)
    }

    /// The text of a marker, if the call of `name` with these arguments is one.
    pub(crate) fn mark(
        &self,
        call: &Call,
        arguments: Option<&[Named]>,
        name: &str,
    ) -> Option<String> {
        if self.is_named_mark(call) {
            return Some(printable(name).into_owned());
        }
        let text = arguments?.first().filter(|_| self.is_mark(call))?;
        Some(mark(&text.value))
    }

    /// The same, with its arguments if it says its name.
    pub(crate) fn whole_mark(
        &self,
        call: &Call,
        all: Option<&[Named]>,
        name: &str,
    ) -> Option<String> {
        let mark = self.mark(call, all, name)?;
        let values = all.filter(|all| !all.is_empty() && self.is_named_mark(call));
        Some(values.map_or_else(|| mark.clone(), |all| format!("{mark}({})", arguments(all))))
    }

    /// Is the call a marker that says its name?
    pub(super) fn is_named_mark(&self, call: &Call) -> bool {
        self.0.as_ref().is_some_and(|values| values.is_named_mark(call.function))
    }

    /// Is the call a marker?
    pub(crate) fn is_mark(&self, call: &Call) -> bool {
        self.0.as_ref().is_some_and(|values| values.is_mark(call.function))
    }

    /// The result of a call, if it was recorded. Calls can be in any order.
    pub(super) fn result(&self, call: &Call) -> Option<Value> {
        self.0.as_ref()?.result(call)
    }
}

/// Is it what functions return that failed: a number below 0, no address, or an address or a size that's the negated number
/// of an error?
pub(super) fn is_failure(result: &Value) -> bool {
    /// The greatest number of an error, in Linux and in its C libraries.
    const GREATEST: u64 = 4095;
    match result {
        Value::Signed(value) => *value < 0,
        Value::Unsigned(value) => {
            u64::try_from(*value).is_ok_and(|value| value >= GREATEST.wrapping_neg())
        }
        Value::Enumerator(_, value) => value.cast_signed() < 0,
        Value::Pointer(address) | Value::Text { address, .. } => {
            *address == 0 || *address >= GREATEST.wrapping_neg()
        }
        Value::Float(value) => *value < 0.0,
        Value::Single(value) => *value < 0.0,
        Value::Missing | Value::Boolean(_) | Value::Character(_) | Value::Structure(_) => false,
    }
}

/// The text of a marker, on one line.
fn mark(value: &Value) -> String {
    match value {
        Value::Text { bytes, is_cut, .. } if !bytes.is_empty() => {
            let more = if *is_cut { "..." } else { "" };
            format!("{}{more}", printable(&lossy(bytes)))
        }
        Value::Text { address, is_bad: true, .. } => format!("{address:#x}, unreadable"),
        _ => String::new(),
    }
}

/// The arguments of a call, as they are between parentheses.
pub(super) fn arguments(all: &[Named]) -> String {
    let all: Vec<String> = all.iter().map(|one| text(&one.value)).collect();
    all.join(", ")
}

/// A value as in C.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Missing => "?".to_owned(),
        Value::Signed(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Character(value) => match char::from_u32(*value).filter(|one| *one != '\0') {
            Some(one) => format!("'{}'", escaped(one, '\'')),
            None => format!("'\\{value:o}'"),
        },
        Value::Float(value) => format!("{value:?}"),
        Value::Single(value) => format!("{value:?}"),
        Value::Pointer(0) | Value::Text { address: 0, .. } => "NULL".to_owned(),
        Value::Pointer(address) => format!("{address:#x}"),
        Value::Text { address, bytes, is_bad: true, .. } if bytes.is_empty() => {
            format!("{address:#x} /* unreadable */")
        }
        Value::Text { bytes, is_cut, is_bad, .. } => {
            let inner: String = lossy(bytes).chars().map(|one| escaped(one, '"')).collect();
            let more = match (is_cut, is_bad) {
                (_, true) => " /* unreadable */",
                (true, _) => "...",
                _ => "",
            };
            format!("\"{inner}\"{more}")
        }
        Value::Enumerator(Some(name), _) => name.clone(),
        Value::Enumerator(None, number) => number.to_string(),
        Value::Structure(fields) => {
            let field = |one: &Field| format!("{}={}", one.name, text(&one.value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

/// The recorded bytes of a text. A character that was cut in two isn't shown.
fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default())
        }
        _ => String::from_utf8_lossy(bytes),
    }
}

fn escaped(one: char, quote: char) -> String {
    match one {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        '\\' => "\\\\".to_owned(),
        _ if one == quote => format!("\\{quote}"),
        _ if one.is_control() => format!("\\{:o}", u32::from(one)),
        _ => one.to_string(),
    }
}

/// The arguments of a call as a JSON array: an object each, with its name.
pub(super) fn arguments_json(all: &[Named]) -> String {
    let one = |named: &Named| {
        format!("{{\"name\":{},{}}}", json_string(&named.name), members(&named.value))
    };
    let all: Vec<String> = all.iter().map(one).collect();
    format!("[{}]", all.join(","))
}

/// A result as a JSON object.
pub(super) fn result_json(value: &Value) -> String {
    format!("{{{}}}", members(value))
}

/// The JSON of a value.
fn members(value: &Value) -> String {
    let mut members = format!("\"value\":{}", json(value));
    let _ = match value {
        Value::Missing => write!(members, ",\"missing\":true"),
        Value::Enumerator(Some(_), number) => write!(members, ",\"number\":{number}"),
        Value::Text { address, is_cut, is_bad, .. } => {
            let cut = if *is_cut { ",\"cut\":true" } else { "" };
            let bad = if *is_bad { ",\"unreadable\":true" } else { "" };
            write!(members, ",\"address\":\"{address:#x}\"{cut}{bad}")
        }
        _ => Ok(()),
    };
    members
}

/// A value as JSON.
pub(super) fn json(value: &Value) -> String {
    match value {
        Value::Signed(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Character(value) => {
            let one = char::from_u32(*value).unwrap_or(char::REPLACEMENT_CHARACTER);
            json_string(one.encode_utf8(&mut [0; 4]))
        }
        Value::Float(value) if value.is_finite() => format!("{value:?}"),
        Value::Single(value) if value.is_finite() => format!("{value:?}"),
        // JSON has no numbers for these.
        Value::Float(value) => format!("\"{value:?}\""),
        Value::Single(value) => format!("\"{value:?}\""),
        Value::Pointer(address) => format!("\"{address:#x}\""),
        Value::Missing | Value::Text { address: 0, .. } => "null".to_owned(),
        Value::Text { bytes, is_bad: true, .. } if bytes.is_empty() => "null".to_owned(),
        Value::Text { bytes, .. } => json_string(&lossy(bytes)),
        Value::Enumerator(Some(name), _) => json_string(name),
        Value::Enumerator(None, number) => number.to_string(),
        Value::Structure(fields) => {
            let field = |one: &Field| format!("{}:{}", json_string(&one.name), json(&one.value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}
