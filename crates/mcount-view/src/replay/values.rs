//! Arguments and results as they're printed: as in C for people, and as JSON.

use super::{json_string, printable};
use crate::words::grouped;
use mcount_trace::{Call, Field, MORE, Named, Trace, Value, Values};
use std::collections::HashMap;
use std::fmt::Write;

/// A thread that woke another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waker {
    /// Its place in the trace.
    pub(crate) thread: usize,
    /// How many nanoseconds later the other one was on a processor.
    pub(crate) late: u64,
}

/// The arguments and results that a trace has, for calls in the order of starts.
pub(crate) struct Recorded<'t>(Option<Values<'t>>, Threads, Vec<String>);

/// The places of threads in a trace, by the numbers of process and thread. Of several, the last one counts.
type Threads = HashMap<(u64, u64), usize>;

impl<'t> Recorded<'t> {
    pub(crate) fn of(trace: &'t Trace<'_>) -> Self {
        let values = trace.has_values().then(|| trace.values());
        let threads = trace.threads.iter().enumerate().filter(|_| values.is_some());
        let threads = threads.map(|(at, one)| ((one.pid.into(), one.tid.into()), at)).collect();
        let counters = values.as_ref().map(Values::counters).unwrap_or_default();
        Self(values, threads, counters)
    }

    /// The arguments of a call, if they were recorded.
    pub(crate) fn arguments(&mut self, call: &Call) -> Option<Vec<Named>> {
        self.0.as_mut()?.arguments(call)
    }

    /// What was counted in a call, with the names of counters, if anything was. It's asked for after the arguments of the call.
    pub(super) fn counted(&mut self, call: &Call) -> Option<Vec<(&str, Option<u64>)>> {
        let Self(values, _, names) = self;
        let values = values.as_mut().filter(|_| !names.is_empty())?;
        let counted = values.counted(call)?;
        Some(names.iter().map(String::as_str).zip(counted).collect())
    }

    /// The same without what isn't known, as text.
    pub(super) fn known_counts(&mut self, call: &Call) -> Vec<(String, String)> {
        let all = self.counted(call).into_iter().flatten();
        all.filter_map(|(name, counted)| Some((name.to_owned(), counted?.to_string()))).collect()
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
        let shown = |all: &[Named]| if self.is_event(call) { fields(all) } else { arguments(all) };
        Some(values.map_or_else(|| mark.clone(), |all| format!("{mark}({})", shown(all))))
    }

    /// Is the call an event of the system, whose fields have names?
    pub(super) fn is_event(&self, call: &Call) -> bool {
        self.0.as_ref().is_some_and(|values| values.is_event(call.function))
    }

    /// Is the call a marker that says its name?
    pub(super) fn is_named_mark(&self, call: &Call) -> bool {
        self.0.as_ref().is_some_and(|values| values.is_named_mark(call.function))
    }

    /// Is the call a marker?
    pub(crate) fn is_mark(&self, call: &Call) -> bool {
        self.0.as_ref().is_some_and(|values| values.is_mark(call.function))
    }

