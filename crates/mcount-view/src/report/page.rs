//! The parts of the page: text of the template, with what was found put in.

use super::treemap::{Field, fields};
use super::{Group, Grouping, Model, Report, escape};
use crate::words::functions_have;
use mcount::{Finding, Functions, Gap, Level, Rule};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const FRAME: &str = include_str!("frame.html");
const STYLE: &str = include_str!("style.css");
const TABLE: &str = include_str!("table.js");
const TEMPLATE: &str = include_str!("template.html");
const SCRIPT: &str = include_str!("script.js");

/// Fields of a treemap that have a name of their own; the rest is one field.
const MOST_FIELDS: usize = 120;
/// Places to show of each rule.
const MOST_PLACES: usize = 100;
/// Causes to show.
const MOST_CAUSES: usize = 14;

pub(super) fn page(report: &Report<'_>, model: &Model) -> String {
    let functions = report.functions;
    let order = if functions.big_endian { "big endian" } else { "little endian" };
    let (by_source, group) = model.grouping.titles();
    let (filter, source_groups) = match model.grouping {
        Grouping::Section => ("section", &model.sections),
        _ => ("group", &model.groups),
    };
    let entries = functions.entries.len();
    let parts = [
        ("by_source", by_source.to_owned()),
        ("source_map", treemap(source_groups, filter, 1200.0, 470.0)),
        ("by_section", by_section(model)),
        ("findings", findings(report.findings)),
        ("gaps", gaps(functions)),
        ("group", group.to_owned()),
        ("group_hidden", if filter == "section" { " hidden" } else { "" }.to_owned()),
        ("place", if functions.is_image { "Address" } else { "Offset" }.to_owned()),
    ];
    let entries = counted(entries, "entry", "entries");
    let machine = format!("{}, {} bits, {order}", functions.machine, functions.bits);
    Frame {
        title: report.title,
        subject: "function tracing",
        heading: "Function tracing in",
        about: format!("{machine} · {entries} in the table · made"),
        cards: cards(report),
        content: fill(TEMPLATE, &parts),
        style: "",
        script: SCRIPT,
        data: data(functions, model),
    }
    .page()
}

/// The common parts of the page of an image and that of a trace, and their differences.
pub(super) struct Frame<'a> {
    /// The name of the file.
    pub(super) title: &'a str,
    /// The subject of the page, for its title.
    pub(super) subject: &'a str,
    /// What stands before the name of the file.
    pub(super) heading: &'a str,
    /// What stands before `by mcount` and the version.
    pub(super) about: String,
    pub(super) cards: String,
    pub(super) content: String,
    /// The additions to the common style.
    pub(super) style: &'a str,
    /// What uses `table.js`.
    pub(super) script: &'a str,
    /// The data for the script.
    pub(super) data: String,
}

impl Frame<'_> {
    pub(super) fn page(self) -> String {
        let parts = [
            ("title", escape(self.title)),
            ("subject", self.subject.to_owned()),
            ("heading", self.heading.to_owned()),
            ("about", self.about),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("cards", self.cards),
            ("content", self.content),
            ("style", format!("{STYLE}{}", self.style)),
            ("script", format!("{TABLE}{}", self.script)),
            ("data", self.data),
        ];
        fill(FRAME, &parts)
    }
}

/// The template with `parts` in the places that name them. Inserted text is not looked at again.
pub(super) fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, later) = after.split_once("}}").unwrap_or((after, ""));
        out.push_str(before);
        if let Some((_, part)) = parts.iter().find(|(known, _)| *known == name) {
            out.push_str(part);
        }
        rest = later;
    }
    out.push_str(rest);
    out
}

/// A number with a comma between thousands.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number and its noun.
pub(super) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// `part` of `whole` in per cent; of nothing, all.
#[expect(clippy::cast_precision_loss, reason = "a percentage of counts below 2^52")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 100.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// The same for people.
fn percent(part: usize, whole: usize) -> String {
    format!("{:.1} %", share(part, whole))
}

fn cards(report: &Report<'_>) -> String {
    let all = &report.functions.functions;
    let with_hook = all.iter().filter(|function| !function.sites.is_empty()).count();
    let recorded = all.iter().filter(|function| function.is_recorded()).count();
    let errors = report.findings.iter().filter(|f| f.rule.default_level() == Level::Deny).count();
    let missing = all
        .iter()
        .filter(|f| !f.sites.is_empty() && !f.is_recorded() && f.excluded.is_none())
        .count();
    let rows = [
        ("Functions", all.len(), String::new()),
        ("With a hook", with_hook, percent(with_hook, all.len())),
        ("In the table", recorded, percent(recorded, all.len())),
        ("Hook, not in the table", missing, String::new()),
        ("Without a hook", all.len() - with_hook, percent(all.len() - with_hook, all.len())),
        ("Findings", report.findings.len(), counted(errors, "error", "errors")),
    ];
    let mut out = String::new();
    for (name, count, note) in rows {
        let count = grouped(count);
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{count} <small>{note}</small></dd></div>");
    }
    out
}

