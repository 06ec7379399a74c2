//! Comparing samples of two builds, as `mcount sample` writes them. Each says how far the truth may be from its estimates, so one of
//! each side is enough.
//!
//! Both sides are independent, so the square of a difference's interval is the sum of the squares of theirs. Intervals are for one function in
//! twenty to be missed; here they're widened to the odds that many functions ask for.

use super::measure::module_name;
use super::statistics::{equal_odds, limit, median};
use super::{By, Change, Comparison, Key, Kind, Row, Rule, finish};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The odds that an interval of a sample lacks the truth.
const ODDS: f64 = 0.05;

/// No rate, no time in nanoseconds and no number of seconds is that great.
const MOST: f64 = 1e20;

/// How many windows what has an interval has at least, less one, and how many make no difference.
const FREEDOM: [u64; 2] = [11, 200];

/// A number, and how far the truth may be from it, if that's known.
#[derive(Debug, Clone, Copy, Default)]
struct Estimate {
    value: f64,
    error: Option<f64>,
}

/// A function in a sample.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Calls in a second.
    rate: Estimate,
    /// Nanoseconds of a call.
    time: Estimate,
    windows: u64,
}

/// A sample: its functions, and for how many seconds there were windows.
#[derive(Debug, Default)]
pub struct Sampled {
    seconds: f64,
    functions: HashMap<Key, Known>,
    /// Functions of which it says nothing, as hooks of theirs would have cost too much.
    left_out: HashSet<Key>,
}

impl Sampled {
    /// Of functions with rates and times as they are in a file, and how many windows had calls.
    #[cfg(test)]
    pub(crate) fn of(
        seconds: f64,
        rows: impl Iterator<Item = (String, [(f64, Option<f64>); 2], u64)>,
    ) -> Self {
        let known = |(name, estimates, windows): (String, [(f64, Option<f64>); 2], u64)| {
            let [rate, time] = estimates.map(|(value, error)| Estimate { value, error });
            (Key { name, module: String::new() }, Known { rate, time, windows })
        };
        Self { seconds, functions: rows.map(known).collect(), left_out: HashSet::new() }
    }
}

/// Is this what `mcount sample` writes?
#[must_use]
pub fn is_sample(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    first.starts_with(b"{")
        && serde_json::from_slice::<Value>(first)
            .is_ok_and(|line| line.get("calls_per_second").is_some())
}

/// The samples in a file, of which there may be several one after the other.
///
/// # Errors
///
/// A line isn't what `mcount sample` writes.
pub fn samples(bytes: &[u8]) -> Result<Vec<Sampled>, String> {
    let mut found: Vec<(String, Sampled)> = Vec::new();
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let wrong = |what: &str| format!("line {}: {what}", at + 1);
        let line: Value = serde_json::from_slice(line).map_err(|_| wrong("isn't JSON"))?;
        let key = key(&line).ok_or_else(|| wrong(OTHER))?;
        let name = format!("{:?} {:?}", line.get("start"), line.get("process"));
        if found.last().is_none_or(|(last, _)| *last != name) {
            found.push((name, Sampled::default()));
        }
        let Some((_, sampled)) = found.last_mut() else { continue };
        sampled.seconds = number(&line, "seconds").ok_or_else(|| wrong("has no seconds"))?;
        if is_left_out(&line) {
            sampled.left_out.insert(key);
            continue;
        }
        let known = known(&line).ok_or_else(|| wrong(OTHER))?;
        let place = sampled.functions.entry(key).or_default();
        // Static functions of several files may have one name.
        *place = sum(&[(1.0, *place), (1.0, known)], 1.0);
    }
    Ok(found.into_iter().map(|(_, sampled)| sampled).collect())
}

fn number(line: &Value, name: &str) -> Option<f64> {
    line.get(name)?.as_f64().filter(|number| (0.0..MOST).contains(number))
}

/// Does this line only say that its function was left out of the sample? Nothing is known of its calls.
#[must_use]
pub fn is_left_out(line: &Value) -> bool {
    line.get("left_out").and_then(Value::as_bool).unwrap_or(false)
}

/// What a line isn't that lacks something.
const OTHER: &str = "isn't a function of mcount sample";