    /// What woke the thread, if the call is a time off the processor and a thread of the trace did.
    pub(crate) fn waker(&mut self, call: &Call) -> Option<Waker> {
        if !self.0.as_ref()?.is_wait(call.function) {
            return None;
        }
        let arguments = self.arguments(call)?;
        let Some(Value::Structure(fields)) = arguments.first().map(|one| &one.value) else {
            return None;
        };
        let field = |name: &str| match fields.iter().find(|field| field.name == name)?.value {
            Value::Unsigned(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let (process, thread, late) = (field("process")?, field("thread")?, field("late_ns")?);
        let thread = *self.1.get(&(process, thread))?;
        Some(Waker { thread, late })
    }

    /// The result of a call, if it was recorded. Calls can be in any order.
    pub(super) fn result(&self, call: &Call) -> Option<Value> {
        self.0.as_ref()?.result(call)
    }
}

/// What was counted in a call, as text; empty if nothing was.
pub(super) fn counters(counted: Option<Vec<(&str, Option<u64>)>>) -> String {
    let known = counted.unwrap_or_default().into_iter();
    let known = known
        .filter_map(|(name, number)| Some(format!("{} {}", grouped(number?), printable(name))));
    let all: Vec<String> = known.collect();
    if all.is_empty() { String::new() } else { format!(" /* {} */", all.join(", ")) }
}

/// The same as JSON.
pub(super) fn counters_json(counted: &[(&str, Option<u64>)]) -> String {
    let number =
        |number: &Option<u64>| number.map_or_else(|| "null".to_owned(), |one| one.to_string());
    let one = |(name, counted): &(&str, Option<u64>)| {
        format!("{}:{}", json_string(name), number(counted))
    };
    format!("{{{}}}", counted.iter().map(one).collect::<Vec<_>>().join(","))
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
        Value::Pointer(address) | Value::Text { address, .. } | Value::Leads { address, .. } => {
            *address == 0 || *address >= GREATEST.wrapping_neg()
        }
        Value::Float(value) => *value < 0.0,
        Value::Single(value) => *value < 0.0,
        Value::Missing
        | Value::Boolean(_)
        | Value::Character(_)
        | Value::Structure(_)
        | Value::List { .. }
        | Value::Characters { .. }
        | Value::Case(..) => false,
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

/// The same with their names.
pub(super) fn named(all: &[Named]) -> String {
    let one = |one: &Named| match one.name.as_str() {
        "" => text(&one.value),
        name => format!("{name}={}", text(&one.value)),
    };
    let all: Vec<String> = all.iter().map(one).collect();
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
        Value::Pointer(0) | Value::Text { address: 0, .. } | Value::Leads { address: 0, .. } => {
            "NULL".to_owned()
        }
        Value::Leads { to: Some(to), .. } => format!("&{}", text(to)),
        Value::Pointer(address) | Value::Leads { address, is_bad: false, .. } => {
            format!("{address:#x}")
        }
        Value::Leads { address, .. } => format!("{address:#x} {UNREADABLE}"),
        Value::Text { address, bytes, is_bad: true, .. } if bytes.is_empty() => {
            format!("{address:#x} {UNREADABLE}")
        }
        Value::Text { bytes, is_bad: true, .. } => format!("{} {UNREADABLE}", quoted(bytes, false)),
        Value::Text { bytes, is_cut, .. } | Value::Characters { bytes, is_cut } => {
            quoted(bytes, *is_cut)
        }
        Value::Enumerator(Some(name), _) | Value::Case(name, None) => name.clone(),
        Value::Enumerator(None, number) => number.to_string(),
        Value::Structure(all) => format!("{{{}}}", fields(all)),
        Value::List { elements, count, is_bad, is_map } => {
            list((elements, *count), *is_bad, *is_map)
        }
        Value::Case(name, Some(with)) => match with.as_ref() {
            Value::Structure(all) if all.is_empty() => name.clone(),
            Value::Structure(all) if are_numbered(all) => {
                let all: Vec<String> = all.iter().map(|one| text(&one.value)).collect();
                format!("{name}({})", all.join(", "))
            }
            Value::Structure(all) => format!("{name}{{{}}}", fields(all)),
            with => format!("{name}({})", text(with)),
        },
    }
}

/// The mark for memory that could not be read.
const UNREADABLE: &str = "/* unreadable */";

fn quoted(bytes: &[u8], is_cut: bool) -> String {
    let inner: String = lossy(bytes).chars().map(|one| escaped(one, '"')).collect();
    format!("\"{inner}\"{}", if is_cut { MORE } else { "" })
}

/// The fields of a structure.
fn fields(all: &[Field]) -> String {
    let field = |one: &Field| match one.name.as_str() {
        MORE => MORE.to_owned(),
        "" => text(&one.value),
        name => format!("{name}={}", text(&one.value)),
    };
    let all: Vec<String> = all.iter().map(field).collect();
    all.join(", ")
}

/// Have they numbers instead of names, as the fields of tuples have in Rust?
fn are_numbered(all: &[Field]) -> bool {
    all.iter().all(|one| one.name.starts_with("__"))
}

/// The elements of a list, and how many more it has.
fn list((elements, count): (&[Value], u64), is_bad: bool, is_map: bool) -> String {
    let pair = |one: &Value| match one {
        Value::Structure(all) if is_map => {
            let all: Vec<String> = all.iter().map(|one| text(&one.value)).collect();
            all.join(": ")
        }
        one => text(one),
    };
    let mut all: Vec<String> = elements.iter().map(pair).collect();
    let missing = count.saturating_sub(elements.len() as u64);
    if missing != 0 {
        all.push(format!("{MORE} {missing} more"));
    }
    let all = all.join(", ");
    let bad = match is_bad {
        true if all.is_empty() => UNREADABLE.to_owned(),
        true => format!(" {UNREADABLE}"),
        false => String::new(),
    };
    if is_map { format!("{{{all}{bad}}}") } else { format!("[{all}{bad}]") }
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
        // `-2`, not 2^64 - 2, which readers with numbers of 53 bits don't know.
        Value::Enumerator(Some(_), number) => {
            write!(members, ",\"number\":{}", number.cast_signed())
        }
        Value::Text { address, is_cut, is_bad, .. } => {
            let cut = if *is_cut { ",\"cut\":true" } else { "" };
            let bad = if *is_bad { ",\"unreadable\":true" } else { "" };
            write!(members, ",\"address\":\"{address:#x}\"{cut}{bad}")
        }
        value => write_more(&mut members, value),
    };
    members
}

/// Adds the other members of a value that has values in it.
fn write_more(members: &mut String, value: &Value) -> std::fmt::Result {
    match value {
        Value::Leads { address, .. } => write!(members, ",\"address\":\"{address:#x}\"")?,
        Value::List { elements, count, .. } if *count != elements.len() as u64 => {
            write!(members, ",\"count\":{count}")?;
        }
        _ => {}
    }
    if is_anywhere(value, &is_cut) {
        write!(members, ",\"cut\":true")?;
    }
    if is_anywhere(value, &is_unreadable) {
        write!(members, ",\"unreadable\":true")?;
    }
    Ok(())
}

fn is_cut(value: &Value) -> bool {
    match value {
        Value::Text { is_cut, .. } | Value::Characters { is_cut, .. } => *is_cut,
        Value::List { elements, count, .. } => *count != elements.len() as u64,
        Value::Structure(fields) => fields.last().is_some_and(|field| field.name == MORE),
        _ => false,
    }
}

fn is_unreadable(value: &Value) -> bool {
    match value {
        Value::Text { is_bad, .. } | Value::Leads { is_bad, .. } | Value::List { is_bad, .. } => {
            *is_bad
        }
        _ => false,
    }
}

/// Does it hold for a value, or for one in it?
fn is_anywhere(value: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    let has = |value: &Value| is_anywhere(value, holds);
    holds(value)
        || match value {
            Value::Structure(fields) => fields.iter().any(|field| has(&field.value)),
            Value::Leads { to, .. } | Value::Case(_, to) => to.as_deref().is_some_and(has),
            Value::List { elements, .. } => elements.iter().any(has),
            _ => false,
        }
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
        Value::Missing
        | Value::Text { address: 0, .. }
        | Value::Leads { address: 0, .. }
        | Value::Leads { is_bad: true, .. } => "null".to_owned(),
        // As for a text, its address is said beside it.
        Value::Leads { to: Some(to), .. } => json(to),
        Value::Pointer(address) | Value::Leads { address, .. } => {
            format!("\"{address:#x}\"")
        }
        Value::Text { bytes, is_bad: true, .. } if bytes.is_empty() => "null".to_owned(),
        Value::Text { bytes, .. } | Value::Characters { bytes, .. } => json_string(&lossy(bytes)),
        Value::List { elements, .. } => {
            let elements: Vec<String> = elements.iter().map(json).collect();
            format!("[{}]", elements.join(","))
        }
        Value::Case(name, None) if name == "nullopt" || name == "None" => "null".to_owned(),
        Value::Case(name, Some(with)) => {
            let inner = match with.as_ref() {
                Value::Structure(all) if are_numbered(all) && all.len() == 1 => {
                    all.first().map_or_else(String::new, |one| json(&one.value))
                }
                Value::Structure(all) if are_numbered(all) => {
                    let all: Vec<String> = all.iter().map(|one| json(&one.value)).collect();
                    format!("[{}]", all.join(","))
                }
                with => json(with),
            };
            format!("{{{}:{inner}}}", json_string(name))
        }
        Value::Enumerator(Some(name), _) | Value::Case(name, None) => json_string(name),
        Value::Enumerator(None, number) => number.to_string(),
        Value::Structure(fields) => {
            let field = |one: &Field| format!("{}:{}", json_string(&one.name), json(&one.value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}
