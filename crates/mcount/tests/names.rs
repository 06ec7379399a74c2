//! Names of functions as people write them, for symbols that others made: those of the C++ library, of LLVM, of Rust's
//! compiler and of this test, demangled by two demanglers.
//!
//! The judge of single names is a compiler: with `-gsimple-template-names`, clang writes the name of each function
//! without template arguments into the debug information.
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount::simple_name;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::process;
use testkit::room::Room;
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// The symbols of functions in `file`.
fn symbols(room: &Room, file: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for kind in ["-D", "-a"] {
        let command = room.command(Path::new("nm"), &[kind, "--defined-only"]).arg(file).output();
        let text = String::from_utf8(command.unwrap().stdout).unwrap();
        let names = text.lines().filter_map(|line| {
            let [.., kind, name] = *line.split(' ').collect::<Vec<_>>() else { return None };
            let name = name.split('@').next()?;
            (kind.contains(['t', 'T', 'w', 'W', 'i']) && name.starts_with('_'))
                .then(|| name.to_owned())
        });
        found.extend(names);
    }
    found
}

/// What `demangler` says of each name.
#[expect(clippy::disallowed_methods, reason = "a test, which names its file when it fails")]
fn demangled(room: &Room, demangler: &str, names: &BTreeSet<String>) -> Vec<String> {
    let lines: Vec<&str> = names.iter().map(String::as_str).chain([""]).collect();
    let text = lines.join("\n");
    let input = std::fs::File::open(room.put("names", text.as_bytes()).unwrap()).unwrap();
    let output = Command::new(demangler).stdin(input).stderr(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Libraries and programs with names of C++ and Rust, as far as they are installed.
fn files() -> Vec<PathBuf> {
    let mut all = vec![std::env::current_exe().unwrap()];
    let folders =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    for folder in folders {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            if ["libstdc++.so.", "libLLVM", "libclang-cpp"].iter().any(|one| name.starts_with(one))
            {
                all.push(std::fs::canonicalize(entry.path()).unwrap_or_default());
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

/// The number of each kind of bracket that is open at the end, without those of operators.
fn open_brackets(name: &str) -> BTreeMap<char, i32> {
    let mut open = BTreeMap::new();
    let mut rest = name.to_owned();
    for operator in ["<=>", "->*", "->", "<<=", ">>=", "<<", ">>", "<=", ">=", "<", ">", "()", "[]"]
    {
        rest = rest.replace(&format!("operator{operator}"), "operator");
    }
    for c in rest.replace("->", "").chars() {
        match c {
            '(' | '[' | '{' | '<' => *open.entry(c).or_insert(0) += 1,
            ')' => *open.entry('(').or_insert(0) -= 1,
            ']' => *open.entry('[').or_insert(0) -= 1,
            '}' => *open.entry('{').or_insert(0) -= 1,
            '>' => *open.entry('<').or_insert(0) -= 1,
            _ => {}
        }
    }
    open.retain(|_, count| *count != 0);
    open
}

/// Why `simple` isn't a simple name.
fn wrong(simple: &str) -> Option<&'static str> {
    let is_operator = simple.contains("operator");
    let is_rust = simple.contains('<') && !is_operator;
    if simple.is_empty() {
        Some("nothing is left")
    } else if simple.contains("[abi:") || simple.contains("[clone ") {
        Some("it has tags")
    } else if !open_brackets(simple).is_empty() {
        Some("its brackets aren't balanced")
    } else if is_rust && !simple.starts_with('<') && !simple.contains("::<impl ") {
        Some("it has arguments of templates")
    } else if simple.ends_with(')') && !is_operator && !simple.starts_with('(') {
        Some("it has arguments")
    } else if simple.ends_with(" const") || simple.ends_with("::") || simple.starts_with("::") {
        Some("it isn't whole")
    } else {
        None
    }
}

/// LLVM 14's demangler isn't among them: where a class has an ABI tag, it leaves out the names of constructors.
#[test(each = ["c++filt", "llvm-cxxfilt-19"])]
fn names_of_libraries_are_simple(demangler: &str) {
    need(["nm", demangler]);
    let room = Room::new().unwrap();
    let (mut count, mut bad) = (0, Vec::new());
    for file in files() {
        let names = symbols(&room, &file);
        for name in demangled(&room, demangler, &names) {
            let simple = simple_name(&name);
            count += 1;
            if let Some(why) = wrong(&simple).filter(|_| !name.starts_with('_')) {
                bad.push(format!("{why}: {simple} of {name}"));
            }
        }
    }
    assert!(count > 5_000, "only {count} names");
    let shown: Vec<_> = bad.iter().take(40).map(String::as_str).collect();
    assert!(bad.is_empty(), "{} of {count}:\n{}", bad.len(), shown.join("\n"));
}

const PROGRAM: &str = "\
    #include <algorithm>\n#include <filesystem>\n#include <functional>\n#include <iostream>\n#include <map>\n\
    #include <memory>\n#include <regex>\n#include <sstream>\n#include <string>\n#include <thread>\n#include <vector>\n\
    namespace { struct Hidden { template <class T> operator std::vector<T>() { return {}; } operator bool() const { return true; } }; }\n\
    struct Own { int n; bool operator<(const Own &other) const { return n < other.n; } int operator()(int a) { return a; }\n\
        Own *operator->() { return this; } int operator[](int at) const { return at; } Own &operator<<=(int) { return *this; }\n\
        template <class T> bool operator<<(T) { return true; } template <class T> auto operator<=(T) -> bool { return true; } };\n\
    template <int N> int (*table(int))(char) { return nullptr; }\n\
    long double operator\"\" _km(long double n) { return n * 1000; }\n\
    int main(int argc, char **) {\n\
        std::map<std::string, std::vector<Own>> all; all[\"a\"].push_back({1});\n\
        std::sort(all[\"a\"].begin(), all[\"a\"].end()); std::regex pattern(\"a+b\"); std::stringstream text; text << argc << 1.5_km;\n\
        std::function<int(int)> f = [argc](int a) { return a + argc; };\n\
        auto shared = std::make_shared<std::map<int, Own>>(); std::vector<int> made = Hidden(); Own own{2};\n\
        own << 3; own << 'a'; own <<= 2; own <= 4; own->n = 3; if (Hidden()) own(own[3]);\n\
        std::thread([] {}).join(); std::cout << std::filesystem::current_path() << text.str() << f(2) << (table<3>(1) == nullptr);\n\
        return std::regex_match(\"aab\", pattern) && shared->empty() && made.empty(); }\n";

/// Each function with the name that its linkage name has, and that the compiler has for it.
fn of_compiler(room: &Room) -> Vec<(String, String)> {
    let dump = process_output(room, "llvm-dwarfdump", &["--debug-info", "program.o"]);
    let quoted = |line: &str, what: &str| {
        let rest = line.trim().strip_prefix(what)?;
        Some(rest.split_once("(\"")?.1.strip_suffix("\")")?.to_owned())
    };
    let (mut found, mut linkage) = (Vec::new(), None);
    for line in dump.lines() {
        if line.contains("DW_TAG_") {
            linkage = None;
        }
        linkage = quoted(line, "DW_AT_linkage_name").or(linkage);
        if let (Some(of), Some(name)) = (&linkage, quoted(line, "DW_AT_name")) {
            found.push((of.clone(), name));
        }
    }
    found
}

fn process_output(room: &Room, program: &str, arguments: &[&str]) -> String {
    let output = room.command(Path::new(program), arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The last part of each simple name is the compiler's name of the function.
#[test(each = ["c++filt", "llvm-cxxfilt"])]
fn simple_names_are_those_of_the_compiler(demangler: &str) {
    need(["clang++", "llvm-dwarfdump", demangler]);
    let room = Room::new().unwrap();
    room.put("program.cc", PROGRAM.as_bytes()).unwrap();
    let flags = ["-std=c++17", "-g", "-gsimple-template-names", "-c", "program.cc"];
    process::run(&mut room.command(Path::new("clang++"), &flags)).unwrap();
    let names: BTreeMap<String, String> = of_compiler(&room).into_iter().collect();
    let mangled: BTreeSet<String> = names.keys().cloned().collect();
    let (mut count, mut bad) = (0, Vec::new());
    for (mangled, full) in mangled.iter().zip(demangled(&room, demangler, &mangled)) {
        // The compiler keeps the arguments that no name of a type tells.
        if full.starts_with("_Z") || !mangled.starts_with("_Z") {
            // A demangler doesn't know everything, and C libraries have other names for their functions.
            continue;
        }
        let Some(expected) = names.get(mangled).filter(|name| is_without_arguments(name)) else {
            continue;
        };
        let simple = simple_name(&full);
        count += 1;
        if !is_called(&simple, expected) {
            bad.push(format!("{simple} isn't {expected}: {full}"));
        }
    }
    assert!(count > 1_000, "only {count} names");
    let shown: Vec<_> = bad.iter().take(40).map(String::as_str).collect();
    assert!(bad.is_empty(), "{} of {count}:\n{}", bad.len(), shown.join("\n"));
}

/// Is the last part of `simple` what the compiler calls `expected`? The compiler doesn't say in which namespace the type is that a
/// conversion makes, and writes `operator""_km`.
fn is_called(simple: &str, expected: &str) -> bool {
    let (simple, expected) = (simple.replace("\"\" ", "\"\""), expected.replace('\\', ""));
    match expected.strip_prefix("operator ") {
        Some(of) => simple.contains("::operator ") && simple.ends_with(of) || simple == expected,
        None => simple == expected || simple.ends_with(&format!("::{expected}")),
    }
}

/// Conversions to types with arguments have them in their names.
fn is_without_arguments(name: &str) -> bool {
    !name.contains('<') || name.starts_with("operator<") && name.len() <= "operator<=>".len()
}