/// The function of a line.
fn key(line: &Value) -> Option<Key> {
    let text = |name: &str| line.get(name)?.as_str();
    let (program, path) = (text("program")?, text("module")?);
    let module = if path == program { String::new() } else { module_name(path.as_bytes()) };
    Some(Key { name: text("function")?.to_owned(), module })
}

/// What a line says of it.
fn known(line: &Value) -> Option<Known> {
    let estimate = |name: &str| {
        let error = number(line, &format!("{name}_error"));
        Some(Estimate { value: number(line, name)?, error })
    };
    Some(Known {
        rate: estimate("calls_per_second")?,
        time: estimate("mean_ns")?,
        windows: line.get("windows")?.as_u64()?,
    })
}

/// Several of one function, each for so many seconds: rates for `seconds` together, and times of a call.
fn sum(each: &[(f64, Known)], seconds: f64) -> Known {
    let each = each.iter().filter(|(_, known)| known.rate.value > 0.0);
    let mut all = Known::default();
    let (mut calls, mut time) = (0.0, 0.0);
    let mut errors = [Some(0.0_f64); 2];
    for (part, known) in each {
        let own = part * known.rate.value;
        calls += own;
        time += own * known.time.value;
        let parts = [(part, known.rate.error), (&own, known.time.error)];
        for (sum, (part, error)) in errors.iter_mut().zip(parts) {
            *sum = sum.zip(error).map(|(sum, error)| sum.hypot(part * error));
        }
        all.windows += known.windows;
    }
    let estimate = |value: f64, error: Option<f64>, by: f64| {
        let by = by.max(f64::MIN_POSITIVE);
        Estimate { value: value / by, error: error.map(|error| error / by) }
    };
    let [rate, mean] = errors;
    Known { rate: estimate(calls, rate, seconds), time: estimate(time, mean, calls), ..all }
}

/// The samples of a side that say something of a function, if only that it had no calls.
fn saying<'s>(samples: &'s [Sampled], key: &Key) -> impl Iterator<Item = &'s Sampled> + Clone {
    samples.iter().filter(|sample| !sample.left_out.contains(key))
}

/// What a side's samples say of a function together.
fn side(samples: &[Sampled], key: &Key) -> Option<Known> {
    let samples = saying(samples, key);
    let seconds = samples.clone().map(|sample| sample.seconds).sum();
    let each = samples.filter_map(|one| Some((one.seconds, *one.functions.get(key)?)));
    let each: Vec<(f64, Known)> = each.collect();
    (!each.is_empty()).then(|| sum(&each, seconds))
}

/// Compares two sides, each with at least one sample.
#[must_use]
pub fn compare_samples(old: &[Sampled], new: &[Sampled], rule: &Rule) -> Comparison {
    let all = || old.iter().chain(new);
    let is_known = |key: &Key| [old, new].iter().all(|side| saying(side, key).next().is_some());
    let keys: BTreeSet<&Key> =
        all().flat_map(|sample| sample.functions.keys()).filter(|key| is_known(key)).collect();
    let left_out: BTreeSet<&Key> =
        all().flat_map(|sample| &sample.left_out).filter(|key| !is_known(key)).collect();
    let left_out = left_out.len();
    let has_times = rule.by != By::Calls;
    let odds = equal_odds(keys.len() * if has_times { 2 } else { 1 });
    let rows = keys.into_iter().map(|key| {
        let sides = [side(old, key), side(new, key)];
        let wide = wider(odds, sides.into_iter().flatten().map(|known| known.windows).min());
        let [before, after] = sides.map(|known| known.map(|known| known.rate));
        let calls = change(before, after, wide, rule);
        let times = sides.map(|known| known.map(|known| known.time));
        let time = match times {
            [Some(before), Some(after)] if has_times => {
                Some(change(Some(before), Some(after), wide, rule))
            }
            _ => None,
        };
        let shown = time.map(|change| [change.old, change.new]);
        Row { key: key.clone(), calls, time, shown }
    });
    let rows: Vec<Row> = rows.collect();
    let noise: Vec<f64> = rows.iter().filter_map(|row| row.time?.noise).collect();
    let noise = (!noise.is_empty()).then(|| median(&noise));
    let kind = Kind::Samples;
    finish(
        Comparison {
            traces: [old.len(), new.len()],
            rows,
            noise,
            kind,
            left_out,
            ..Comparison::default()
        },
        rule,
    )
}

