//! Which calls are recorded, and what of them: options that `mcount trace` and `mcount attach` have in common.

use super::options::number;
use crate::pattern::{Language, Pattern};
use crate::replay::parse_time;
use crate::trace::{FileGlob, GivenSignature, Limit, Reach, Scope, Size, Switches};
use crate::words::size;
use clap::{Args, ValueEnum};
use mcount_trace::condition::Condition;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "options of the command line")]
pub(super) struct CallsArgs {
    /// Trace only these functions
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    filter: Vec<String>,
    /// Trace only functions of these source files, by debug information: a glob of paths, or of names such
    /// as 'parse*.c'
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    file: Vec<String>,
    /// Trace only functions of this many bytes of code or more: 64, 1K
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Which calls")]
    min_function_size: Option<u64>,
    /// Trace only functions of this many bytes of code or fewer
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Which calls")]
    max_function_size: Option<u64>,
    /// Trace these functions even if they were compiled without hooks; '*@libssl*': all those of a library
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    probe: Vec<String>,
    /// Record these markers of <sys/sdt.h> (USDT) and their arguments, on x86-64: 'python:function__*' or
    /// 'libstdcxx:throw@libstdc*'
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    mark: Vec<String>,
    /// Leave these functions out
    #[arg(short, long, value_name = "PATTERN", help_heading = "Which calls")]
    exclude: Vec<String>,
    /// Trace calls of these functions, too, where they leave the program or a module with hooks (PLT, GOT).
    /// NAME@MODULE is where they are
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    library_calls: Vec<String>,
    /// Trace only these functions and what they call
    #[arg(long, value_name = "PATTERN", value_parser = ordered, help_heading = "Which calls")]
    only_under: Vec<Ordered>,
    /// Leave out these functions and what they call. Of several that match, here or in --only-under, the
    /// last one counts
    #[arg(long, value_name = "PATTERN", value_parser = ordered, help_heading = "Which calls")]
    not_under: Vec<Ordered>,
    /// Record nothing until one of these functions is called
    #[arg(long, value_name = "PATTERN", help_heading = "Which calls")]
    start_at: Vec<String>,
    /// Stop after a call of one of these functions, until one of --start-at; with --ring, the trace has what happened
    /// before
    #[arg(
        long,
        value_name = "PATTERN",
        visible_alias = "snapshot-at",
        help_heading = "Which calls"
    )]
    stop_at: Vec<String>,
    /// Patterns are regular expressions, found anywhere in a name
    #[arg(long, help_heading = "Which calls")]
    regex: bool,
    /// Trace calls with fewer than N callers, from --only-under on
    #[arg(long, value_name = "N", value_parser = depth, help_heading = "Which calls")]
    depth: Option<u64>,
    /// Trace calls that took this long, such as 10us or 0.5s
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Which calls")]
    min_duration: Option<u64>,
    /// Record the arguments of these functions. Without debug information, say what they are: 'SSL_write(p, s, i32)
    /// -> i32'; i8 to i64, u8 to u64, f32, f64, bool, c (character), s (C string), p (pointer), _ (nothing)
    #[arg(long, value_name = "PATTERN", help_heading = "What is recorded")]
    args: Vec<String>,
    /// Record the results of these functions
    #[arg(long, value_name = "PATTERN", help_heading = "What is recorded")]
    results: Vec<String>,
    /// Follow N pointers, one in the other [default: 1]
    #[arg(long, value_name = "N", value_parser = reach_depth, help_heading = "What is recorded")]
    args_depth: Option<u32>,
    /// Record this much of each text, list and structure [default: 64]
    #[arg(long, value_name = "BYTES", value_parser = reach_size, help_heading = "What is recorded")]
    args_size: Option<u8>,
    /// Of the functions of --args and --results, record only calls for which this holds, such as 'size > 4096',
    /// 'result < 0' or 'name == "x"'
    #[arg(
        long = "if",
        value_name = "CONDITION",
        allow_hyphen_values = true,
        help_heading = "What is recorded"
    )]
    conditions: Vec<String>,
    /// Record entries only (and --args): faster, leaves return addresses alone
    #[arg(
        long,
        help_heading = "What is recorded",
        conflicts_with_all = [
            "only_under", "not_under", "depth", "min_duration", "results", "start_at", "stop_at"
        ]
    )]
    entries: bool,
    /// Record time off the CPU even if it costs over 2 %; warn if forbidden
    #[arg(long, help_heading = "What is recorded", conflicts_with = "entries")]
    context_switches: bool,
    /// Record system calls; the program needs no hooks
    #[arg(long, help_heading = "What is recorded", conflicts_with = "entries")]
    system_calls: bool,
    /// Record these kernel functions, and system calls; '!PATTERN' excludes some
    #[arg(
        long,
        value_name = "PATTERN",
        help_heading = "What is recorded",
        conflicts_with = "entries"
    )]
    kernel: Vec<String>,
    /// Record --kernel's functions with fewer than N callers that are recorded
    #[arg(
        long,
        value_name = "N",
        value_parser = depth,
        requires = "kernel",
        help_heading = "What is recorded"
    )]
    kernel_depth: Option<u64>,
    /// Record events of the kernel: tracepoints such as 'sched:*', page-faults
    #[arg(
        long,
        value_name = "PATTERN",
        help_heading = "What is recorded",
        conflicts_with = "entries"
    )]
    events: Vec<String>,
    /// No library calls that wait (locks, sleep, read), and no time off the CPU
    #[arg(long, help_heading = "What is recorded")]
    plain: bool,
    /// Limit tracing to this share of the program's CPU time, such as 2%: mcount gives up functions that are
    /// called too often, and names them
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = budget,
        help_heading = "What is recorded",
        conflicts_with_all = ["only_under", "not_under", "depth", "min_duration"]
    )]
    pub(super) budget: Option<f64>,
    /// The processor's time-stamp counter; or none, which records order and counts, and is faster
    #[arg(long, value_enum, default_value = "tsc", help_heading = "What is recorded")]
    clock: Clock,
    /// Keep only the newest calls, in this many bytes
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "What is recorded")]
    ring: Option<u64>,
    /// Stop recording when the trace has this many bytes
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = size,
        conflicts_with = "ring",
        help_heading = "What is recorded"
    )]
    max_size: Option<u64>,
}