/// The treemap of sections, unless the first one is that already.
fn by_section(model: &Model) -> String {
    if model.grouping == Grouping::Section {
        return String::new();
    }
    let map = treemap(&model.sections, "section", 1200.0, 150.0);
    format!("<section>\n<h2>By section</h2>\n<div class=\"map\">{map}</div>\n</section>\n")
}

/// The groups as fields of `width` times `height`, each of which leads to its functions.
fn treemap(groups: &[Group], filter: &str, width: f64, height: f64) -> String {
    let mut order: Vec<(usize, &Group)> = groups.iter().enumerate().collect();
    order.sort_by_key(|(at, group)| (std::cmp::Reverse(group.functions), *at));
    let rest = order.split_off(order.len().min(MOST_FIELDS));
    let others = Group {
        name: counted(rest.len(), "other", "others"),
        functions: rest.iter().map(|(_, group)| group.functions).sum(),
        with_hook: rest.iter().map(|(_, group)| group.with_hook).sum(),
    };
    let mut shown: Vec<(Option<usize>, &Group)> =
        order.into_iter().map(|(at, group)| (Some(at), group)).collect();
    if others.functions != 0 {
        let at = shown.partition_point(|(_, group)| group.functions >= others.functions);
        shown.insert(at, (None, &others));
    }
    #[expect(clippy::cast_precision_loss, reason = "areas need no more than 52 bits")]
    let weights: Vec<f64> = shown.iter().map(|(_, group)| group.functions as f64).collect();
    let whole = Field { x: 0.0, y: 0.0, width, height };
    let mut out = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"group\">\n");
    for ((at, group), field) in shown.iter().zip(fields(&weights, whole)) {
        draw(&mut out, group, *at, filter, field);
    }
    out.push_str("</svg>");
    out
}

/// One field, filled from above, where its name is, as far as its functions have hooks.
fn draw(out: &mut String, group: &Group, at: Option<usize>, filter: &str, field: Field) {
    let Field { x, y, width, height } = field;
    let part = share(group.with_hook, group.functions);
    let filled = height * part / 100.0;
    let name = escape(&group.name);
    let title = format!(
        "{name}: {} a hook, {part:.0} %",
        functions_have(group.with_hook, group.functions, grouped)
    );
    if let Some(at) = at {
        let _ = write!(
            out,
            "<a href=\"#functions\" data-filter=\"{filter}\" data-value=\"{at}\" \
             aria-label=\"{title}\">"
        );
    }
    let _ = write!(
        out,
        "<g><title>{title}</title><rect class=\"box\" x=\"{x:.1}\" y=\"{y:.1}\" \
         width=\"{width:.1}\" height=\"{height:.1}\"/><rect class=\"fill\" x=\"{x:.1}\" \
         y=\"{y:.1}\" width=\"{width:.1}\" height=\"{filled:.1}\"/>"
    );
    let left = x + 6.0;
    if let (Some(label), true) = (fit(&group.name, width - 10.0), height > 18.0) {
        let label = escape(&label);
        let _ = write!(out, "<text x=\"{left:.1}\" y=\"{:.1}\">{label}</text>", y + 15.0);
    }
    if width > 42.0 && height > 36.0 {
        let _ = write!(
            out,
            "<text class=\"share\" x=\"{left:.1}\" y=\"{:.1}\">{part:.0} %</text>",
            y + 31.0
        );
    }
    out.push_str(if at.is_some() { "</g></a>\n" } else { "</g>\n" });
}

/// As much of `name` as has room in `width`, its end first: that tells most; `None` if not enough.
fn fit(name: &str, width: f64) -> Option<String> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few letters")]
    let room = (width / 6.8).max(0.0) as usize;
    let length = name.chars().count();
    if length <= room {
        return Some(name.to_owned());
    }
    let tail = name.rsplit('/').next().unwrap_or(name);
    if tail.chars().count() <= room && room >= 3 {
        return Some(tail.to_owned());
    }
    (room >= 5).then(|| tail.chars().take(room - 1).chain(['…']).collect())
}