/// How many times as wide an interval has to be that's for one function in twenty to be missed.
fn wider(odds: f64, windows: Option<u64>) -> f64 {
    let [least, most] = FREEDOM;
    let freedom = windows.unwrap_or(0).saturating_sub(1).clamp(least, most);
    let freedom = usize::try_from(freedom).unwrap_or(usize::MAX);
    limit(odds, freedom) / limit(ODDS, freedom)
}

/// A number of both sides. What is missing wasn't seen, and might have been as well as what the other side has.
fn change(old: Option<Estimate>, new: Option<Estimate>, wide: f64, rule: &Rule) -> Change {
    let missing =
        |other: Option<Estimate>| Estimate { value: 0.0, error: other.and_then(|one| one.error) };
    let (old, new) = (old.unwrap_or_else(|| missing(new)), new.unwrap_or_else(|| missing(old)));
    let part = |number: f64| if old.value > 0.0 { number / old.value } else { f64::INFINITY };
    let noise = old.error.zip(new.error).map(|(old, new)| wide * old.hypot(new));
    let difference = new.value - old.value;
    Change {
        old: old.value,
        new: new.value,
        difference: part(difference),
        noise: noise.map(part).filter(|noise| noise.is_finite()),
        counts: noise.is_some_and(|noise| difference.abs() > noise)
            && part(difference).abs() > rule.threshold,
        share: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(function: &str, start: f64, [rate, rate_error, time, time_error]: [f64; 4]) -> String {
        let line = json!({
            "start": start, "seconds": 10.0, "program": "/p", "process": 7, "module": "/p",
            "function": function, "windows": 100, "calls_per_second": rate,
            "calls_per_second_error": rate_error, "mean_ns": time, "mean_ns_error": time_error,
        });
        format!("{line}\n")
    }

    fn rule(by: By) -> Rule {
        Rule { by, threshold: 0.03, only_worse: false, has_all: true }
    }

    fn words(old: &str, new: &str, by: By) -> Vec<(String, Vec<&'static str>)> {
        let read = |text: &str| samples(text.as_bytes()).unwrap();
        let compared = compare_samples(&read(old), &read(new), &rule(by));
        let mut rows: Vec<_> =
            compared.rows.iter().map(|row| (row.key.name.clone(), row.words())).collect();
        rows.sort();
        rows
    }

    #[test]
    fn what_intervals_allow_is_no_difference() {
        let old = line("f", 1.0, [1000.0, 50.0, 200.0, 10.0]);
        let rows: [([f64; 4], &[&str]); 6] = [
            ([1000.0, 50.0, 200.0, 10.0], &[]),
            ([1090.0, 50.0, 215.0, 10.0], &[]),
            ([1200.0, 50.0, 200.0, 10.0], &["more-calls"]),
            ([1000.0, 50.0, 240.0, 10.0], &["slower"]),
            ([1000.0, 50.0, 240.0, 60.0], &[]),
            ([800.0, 50.0, 160.0, 10.0], &["faster", "fewer-calls"]),
        ];
        for (numbers, expected) in rows {
            let new = line("f", 2.0, numbers);
            assert_eq!(words(&old, &new, By::Own), [("f".to_owned(), expected.to_vec())]);
        }
        let many: String =
            (0..3000).map(|at| line(&at.to_string(), 1.0, [10.0, 1.0, 9.0, 1.0])).collect();
        // One of many functions may be that far away by chance.
        let new = many.replacen("\"mean_ns\":9.0", "\"mean_ns\":12.0", 1);
        assert!(words(&many, &new, By::Total).iter().all(|(_, words)| words.is_empty()));
    }

    #[test]
    fn functions_come_and_go() {
        let one = line("f", 1.0, [1000.0, 50.0, 200.0, 10.0]);
        let two = one.clone() + &line("g", 1.0, [1000.0, 50.0, 200.0, 10.0]);
        assert_eq!(words(&one, &two, By::Calls).pop().unwrap(), ("g".to_owned(), vec!["new"]));
        assert_eq!(words(&two, &one, By::Calls).pop().unwrap(), ("g".to_owned(), vec!["gone"]));
        let rare = one.clone() + &line("g", 1.0, [1.0, 0.9, 200.0, 10.0]);
        assert_eq!(words(&rare, &one, By::Calls).pop().unwrap(), ("g".to_owned(), vec![]));
    }

    /// A function that was left out may have been called as often as ever.
    #[test]
    fn what_was_left_out_is_not_gone() {
        let one = line("f", 1.0, [1000.0, 50.0, 200.0, 10.0]);
        let two = one.clone() + &line("g", 1.0, [1000.0, 50.0, 200.0, 10.0]);
        let line_of_g = json!({
            "start": 1.0, "seconds": 10.0, "program": "/p", "process": 7, "module": "/p",
            "function": "g", "left_out": true, "calls_per_second": null,
        });
        let without = format!("{one}{line_of_g}\n");
        for (old, new) in [(&two, &without), (&without, &two), (&without, &without)] {
            let read = |text: &str| samples(text.as_bytes()).unwrap();
            let compared = compare_samples(&read(old), &read(new), &rule(By::Calls));
            let names: Vec<&str> = compared.rows.iter().map(|row| row.key.name.as_str()).collect();
            assert_eq!((names, compared.left_out), (vec!["f"], 1));
        }
        // Another sample of that side has it.
        let other = two.replace("\"start\":1.0", "\"start\":5.0");
        let read = samples(format!("{without}{other}").as_bytes()).unwrap();
        let compared = compare_samples(&read, &samples(two.as_bytes()).unwrap(), &rule(By::Calls));
        assert_eq!((compared.rows.len(), compared.left_out, compared.differences), (2, 0, 0));
        assert!(is_sample(format!("{line_of_g}\n").as_bytes()));
    }

    /// Periods of one program, one after the other: rates are means, and intervals get narrower.
    #[test]
    fn periods_add_up() {
        let hours: String = (0..4)
            .map(|hour| line("f", f64::from(hour), [f64::from(hour) * 100.0, 40.0, 50.0, 4.0]))
            .collect();
        let read = samples(hours.as_bytes()).unwrap();
        assert_eq!(read.len(), 4);
        let key = Key { name: "f".to_owned(), module: String::new() };
        let known = side(&read, &key).unwrap();
        // The hour without calls has no time of a call.
        assert!((known.rate.value - 150.0).abs() < 1e-9 && (known.time.value - 50.0).abs() < 1e-9);
        assert!((known.rate.error.unwrap() - 40.0 * 3.0_f64.sqrt() / 4.0).abs() < 1e-9);
        let twice = samples(
            (line("f", 1.0, [5.0, 3.0, 7.0, 1.0]) + &line("f", 1.0, [5.0, 4.0, 9.0, 1.0]))
                .as_bytes(),
        );
        let twice = side(&twice.unwrap(), &key).unwrap();
        assert!((twice.rate.value - 10.0).abs() < 1e-9 && (twice.time.value - 8.0).abs() < 1e-9);
        assert!((twice.rate.error.unwrap() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn other_lines_are_refused() {
        assert!(is_sample(line("f", 1.0, [1.0; 4]).as_bytes()));
        for other in ["", "\u{7f}ELF", "{", "{}", "[]", "{\"function\":\"f\"}"] {
            assert!(!is_sample(other.as_bytes()), "{other}");
        }
        let good = line("f", 1.0, [1.0; 4]);
        let rows = [
            (format!("{good}x\n"), "line 2: isn't JSON"),
            (format!("{good}\n{{}}\n"), "line 3: isn't a function of mcount sample"),
            (good.replace("\"seconds\"", "\"s\""), "line 1: has no seconds"),
            (
                good.replace("\"windows\":100", "\"windows\":-1"),
                "line 1: isn't a function of mcount sample",
            ),
            (
                good.replace("\"mean_ns\":1.0", "\"mean_ns\":-1.0"),
                "line 1: isn't a function of mcount sample",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(samples(text.as_bytes()).map(|found| found.len()), Err(expected.to_owned()));
        }
    }
}