/// The source of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Clock {
    /// The time-stamp counter.
    Tsc,
    /// None.
    None,
}

/// Whose arguments and results are recorded, and what they are, if that's given.
struct Values {
    arguments: Vec<Pattern>,
    results: Vec<Pattern>,
    signatures: Vec<GivenSignature>,
}

/// A pattern, and how many of its kind were given before it.
#[derive(Debug, Clone)]
struct Ordered(usize, String);

/// Never fails: what's wrong with a pattern is known when the others are.
#[expect(clippy::unnecessary_wraps, reason = "clap wants a result")]
fn ordered(text: &str) -> Result<Ordered, std::convert::Infallible> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    Ok(Ordered(NEXT.fetch_add(1, Ordering::Relaxed), text.to_owned()))
}

fn depth(text: &str) -> Result<u64, String> {
    match number::<u64>(text)? {
        0 => Err("1 is the outermost call".to_owned()),
        depth => Ok(depth.min(Scope::ANY_DEPTH)),
    }
}

/// How many pointers are followed.
fn reach_depth(text: &str) -> Result<u32, String> {
    let most = Reach::DEEPEST;
    let depth = number::<u32>(text)?;
    if depth <= most { Ok(depth) } else { Err(format!("at most {most} pointers are followed")) }
}

fn reach_size(text: &str) -> Result<u8, String> {
    match u8::try_from(number::<u32>(text)?) {
        Ok(size) if size != 0 => Ok(size),
        _ => Err("not a number from 1 to 255".to_owned()),
    }
}

/// The part that `2%` says.
pub(super) fn budget(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|digits| digits.parse::<f64>().ok());
    let number = number.filter(|number| *number > 0.0 && *number <= 100.0);
    number.map(|number| number / 100.0).ok_or_else(|| "not a part such as 2% or 0.5%".to_owned())
}

