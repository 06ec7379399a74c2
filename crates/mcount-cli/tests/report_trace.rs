//! `mcount report` of a trace: the page is read by a browser, which clicks and types; names in it try to be
//! more than names; and there are as many calls as a browser can't hold.
//!
//! Tests that need Chromium are ignored without it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::{End, Writer, layout};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::browser::{HOSTILE_NAMES, title_after, title_with};
use testkit::room::Room;
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Far more than the page needs, even on a loaded machine.
const BUDGET: Duration = Duration::from_secs(120);

/// The page of a trace.
fn page(room: &Room, trace: &[u8]) -> String {
    room.put("trace<i>.mcount", trace).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mcount"));
    let outcome = room.run(program, &["report", "trace<i>.mcount", "-o", "page.html"]).unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    String::from_utf8(room.get("page.html").unwrap()).unwrap()
}

/// What the script of a page reads.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// Calls of one thread: names, starts, ends, and how deep they are.
fn trace(calls: &[(&str, u64, u64, u64)]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/<b>program").thread_name(7, 8, 0, "<i>thread</i>");
    let thread = writer.thread(7, 8);
    let mut names: Vec<&str> = Vec::new();
    let mut numbers = Vec::new();
    for (name, start, end, depth) in calls {
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name);
            numbers.push(writer.function_at("/lib/<u>", name, 0x1000, 64));
            names.len() - 1
        });
        let slot = 0x7ffe_0000 - depth * 64;
        writer.call(thread, numbers[at]).from(*start).to(*end).slot(slot).end(End::Return);
    }
    writer.note("<s>lost</s>").header(layout::header::DROPPED, 12);
    writer.finish()
}

/// `main` calls `a`, which calls `b` twice, and `b`; `a` calls itself.
fn sample() -> Vec<u8> {
    trace(&[
        ("b", 1_200, 1_300, 2),
        ("b", 1_300, 1_500, 2),
        ("a", 1_600, 1_700, 2),
        ("a", 1_100, 2_000, 1),
        ("b", 3_000, 3_500, 1),
        ("main", 1_000, 5_000, 0),
    ])
}

#[test]
fn what_the_page_is_made_of() {
    let found = data(&page(&Room::new().unwrap(), &sample()));
    // Name, module, calls, total, own, longest.
    let rows: Vec<String> =
        found["functions"].as_array().unwrap().iter().map(Value::to_string).collect();
    let expected =
        [r#"["b",0,3,800,800,500]"#, r#"["a",0,2,900,600,900]"#, r#"["main",0,1,4000,2600,4000]"#];
    assert_eq!(rows, expected);
    // Parent, function or process, calls, time.
    let flame = r#"[[null,"<b>program",0,4000],[0,2,1,4000],[1,1,1,900],[2,0,2,300],[2,1,1,100],[1,0,1,500]]"#;
    assert_eq!(found["flame"].to_string(), flame);
    let thread = &found["threads"][0];
    let bars = "[1000,4000,0,2,100,900,1,1,100,100,2,0,100,200,2,0,300,100,2,1,1400,500,1,0]";
    assert_eq!((thread["bars"].to_string().as_str(), &thread["tid"]), (bars, &Value::from(8)));
    assert_eq!(thread["counts"], Value::Array(vec![]));
}

#[test]
fn names_are_never_markup() {
    let calls = HOSTILE_NAMES.map(|name| (name, 1_000, 2_000, 0));
    let page = page(&Room::new().unwrap(), &trace(&calls));
    for name in HOSTILE_NAMES {
        assert!(!page.contains(name), "{name}");
    }
    for tag in ["<b>program", "<i>", "<u>", "<s>lost"] {
        assert!(!page.contains(tag), "{tag}");
    }
    assert!(page.contains("&lt;s&gt;lost") && page.contains("12 calls could not be recorded"));
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    for link in ["http:", "https:", "@import", "url(", "<link", "<img"] {
        assert!(!page.contains(link), "{link}");
    }
}

fn browse(room: &Room, page: &str, script: &str) -> String {
    title_after(room, page, script).unwrap()
}

#[test]
fn a_browser_shows_hostile_names_as_text() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let calls = HOSTILE_NAMES.map(|name| (name, 1_000, 2_000, 0));
    let page = page(&room, &trace(&calls));
    let script = "const names = [...document.querySelectorAll('td.function')].map(t => t.textContent);\
                  const made = document.querySelectorAll('img, b b, i, u, s').length;\
                  document.title = document.title.includes('owned') ? 'owned' : \
                  names.length + ' rows, ' + made + ' made, ' + names.some(n => n.startsWith('</script'));";
    assert_eq!(browse(&room, &page, script), "4 rows, 0 made, true");
}

