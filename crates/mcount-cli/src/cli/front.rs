//! What `mcount` says of itself: its commands in groups, and five lines for those who give none.
//!
//! clap prints all commands of a program as one list, so the groups are a template of ours.

use clap::builder::{StyledStr, Styles};
use clap::{Arg, ArgAction, Command};
use std::fmt::Write;

/// The commands, each in its group, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    ("Running programs", &["trace", "attach", "top", "sample", "patch"]),
    (
        "Traces",
        &[
            "stats",
            "graph",
            #[cfg(feature = "tui")]
            "tui",
            "replay",
            "report",
            "diff",
            "query",
            "compress",
        ],
    ),
    (
        "Objects and images",
        &["record", "cc", "link", "table", "sort", "nop", "scan", "list", "check", "why"],
    ),
    ("This program", &["demo", "completions", "man"]),
];

/// What most people come for, with the command for it.
const START: &[(&str, &str)] = &[
    ("trace a program", "mcount trace -- ./program"),
    ("look at a process", "mcount top PID"),
    ("compare two builds", "mcount diff OLD.mcount NEW.mcount"),
    ("record hooks in objects", "mcount cc -- gcc -c file.c"),
    ("check a kernel's table", "mcount check vmlinux"),
];

/// The options: clap would give each of these few three lines.
const OPTIONS: &[(&str, &str)] = &[
    ("-h, --help", "Print help; mcount help COMMAND explains a command"),
    ("-V, --version", "Print version"),
    (
        "--color <WHEN>",
        "Use colours: auto (on a terminal, unless NO_COLOR is set), always or never",
    ),
];

/// Gives the help of `command` its groups.
pub(super) fn grouped(command: Command) -> Command {
    let template = template(&command);
    command.help_template(template)
}

fn template(command: &Command) -> StyledStr {
    let styles = command.get_styles();
    let header = styles.get_header();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    let _ = write!(text, "\n{header}Start here:{header:#}\n{}", start_lines(styles));
    for (group, names) in GROUPS {
        let _ = write!(text, "\n{header}{group}:{header:#}\n");
        for name in *names {
            // Some are not on every processor.
            let Some(one) = command.find_subcommand(name).filter(|one| !one.is_hide_set()) else {
                continue;
            };
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            list(&mut text, styles, &[(name, &about)]);
        }
    }
    let _ = writeln!(text, "\n{header}Options:{header:#}");
    list(&mut text, styles, OPTIONS);
    StyledStr::from(text + "{after-help}")
}

/// Rows of a word to type and what it does.
fn list(text: &mut String, styles: &Styles, rows: &[(&str, &str)]) {
    let literal = styles.get_literal();
    for (word, about) in rows {
        let _ = writeln!(text, "  {literal}{word:<14}{literal:#}  {about}");
    }
}

/// One line for each thing that people come for.
fn start_lines(styles: &Styles) -> String {
    let literal = styles.get_literal();
    let mut text = String::new();
    for (what, how) in START {
        let _ = writeln!(text, "  {what:<24}  {literal}{how}{literal:#}");
    }
    text
}

/// Puts the examples of a command, which are the last paragraph of its text, above its options.
fn with_examples_first(command: Command) -> Command {
    const TEMPLATE: &str =
        "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let Some(at) = text.rfind("Example: ").or_else(|| text.rfind("Examples: ")) else {
        return command;
    };
    let (rest, examples) = text.split_at(at);
    let (rest, examples) = (rest.trim_end().to_owned(), examples.to_owned());
    command.before_help(examples).after_help(rest).help_template(TEMPLATE)
}

/// Lets `--help` of each command print what `-h` does: all options, without a blank line after each of them; and examples first.
pub(super) fn with_short_help(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |one| {
            if one.is_disable_help_flag_set() {
                return one;
            }
            let one = with_examples_first(one);
            let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
            one.disable_help_flag(true).arg(help.help("Print help"))
        })
    })
}

/// The text for a command line without a command.
pub(super) fn start(command: &Command) -> StyledStr {
    StyledStr::from(start_lines(command.get_styles()) + "\nmcount --help lists all commands.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_option_is_listed() {
        let mut command = super::super::command();
        command.build();
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            let is_listed = OPTIONS.iter().any(|(words, _)| words.contains(&format!("--{option}")));
            assert!(is_listed, "--{option}");
        }
    }

    #[test]
    fn examples_are_first_and_colours_last() {
        let mut command = super::super::command();
        for one in command.get_subcommands_mut().filter(|one| !one.is_hide_set()) {
            let (name, help) = (one.get_name().to_owned(), one.render_help().to_string());
            let (before, options) = help.split_once("\nOptions:\n").unwrap();
            let is_shell = ["demo", "completions", "man"].contains(&&*name);
            assert!(before.contains("\nExample") || is_shell, "{name}: {help}");
            let paragraph = options.split("\n\n").next().unwrap();
            let last = paragraph.lines().rfind(|line| line.trim_start().starts_with('-'));
            // What all commands have comes only when clap has built them; --color is behind that.
            let is_last = |line: &str| line.contains("--version") || line.contains("--help");
            assert!(last.is_none_or(is_last), "{name}: {last:?}");
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = super::super::command();
        let visible = command.get_subcommands().filter(|one| !one.is_hide_set());
        let all: BTreeSet<&str> = visible.map(Command::get_name).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(listed.len(), all.len(), "one is in two groups");
    }
}