impl CallsArgs {
    /// Their values.
    pub(super) fn scope(&self) -> Result<Scope, String> {
        let language = self.language();
        let with = |patterns: &[Ordered], is_recorded: bool| {
            patterns.iter().map(|pattern| (pattern.clone(), is_recorded)).collect::<Vec<_>>()
        };
        let mut limits = [with(&self.only_under, true), with(&self.not_under, false)].concat();
        limits.sort_by_key(|(Ordered(place, _), _)| *place);
        let limit = |(Ordered(_, text), is_recorded): (Ordered, bool)| {
            Pattern::new(&text, language).map(|pattern| Limit { pattern, is_recorded })
        };
        let (untimed, min_duration) = (self.clock == Clock::None, self.min_duration.unwrap_or(0));
        if untimed && min_duration != 0 {
            return Err("--min-duration needs a clock".to_owned());
        }
        let of_kernel = [
            (self.context_switches, "--context-switches"),
            (self.system_calls, "--system-calls"),
            (!self.kernel.is_empty(), "--kernel"),
            (!self.events.is_empty(), "--events"),
        ];
        if let Some((_, option)) = of_kernel.iter().find(|(is_wanted, _)| untimed && *is_wanted) {
            return Err(format!("{option} needs a clock"));
        }
        let values = self.values()?;
        let conditions = self.conditions()?;
        Ok(Scope {
            filter: Pattern::all(&self.filter, language)?,
            files: self.file.iter().map(|text| FileGlob::new(text)).collect::<Result<_, _>>()?,
            sizes: self.min_function_size.unwrap_or(0)..=self.max_function_size.unwrap_or(u64::MAX),
            probe: Pattern::all(&self.probe, language)?,
            mark: Pattern::all(&self.mark, language)?,
            exclude: Pattern::all(&self.exclude, language)?,
            start_at: Pattern::all(&self.start_at, language)?,
            stop_at: Pattern::all(&self.stop_at, language)?,
            arguments: values.arguments,
            results: values.results,
            signatures: values.signatures,
            reach: self.reach(),
            conditions,
            library: Pattern::all(&self.library_calls, language)?,
            limits: limits.into_iter().map(limit).collect::<Result<_, _>>()?,
            depth: self.depth.unwrap_or(Scope::ANY_DEPTH),
            min_duration,
            entries: self.entries,
            untimed,
            callers: false,
            switches: self.switches(),
            system_calls: self.system_calls || !self.kernel.is_empty(),
            kernel: self.kernel.clone(),
            kernel_depth: self.kernel_depth.and_then(|n| n.try_into().ok()).unwrap_or(u32::MAX),
            events: Pattern::all(&self.events, language)?,
            waits: !self.plain,
            ..Scope::default()
        })
    }

    /// How much is recorded of what values lead to.
    fn reach(&self) -> Reach {
        let default = Reach::default();
        Reach {
            depth: self.args_depth.unwrap_or(default.depth),
            size: self.args_size.unwrap_or(default.size),
        }
    }

    /// The conditions, if they can be decided while the program runs.
    fn conditions(&self) -> Result<Vec<Condition>, String> {
        let parse = |text: &String| Condition::parse(text).map_err(|error| error.to_string());
        let conditions: Vec<_> = self.conditions.iter().map(parse).collect::<Result<_, _>>()?;
        if !conditions.is_empty() && self.args.is_empty() && self.results.is_empty() {
            return Err("--if needs --args or --results, which say of which functions".to_owned());
        }
        for condition in &conditions {
            if condition.split()?.1.is_some() && self.entries {
                return Err(format!("--if '{}': --entries records no results", condition.text()));
            }
        }
        Ok(conditions)
    }

    /// Of which functions arguments and results are recorded.
    fn values(&self) -> Result<Values, String> {
        let language = self.language();
        let results = Pattern::all(&self.results, language)?;
        let mut values = Values { arguments: Vec::new(), results, signatures: Vec::new() };
        for text in &self.args {
            let is_pattern = language == Language::Regex;
            let given = if is_pattern { None } else { GivenSignature::parse(text)? };
            let Some(given) = given else {
                values.arguments.push(Pattern::new(text, language)?);
                continue;
            };
            values.arguments.push(given.pattern.clone());
            if given.has_result() {
                values.results.push(given.pattern.clone());
            }
            values.signatures.push(given);
        }
        Ok(values)
    }

    /// Whether it's recorded when threads are off the processor.
    fn switches(&self) -> Switches {
        let is_possible = !(self.plain || self.entries || self.clock == Clock::None);
        match (self.context_switches, is_possible) {
            (true, _) => Switches::Wanted,
            (false, true) => Switches::IfPossible,
            (false, false) => Switches::No,
        }
    }

    /// How patterns are written.
    fn language(&self) -> Language {
        if self.regex { Language::Regex } else { Language::Glob }
    }

    /// How large the trace may get, if they say.
    pub(super) fn size(&self) -> Option<Size> {
        self.ring.map(Size::Ring).or(self.max_size.map(Size::Most))
    }
}