/// What check found, by rule.
fn findings(all: &[Finding]) -> String {
    let mut by_rule: BTreeMap<Rule, Vec<&Finding>> = BTreeMap::new();
    for finding in all {
        by_rule.entry(finding.rule).or_default().push(finding);
    }
    if by_rule.is_empty() {
        return "<p>None: the table and the hooks agree.</p>".to_owned();
    }
    let mut out = String::new();
    for (number, (rule, found)) in by_rule.into_iter().enumerate() {
        let open = if number == 0 { " open" } else { "" };
        let (class, level) = match rule.default_level() {
            Level::Deny => ("denied", "error"),
            Level::Warn => ("warned", "warning"),
            Level::Note => ("allowed", "note"),
            Level::Allow => ("allowed", "off"),
        };
        let _ = writeln!(
            out,
            "<details{open}><summary><b>{rule}</b>: {} <span class=\"{class}\">({level})</span></summary>\
             <p>{}</p><ul>",
            grouped(found.len()),
            escape(&rule.explanation().replace('\n', " "))
        );
        for finding in found.iter().take(MOST_PLACES) {
            let _ = writeln!(out, "<li>{}</li>", line(finding));
        }
        if found.len() > MOST_PLACES {
            let more = grouped(found.len() - MOST_PLACES);
            let _ = writeln!(out, "<li>and {more} more: <code>mcount check</code></li>");
        }
        out.push_str("</ul></details>\n");
    }
    out
}

fn line(finding: &Finding) -> String {
    let mut out = String::new();
    if let Some(section) = &finding.section {
        let offset = finding.offset.unwrap_or(0);
        let place = format!("{}+{offset:#x}", escape(section));
        let place = finding.address.map_or(place, |address| format!("{address:#x}"));
        let _ = write!(out, "<code>{place}</code> ");
    }
    if let Some(symbol) = &finding.symbol {
        let distance = finding.symbol_offset.unwrap_or(0);
        let sign = if distance < 0 { '-' } else { '+' };
        let _ = write!(out, "{}{sign}{:#x}: ", escape(symbol), distance.unsigned_abs());
    }
    out.push_str(&escape(&finding.detail));
    out
}

/// Functions without a hook, counted by cause.
fn gaps(functions: &Functions) -> String {
    let found = mcount::coverage(functions);
    let mut rows: Vec<(usize, String)> = Vec::new();
    for (gap, own) in &found.gaps {
        let text = match gap {
            Gap::File => "The file has no hook at all: built without -pg".to_owned(),
            Gap::SourceFile(file) => {
                format!("No hook in <code>{}</code>", escape(file))
            }
            Gap::Excluded(section) => format!("Excluded by the policy: {}", escape(section)),
            Gap::ColdPart => "Cold parts of functions, which are entered elsewhere".to_owned(),
            Gap::Prefix => "Names of the padding before functions".to_owned(),
            Gap::NoSize => "Symbols without a size: probably assembly".to_owned(),
            _ => "Not known from symbols: <code>notrace</code>, or assembly".to_owned(),
        };
        rows.push((own.len(), text));
    }
    rows.sort_by(|a, b| b.cmp(a));
    let rest = rows.split_off(rows.len().min(MOST_CAUSES));
    if !rest.is_empty() {
        let sum = rest.iter().map(|row| row.0).sum();
        rows.push((sum, counted(rest.len(), "other cause", "other causes")));
    }
    if rows.is_empty() {
        return "<p>None: every function has a hook.</p>".to_owned();
    }
    let mut out = String::from(
        "<table><thead><tr><th class=\"number\" scope=\"col\">Functions</th>\
         <th scope=\"col\">Cause</th></tr></thead><tbody>\n",
    );
    for (count, text) in rows {
        let count = grouped(count);
        let _ = writeln!(out, "<tr><td class=\"number\">{count}</td><td>{text}</td></tr>");
    }
    out.push_str("</tbody></table>");
    out
}

fn names_of(groups: &[Group]) -> Vec<&str> {
    groups.iter().map(|group| group.name.as_str()).collect()
}

/// The data of the list of functions, as JSON that a script element can hold.
fn data(functions: &Functions, model: &Model) -> String {
    let all = &functions.functions;
    let names: Vec<String> = all.iter().map(|f| f.names().collect::<Vec<_>>().join(", ")).collect();
    let places = all.iter().map(|f| format!("{:x}", f.address.unwrap_or(f.offset)));
    let states = model.states.iter();
    let states = states.map(|s| json!({"kind": s.kind, "mark": s.mark, "text": s.text}));
    let data = json!({
        "sources": model.sources,
        "groupOf": model.group_of,
        "groups": names_of(&model.groups),
        "sections": names_of(&model.sections),
        "states": states.collect::<Vec<_>>(),
        "rows": {
            "name": names,
            "state": model.rows.iter().map(|row| row.state).collect::<Vec<_>>(),
            "source": model.rows.iter().map(|row| row.source).collect::<Vec<_>>(),
            "section": model.rows.iter().map(|row| row.section).collect::<Vec<_>>(),
            "place": places.collect::<Vec<_>>(),
            "size": all.iter().map(|function| function.size).collect::<Vec<_>>(),
        },
    });
    // Neither an end of the element nor a comment can begin.
    data.to_string().replace('<', "\\u003c")
}