/// What all scripts below begin with.
const TOOLS: &str = "const said = [];\
    const el = id => document.getElementById(id);\
    const key = (target, key) => target.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));\
    const field = label => [...document.querySelectorAll('#flame button')].find(b => b.ariaLabel.startsWith(label));\
    const type = (id, text) => { el(id).value = text; el(id).dispatchEvent(new Event('input')); };";

#[test]
fn the_flame_graph_zooms_and_searches() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let page = page(&room, &sample());
    let script = format!(
        "{TOOLS}\
         const count = () => said.push(document.querySelectorAll('#flame button').length);\
         const wide = label => said.push(Math.round(100 * field(label).offsetWidth / el('flame').clientWidth));\
         count(); wide('a, 900 ns');\
         field('a, 900 ns, 22.5 %, 1 call').click(); count(); wide('a, 900');\
         said.push(document.activeElement.ariaLabel);\
         key(document.activeElement, 'ArrowDown'); said.push(document.activeElement.ariaLabel);\
         key(document.activeElement, 'ArrowRight'); said.push(document.activeElement.ariaLabel);\
         said.push(el('flame-said').textContent);\
         key(document.activeElement, 'Escape'); count();\
         el('whole').click(); count();\
         type('find', 'B'); said.push(el('found').textContent, document.querySelectorAll('.match').length);\
         document.title = said.join('; ');"
    );
    let expected = "6; 22; 5; 100; a, 900 ns, 22.5 %, 1 call; b, 300 ns, 7.5 %, 2 calls; \
                    a, 100 ns, 2.5 %, 1 call; <b>program › main › a › a: 100 ns, 2.5 %, 1 call; \
                    6; 6; 3 found, 100.0 %; 3";
    let said = browse(&room, &page, &script);
    assert_eq!(said.replace("&lt;", "<").replace("&gt;", ">"), expected);
}

#[test]
fn the_timeline_zooms_to_single_calls() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let page = page(&room, &sample());
    let script = format!(
        "{TOOLS}\
         const range = () => said.push(el('range').textContent);\
         const first = () => said.push(document.querySelector('#longest tr:last-child').innerText.replace(/\\s+/g, ' '));\
         setTimeout(() => {{\
           range(); first();\
           document.querySelectorAll('#longest button')[1].click(); range();\
           key(el('timeline'), '+'); range();\
           key(el('timeline'), 'ArrowRight'); range();\
           key(el('timeline'), '0'); range();\
           document.querySelector('[data-zoom=in]').click(); range();\
           const canvas = document.querySelector('#timeline canvas');\
           const pixels = canvas.getContext('2d').getImageData(canvas.width / 2, 10, 1, 1).data;\
           said.push(pixels[3], canvas.ariaLabel || canvas.getAttribute('aria-label'));\
           document.title = said.join('; ');\
         }}, 200);"
    );
    let expected = "0 ns to 5.000 µs; a <i>thread</i> 8 of process 7 1.600 µs 100 ns; \
                    1.100 µs to 2.000 µs; 1.325 µs to 1.775 µs; 1.438 µs to 1.887 µs; 0 ns to 5.000 µs; \
                    1.250 µs to 3.750 µs; 255; \
                    Calls of <i>thread</i> 8 of process 7, from 1.250 µs to 3.750 µs";
    let said = browse(&room, &page, &script);
    assert_eq!(said.replace("&lt;", "<").replace("&gt;", ">"), expected);
}

