//! `mcount report`: the page is read by a browser, with names in it that try to be more than names,
//! and with as many functions as a kernel has.
//!
//! Tests that need Chromium are ignored without it.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::process;
use testkit::room::Room;
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Far more than the page needs, even on a loaded machine.
const BUDGET: Duration = Duration::from_secs(60);

/// What somebody could call a function so that a page does more than name it.
const HOSTILE: [&str; 4] = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\" autofocus onfocus=document.title='owned' x=\"",
    "{{data}}<!--<script>",
];

/// An x86-64 object with these functions in `.text`, of which every second calls the hook.
fn object(names: &[String]) -> Vec<u8> {
    let mut object = Object::new(62, true, false, true);
    let file = |name: &str| Symbol { name: name.to_owned(), kind: 4, ..Symbol::default() };
    object.symbols.push(file("<b>source</b>.c"));
    object.symbols.push(Symbol::undefined("__fentry__"));
    let mut code = Vec::new();
    let mut calls = Vec::new();
    for (at, name) in (0u64..).zip(names) {
        object.symbols.push(Symbol::function(name, 1, 1, at * 8, 8));
        let hook = if at % 2 == 0 { 0xe8 } else { 0x05 };
        code.extend([hook, 0, 0, 0, 0, 0x31, 0xc0, 0xc3]);
        if at % 2 == 0 {
            calls.push(Relocation { offset: at * 8 + 1, symbol: 2, kind: 4, addend: -4 });
        }
    }
    object.sections.push(Section { relocations: calls, ..Section::code(".text", &code) });
    object.build()
}

fn page(room: &Room, file: &[u8]) -> String {
    let path = room.put("object<i>.o", file).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mcount"));
    let path = path.to_str().unwrap();
    let outcome = room.run(program, &["report", path, "-o", "report.html"]).unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    String::from_utf8(room.get("report.html").unwrap()).unwrap()
}

fn hostile() -> Vec<String> {
    HOSTILE.iter().chain(&["plain"]).map(|name| (*name).to_owned()).collect()
}

#[test]
fn names_are_never_markup() {
    let page = page(&Room::new().unwrap(), &object(&hostile()));
    for name in HOSTILE {
        assert!(!page.contains(name), "{name}");
    }
    assert!(!page.contains("<b>source</b>") && !page.contains("object<i>"));
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    // Nothing is fetched: the one `src=` is in a name.
    for link in ["http:", "https:", "@import", "url(", "<link", "<img"] {
        assert!(!page.contains(link), "{link}");
    }
}

/// The document after `script` was run in `page`: what it made of the title.
fn browse(room: &Room, page: &str, script: &str) -> String {
    let acting = format!("<script>window.addEventListener('load', () => {{ {script} }});</script>");
    let path = room.put("acting.html", page.replace("</body>", &(acting + "</body>")).as_bytes());
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    browser.args(["--disable-background-networking", "--disable-component-update"]);
    browser.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1200,900"]);
    browser.arg("--virtual-time-budget=5000");
    browser.arg(format!("--user-data-dir={}", room.path("browser").display()));
    // Of the document only the title is printed: it may be larger than a pipe.
    let command =
        format!("{browser:?} --dump-dom \"$1\" | grep -o '<title>[^<]*</title>' | head -1");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).arg("sh").arg(path.unwrap());
    process::run(&mut shell).unwrap().trim().to_owned()
}

#[test]
fn a_browser_shows_hostile_names_as_text() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let page = page(&room, &object(&hostile()));
    let script = "const names = [...document.querySelectorAll('td.name')].map(t => t.textContent);\
                  const made = document.querySelectorAll('img, b b, i').length;\
                  document.title = document.title.includes('owned') ? 'owned' : \
                  names.length + ' rows, ' + made + ' made, ' + names.includes('plain') + ' ' + \
                  names.some(n => n.startsWith('</script'));";
    assert_eq!(browse(&room, &page, script), "<title>5 rows, 0 made, true true</title>");
}

#[test]
fn searching_sorting_and_choosing() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let names: Vec<String> = (0..100).map(|at| format!("f{}", at * 7919 % 1000)).collect();
    let page = page(&room, &object(&names));
    let script = "const said = [];\
        const by = id => document.getElementById(id);\
        const first = () => document.querySelector('td.name').textContent;\
        const say = () => said.push(by('count').textContent.split(' ')[0] + ':' + first());\
        say();\
        document.querySelector('[data-key=name]').click(); say();\
        document.querySelector('[data-key=name]').click(); say();\
        said.push(document.querySelector('th.name').getAttribute('aria-sort'));\
        by('search').value = 'f9'; by('search').dispatchEvent(new Event('input')); say();\
        document.querySelector('a[data-filter=section]').dispatchEvent(new Event('click')); say();\
        by('state').value = '1'; by('state').dispatchEvent(new Event('change')); say();\
        document.title = said.join(' ');";
    let mut sorted = names.clone();
    sorted.sort();
    let (low, high) = (sorted.first().unwrap(), sorted.last().unwrap());
    let found = sorted.iter().filter(|name| name.contains("f9")).count();
    let bare: Vec<_> = names.iter().skip(1).step_by(2).cloned().collect();
    let last_bare = bare.iter().max().unwrap();
    let expected = format!(
        "<title>100:f0 100:{low} 100:{high} descending {found}:{high} 100:{high} 50:{last_bare}</title>"
    );
    assert_eq!(browse(&room, &page, script), expected);
}

#[test]
fn sixty_thousand_functions() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let names: Vec<String> = (0..60_000).map(|at| format!("function_{at}")).collect();
    let begin = Instant::now();
    let page = page(&room, &object(&names));
    let script = "const view = document.getElementById('rows');\
        const rows = () => document.querySelectorAll('td.name').length;\
        const before = rows();\
        view.scrollTop = view.scrollHeight;\
        view.dispatchEvent(new Event('scroll'));\
        const all = [...document.querySelectorAll('td.name')];\
        document.title = (before < 100 && rows() < 100) + ' ' + all.at(-1).textContent;";
    let expected = "<title>true function_59999</title>";
    assert_eq!(browse(&room, &page, script), expected);
    assert!(begin.elapsed() < BUDGET, "took {:?}", begin.elapsed());
}
