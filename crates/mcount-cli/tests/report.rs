//! `mcount report`: the page is read by a browser, with names in it that try to be more than names,
//! and with as many functions as a kernel has.
//!
//! Tests that need Chromium are ignored without it.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::time::{Duration, Instant};
use testkit::browser::{HOSTILE_NAMES, title_after};
use testkit::room::Room;
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};
use testkit::tools::need;

/// Without `--output`, it's a new file each time, and its name is said.
#[test]
fn a_page_has_a_name_of_its_own() {
    let room = Room::new().unwrap();
    room.put_prebuilt("a.o", "x86_64-fentry").unwrap();
    for name in ["a.html", "a-2.html"] {
        let outcome =
            room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), &["report", "a.o"]).unwrap();
        let said = format!("mcount: the page is {name}\n");
        assert_eq!((outcome.code, outcome.stderr), (Some(0), said));
        assert!(room.path(name).exists());
    }
}

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Far more than the page needs, even on a loaded machine.
const BUDGET: Duration = Duration::from_secs(60);

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
    HOSTILE_NAMES.iter().chain(&["plain"]).map(|name| (*name).to_owned()).collect()
}

#[test]
fn names_are_never_markup() {
    let page = page(&Room::new().unwrap(), &object(&hostile()));
    for name in HOSTILE_NAMES {
        assert!(!page.contains(name), "{name}");
    }
    assert!(!page.contains("<b>source</b>") && !page.contains("object<i>"));
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    // Nothing is fetched: the one `src=` is in a name.
    for link in ["http:", "https:", "@import", "url(", "<link", "<img"] {
        assert!(!page.contains(link), "{link}");
    }
}

/// Where no source file is known, as in a stripped kernel, both maps would be of sections.
#[test]
fn no_map_is_shown_twice() {
    let room = Room::new().unwrap();
    let with = object(&hostile());
    let map = |page: &str| (page.matches("<svg").count(), page.matches("By section").count());
    assert_eq!(map(&page(&room, &with)), (2, 1));
    let mut object = Object::new(62, true, false, true);
    object.symbols.push(Symbol::function("f", 1, 1, 0, 8));
    object.sections.push(Section::code(".text", &[0x90; 8]));
    let page = page(&room, &object.build());
    assert_eq!(map(&page), (1, 0));
    assert!(page.contains("Coverage by section") && page.contains("<label hidden>Section"));
}

fn browse(room: &Room, page: &str, script: &str) -> String {
    title_after(room, page, script).unwrap()
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
    assert_eq!(browse(&room, &page, script), "5 rows, 0 made, true true");
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
    let expected =
        format!("100:f0 100:{low} 100:{high} descending {found}:{high} 100:{high} 50:{last_bare}");
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
    let expected = "true function_59999";
    assert_eq!(browse(&room, &page, script), expected);
    assert!(begin.elapsed() < BUDGET, "took {:?}", begin.elapsed());
}