/// What a program says by markers is where it was said: in a list, on the canvas, and under the pointer.
#[test]
fn the_timeline_has_markers() {
    need(["chromium", "gcc"]);
    let room = Room::new().unwrap();
    let source = "#include <mcount/mark.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        __attribute__((noinline)) void step(void) { __asm__ volatile(\"\"); }\n\
        int main(void) { mcount_mark(\"<b>one</b>\"); step(); usleep(20000);\n\
        char text[32]; for (int i = 0; i < 6000; i++) { sprintf(text, \"mark %d\", i); mcount_mark(text); } step(); return 0; }\n";
    room.put("marks.c", source.as_bytes()).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let include = format!("-I{}", include.display());
    let flags = ["-O2", &include, "-fpatchable-function-entry=5", "marks.c", "-o", "marks"];
    let compiled = room.run(Path::new("gcc"), &flags).unwrap();
    assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
    let program = Path::new(env!("CARGO_BIN_EXE_mcount"));
    let traced = room.run(program, &["trace", "-o", "made", "--", "./marks"]).unwrap();
    assert_eq!(traced.code, Some(0), "{}", traced.stderr);
    let page = page(&room, &room.get("made").unwrap());
    assert!(page.contains("1,001 markers aren't shown."));
    let found = data(&page);
    let marks = found["threads"][0]["marks"].as_array().unwrap();
    assert_eq!(
        (marks.len(), &marks[0][1], &marks[1][1]),
        (5000, &"<b>one</b>".into(), &"mark 0".into())
    );
    // The second call, behind that of `main`, is the first marker's.
    let start = |at: usize| found["threads"][0]["bars"][at * 4].as_u64().unwrap();
    assert_eq!(marks[0][0], start(0) + start(1));
    let script = format!(
        "{TOOLS}\
         setTimeout(() => {{\
           const rows = () => [...document.querySelectorAll('#marked tr')].map(row => row.cells[0].innerText);\
           said.push(el('marks').hidden, rows().length, rows()[0], rows()[1]);\
           const canvas = document.querySelector('#timeline canvas');\
           const pen = canvas.getContext('2d');\
           const lines = [...Array(canvas.width).keys()].filter(x => pen.getImageData(x, 1, 1, 1).data[3] > 0);\
           said.push(lines.length > 0);\
           const box = canvas.getBoundingClientRect();\
           const first = lines[0] / (window.devicePixelRatio || 1) + 2;\
           canvas.dispatchEvent(new PointerEvent('pointermove', {{bubbles: true, clientX: box.left + first, clientY: box.top + 4}}));\
           said.push(el('time-said').textContent.split(',')[0]);\
           const before = el('range').textContent;\
           document.querySelector('#marked button').click();\
           said.push(el('range').textContent !== before);\
           document.title = said.join('; ');\
         }}, 300);"
    );
    let said = browse(&room, &page, &script).replace("&lt;", "<").replace("&gt;", ">");
    assert_eq!(said, "false; 50; <b>one</b>; mark 0; true; <b>one</b>; true");
    let without = self::page(&room, &sample());
    let script = "document.title = document.getElementById('marks').hidden;";
    assert_eq!(browse(&room, &without, script), "true");
}

#[test]
fn the_table_sorts_and_searches() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let page = page(&room, &sample());
    let script = format!(
        "{TOOLS}\
         const names = () => said.push([...document.querySelectorAll('td.function')].map(t => t.textContent).join(''));\
         const sort = at => document.querySelector('[data-key=\"' + at + '\"]').click();\
         names(); sort(0); names(); sort(0); names(); sort(2); names();\
         said.push(document.querySelectorAll('th[aria-sort=descending]').length);\
         type('search', 'lib a'); names(); said.push(el('count').textContent);\
         document.title = said.join(' ');"
    );
    assert_eq!(browse(&room, &page, &script), "mainba abmain mainba bamain 1 amain 2 of 3");
}

