//! What a row comes to: on the terminal, kept as JSON, and as `docs/benchmarks.md`.
//!
//! The chore writes what is between two marks in the document; the rest, what the numbers mean, is
//! written by hand.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::rows::NAMES;
use super::sample::{Measured, Sample, quantile};
use crate::{Result, document, files};

const BEGIN: &str = "<!-- begin: cargo lab bench -->\n";
const END: &str = "<!-- end: cargo lab bench -->\n";

/// Keeps a row for [`write()`].
pub(crate) fn save(folder: &Path, name: &str, measured: &Measured) -> Result<()> {
    files::make_folder(&folder.join("results"))?;
    let path = folder.join("results").join(format!("{name}.json"));
    files::write(&path, serde_json::to_string_pretty(measured)?.as_bytes())
}

/// Prints a row.
pub(crate) fn print(measured: &Measured) {
    let mut text = String::new();
    table(&mut text, measured);
    println!("{text}");
}

/// Writes the rows that were measured to the document; `true`.
pub(crate) fn write(folder: &Path) -> Result<bool> {
    let mut text = String::new();
    machine(&mut text)?;
    for name in NAMES {
        let path = folder.join("results").join(format!("{name}.json"));
        let missing = |error| format!("{error}: measure the row {name} first");
        let measured = files::read(&path).map_err(missing)?;
        table(&mut text, &serde_json::from_slice(&measured)?);
    }
    document::put("docs/benchmarks.md", (BEGIN, END), text.trim_end())?;
    Ok(true)
}

/// One row as Markdown.
fn table(out: &mut String, measured: &Measured) {
    let ours = measured.samples.first().map_or(f64::NAN, Sample::median);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "### {}\n\nInput: {}.\n", measured.title, measured.input);
    out.push_str("| program | runs | median | quartiles | CPU | against the first | peak memory | result |\n");
    out.push_str("|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for sample in &measured.samples {
        let cpu = quantile(&sample.cpu, (1, 2));
        let (low, high) = (quantile(&sample.wall, (1, 4)), quantile(&sample.wall, (3, 4)));
        let memory = sample.memory.map_or_else(String::new, |kib| format!("{kib} KiB"));
        let result = sample.result.map_or_else(String::new, |count| count.to_string());
        let _ = writeln!(
            out,
            "| {} | {} | {} | {}–{} | {} | {:.2}× | {memory} | {result} |",
            sample.label,
            sample.wall.len(),
            time(sample.median()),
            time(low),
            time(high),
            time(cpu),
            sample.median() / ours,
        );
    }
    out.push('\n');
    if !measured.verdicts.is_empty() {
        out.push_str("| goal | measured | |\n|---|---|---|\n");
    }
    for verdict in &measured.verdicts {
        let word = if verdict.is_reached { "reached" } else { "**missed**" };
        let _ = writeln!(out, "| {} | {} | {word} |", verdict.text, verdict.measured);
    }
    out.push('\n');
    if let (Some(floor), Some(sample)) = (&measured.floor, measured.samples.last()) {
        let ratio = ours / sample.median();
        let _ = writeln!(out, "The first is {ratio:.2}× the floor.\nThere, {floor}.\n");
    }
    out.push_str("Commands:\n\n");
    for sample in measured.samples.iter().filter(|sample| !sample.command.is_empty()) {
        let _ = writeln!(out, "    {}", sample.command.replace("\\|", "|"));
    }
    out.push('\n');
}

/// A time, with three digits.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        _ if seconds < 1e-3 => (seconds * 1e6, "µs"),
        _ if seconds < 1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// What it was measured on and with.
fn machine(out: &mut String) -> Result<()> {
    let lines = [
        ("processor", shell("sed -n 's/^model name.*: //p' /proc/cpuinfo | uniq -c")?),
        ("memory", shell("sed -n 's/^MemTotal: *//p' /proc/meminfo")?),
        ("kernel", shell("uname -sr")?),
        ("file system", shell("findmnt -no FSTYPE,OPTIONS -T target/bench")?),
        ("compiler", shell("rustc --version")?),
        (
            "packages",
            shell(
                "dpkg-query -W -f '${Package} ${Version}\\n' linux-kbuild-6.1 binutils perl python3",
            )?,
        ),
        (
            "kernels measured on",
            shell("ls -d target/modules/amd64/linux-image-*/ | xargs -n1 basename")?,
        ),
        ("load at the end", shell("cut -d' ' -f1-3 /proc/loadavg")?),
    ];
    out.push_str("| | |\n|---|---|\n");
    for (what, value) in lines {
        let _ = writeln!(
            out,
            "| {what} | {} |",
            value.split_whitespace().collect::<Vec<_>>().join(" ")
        );
    }
    out.push('\n');
    Ok(())
}

fn shell(script: &str) -> Result<String> {
    let mut command = Command::new("sh");
    let output = command.args(["-c", script]).current_dir(files::workspace()).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        assert_eq!(
            [0.000_456_2, 0.0123, 1.5, 123.4].map(time),
            ["456 µs", "12.3 ms", "1.50 s", "123 s"]
        );
    }
}