/// How dark the page is, how many texts there are, and those that can hardly be read on what is behind them (WCAG 2, 1.4.3: less
/// than 4.5 to 1).
const CONTRASTS: &str = "\
    const numbers = colour => (colour.match(/[0-9.]+/g) || []).map(Number);\
    const light = colour => numbers(colour).slice(0, 3).map(c => c / 255)\
        .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)\
        .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);\
    const behind = element => { for (let at = element; at; at = at.parentElement) {\
        const colour = getComputedStyle(at).backgroundColor;\
        if ((numbers(colour)[3] ?? 1) > 0.99) return colour; } return 'rgb(255, 255, 255)'; };\
    const texts = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && \
        [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && !e.closest('script, .skip'));\
    const bad = texts.filter(e => { const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];\
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5; });\
    const names = [...new Set(bad.map(e => e.tagName + '.' + e.className + ' ' + getComputedStyle(e).color + behind(e)))];\
    const is_dark = light(behind(document.body)) < 0.1;\
    setTimeout(() => { const canvas = document.querySelector('#timeline canvas');\
        const [r, g, b] = canvas.getContext('2d').getImageData(canvas.width / 2, 10, 1, 1).data;\
        const bar = light('rgb(' + [r, g, b].join() + ')');\
        document.title = [is_dark ? 'dark' : 'light', texts.length > 40, bar < 0.2, names.join('; ')].join(', '); }, 200);";

/// In light and in dark, all texts can be read, and the timeline's calls are dark where their names are light.
#[test]
fn dark_and_light() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let page = page(&room, &sample());
    for (scheme, expected) in [("1", "light, true, false,"), ("0", "dark, true, true,")] {
        let option = format!("--blink-settings=preferredColorScheme={scheme}");
        let said = title_with(&room, &page, CONTRASTS, &[&option]).unwrap();
        assert_eq!(said.trim_end(), expected);
    }
}

/// Two million calls, of which the page has the longest, and numbers of the others.
#[test]
fn more_calls_than_a_page_holds() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/program");
    let thread = writer.thread(7, 7);
    let [long, short, main] =
        ["long", "short", "main"].map(|name| writer.function("/bin/program", name));
    for at in 0..2_000_000_u64 {
        let (function, time) = if at % 100 == 0 { (long, 50) } else { (short, 5) };
        let start = 100 + at * 10;
        let time = if time == 50 { 9 } else { time };
        writer
            .call(thread, function)
            .from(start)
            .to(start + time)
            .slot(0x7ffe_0000)
            .end(End::Return);
    }
    writer.call(thread, main).from(50).to(20_000_200).slot(0x7ffe_1000).end(End::Return);
    let page = page(&room, &writer.finish());
    assert!(page.len() < 16 << 20, "{} bytes", page.len());
    let found = data(&page);
    let thread = &found["threads"][0];
    let bars = thread["bars"].as_array().unwrap();
    let counts = thread["counts"].as_array().unwrap();
    assert_eq!(bars.len() / 4, 20_001);
    let counted: u64 = counts.chunks(5).map(|count| count[2].as_u64().unwrap()).sum();
    assert_eq!(counted, 1_980_000);
    assert!(page.contains("Those of up to 5 ns are only counted"));
    let begin = Instant::now();
    let script = "const at = performance.now(); document.querySelector('[data-zoom=in]').click();\
                  document.title = document.querySelectorAll('#flame button').length + ' ' + (at < 60000);";
    assert_eq!(browse(&room, &page, script), "4 true");
    assert!(begin.elapsed() < BUDGET, "took {:?}", begin.elapsed());
}

/// Without times, fields are as wide as they have calls; a page is made of whatever is left of a trace.
#[test]
fn traces_without_times_and_damaged_ones() {
    let room = Room::new().unwrap();
    let mut entries = sample();
    let flags = layout::header::FLAGS;
    entries[flags] |= 2;
    let found = data(&page(&room, &entries));
    assert_eq!(
        (found["hasTimes"].as_bool(), found["flame"][0][3].as_u64()),
        (Some(false), Some(6))
    );
    let mut seed = 9_u64;
    for _ in 0..60 {
        let mut bytes = sample();
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Behind what says that it's a trace.
            let at = 64 + usize::try_from(seed >> 33).unwrap() % (bytes.len() - 64);
            bytes[at] = seed.to_le_bytes()[2];
        }
        let half = bytes.len() / 2;
        bytes.truncate(bytes.len() - usize::try_from(seed >> 40).unwrap() % half);
        data(&page(&room, &bytes));
    }
}
