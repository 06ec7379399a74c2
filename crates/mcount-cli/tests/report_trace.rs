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
    let expected = "1.000 µs to 5.000 µs; a <i>thread</i> 8 of process 7 1.600 µs 100 ns; \
                    1.100 µs to 2.000 µs; 1.325 µs to 1.775 µs; 1.438 µs to 1.887 µs; 1.000 µs to 5.000 µs; \
                    2.000 µs to 4.000 µs; 255; \
                    Calls of <i>thread</i> 8 of process 7, from 2.000 µs to 4.000 µs";
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
    let traced = room.run(program, &["trace", "--plain", "-o", "made", "--", "./marks"]).unwrap();
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

/// Three files, threads with a name, without one, and renamed; nothing happens for the first 80 ms, nor between 82 and 282 ms.
fn with_pauses() -> Vec<u8> {
    const MS: u64 = 1_000_000;
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/program");
    let threads = [7, 8].map(|tid| writer.thread(7, tid));
    writer.thread_name(7, 8, 10, "program");
    writer.thread_called(7, 8, 300 * MS, "worker");
    writer.thread_end(7, 8, 301 * MS);
    writer.thread_called(7, 8, 302 * MS, "another");
    let files = ["/bin/program", "/lib/one.so", "/lib/two.so"];
    for (at, file) in (0_u64..).zip(files) {
        let function = writer.function(file, "f");
        for start in [80 + at / 2, 282 + at] {
            let call = writer.call(threads[usize::from(at == 1)], function);
            call.from(start * MS).to(start * MS + MS).slot(0x7ffe_0000).end(End::Return);
        }
    }
    writer.finish()
}

#[test]
fn the_page_begins_at_the_first_call() {
    let page = page(&Room::new().unwrap(), &with_pauses());
    let found = data(&page);
    assert_eq!(found["begin"], 80_000_000);
    assert!(page.contains("The first call begins 80.000 ms after the start of the trace"));
    assert_eq!(found["pauses"].to_string(), "[[82000000,282000000]]");
    let names: Vec<&Value> =
        found["threads"].as_array().unwrap().iter().map(|thread| &thread["name"]).collect();
    assert_eq!(names, ["program", "worker"]);
    assert!(!self::page(&Room::new().unwrap(), &sample()).contains("The first call begins"));
}

/// Threads that name themselves, one of which ends before the others; traced from the start, and from the middle on.
#[test]
fn threads_have_the_names_that_they_gave_themselves() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    let source = "#define _GNU_SOURCE\n#include <pthread.h>\n#include <unistd.h>\n\
        __attribute__((noinline)) void work(void) { __asm__ volatile(\"\"); }\n\
        static void *one(void *name) { work(); pthread_setname_np(pthread_self(), name); \
            for (int i = 0; i < (*(char *)name == 's' ? 1 : 200); i++) { work(); usleep(10000); } return 0; }\n\
        int main(void) { pthread_t all[2]; pthread_create(all, 0, one, \"short <b>\"); pthread_create(all + 1, 0, one, \"long\");\n\
            pthread_join(all[0], 0); pthread_join(all[1], 0); work(); return 0; }\n";
    room.put("names.c", source.as_bytes()).unwrap();
    let flags = ["-O2", "-pthread", "-fpatchable-function-entry=5", "names.c", "-o", "names"];
    let compiled = room.run(Path::new("gcc"), &flags).unwrap();
    assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
    let program = Path::new(env!("CARGO_BIN_EXE_mcount"));
    let names = |file: &str| {
        let found = data(&page(&room, &room.get(file).unwrap()));
        let threads = found["threads"].as_array().unwrap().iter();
        let mut names: Vec<String> =
            threads.map(|thread| thread["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let traced = room.run(program, &["trace", "--plain", "-o", "traced", "--", "./names"]).unwrap();
    assert_eq!(traced.code, Some(0), "{}", traced.stderr);
    assert_eq!(names("traced"), ["long", "names", "short <b>"]);
    let mut running = room.command(&room.path("names"), &[]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let id = running.id().to_string();
    let attach = ["attach", "-o", "attached", "--duration", "300ms", &id];
    let attached = room.run(program, &attach).unwrap();
    running.wait().unwrap();
    assert_eq!(attached.code, Some(0), "{}", attached.stderr);
    assert_eq!(names("attached"), ["long"]);
}

#[test]
fn idle_time_can_be_hidden() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let script = format!(
        "{TOOLS}\
         const range = () => said.push(el('range').textContent);\
         setTimeout(() => {{\
           said.push(el('idle').innerText.trim().replace(/\\s+/g, ' ')); range();\
           el('fold').click(); range();\
           const canvas = document.querySelector('#timeline canvas');\
           const pen = canvas.getContext('2d');\
           const columns = [...Array(canvas.width).keys()];\
           const is_empty = x => pen.getImageData(x, 10, 1, 1).data[3] === 0;\
           said.push(columns.filter(is_empty).length < canvas.width / 2);\
           document.querySelector('[data-zoom=in]').click(); range();\
           el('fold').click(); range();\
           document.querySelector('[data-zoom=all]').click(); range();\
           said.push(columns.filter(is_empty).length > canvas.width * 0.9);\
           document.title = said.join('; ');\
         }}, 200);"
    );
    let expected = "Hide idle time (200.000 ms without calls); 80.000 ms to 285.000 ms; 80.000 ms to 285.000 ms; \
                    true; 81.250 ms to 283.750 ms; 81.250 ms to 283.750 ms; 80.000 ms to 285.000 ms; true";
    assert_eq!(browse(&room, &page(&room, &with_pauses()), &script), expected);
    let without = "document.title = document.getElementById('idle').hidden;";
    assert_eq!(browse(&room, &page(&room, &sample()), without), "true");
}

/// What a reader with one kind of cones missing sees of a colour in linear light (Machado, Oliveira and Fernandes, "A
/// Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1); the first is for those with all.
const EYES: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ],
    [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ],
    [
        [1.255_528, -0.076_749, -0.178_779],
        [-0.078_411, 0.930_809, 0.147_602],
        [0.004_733, 0.691_367, 0.303_900],
    ],
];

/// A colour, `rgb(1, 2, 3)`, as such eyes see it, in CIE L*a*b*.
fn seen(colour: &str, eyes: &[[f64; 3]; 3]) -> [f64; 3] {
    let numbers = colour.trim_matches(|c: char| !c.is_ascii_digit()).split(", ");
    let linear: Vec<f64> = numbers
        .map(|number| number.parse::<f64>().unwrap() / 255.0)
        .map(|c| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) })
        .collect();
    let weighed = |row: [f64; 3], of: &[f64]| -> f64 {
        row.iter().zip(of).map(|(part, one)| part * one).sum()
    };
    let primaries = eyes.map(|row| weighed(row, &linear).clamp(0.0, 1.0));
    // The last number is that of white.
    let [x, y, z] = [
        ([0.4124, 0.3576, 0.1805], 0.9505),
        ([0.2126, 0.7152, 0.0722], 1.0),
        ([0.0193, 0.1192, 0.9505], 1.089),
    ]
    .map(|(row, white)| weighed(row, &primaries) / white)
    .map(|t| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// Colours have a legend, mean files or shares, and differ for all eyes, in light and in dark.
#[test]
fn colours_mean_something() {
    need(["chromium"]);
    let room = Room::new().unwrap();
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/program");
    let thread = writer.thread(7, 7);
    for at in 0..9_u64 {
        let function = writer.function(&format!("/lib/{at}.so"), &format!("f{at}"));
        let (start, time) = (1_000 + 1_000 * at, 900 / (at + 1));
        writer
            .call(thread, function)
            .from(start)
            .to(start + time)
            .slot(0x7ffe_0000)
            .end(End::Return);
    }
    let page = page(&room, &writer.finish());
    let script = format!(
        "{TOOLS}\
         const legend = () => [...document.querySelectorAll('#legend > span')].map(e => e.textContent + '=' + getComputedStyle(e.firstChild).backgroundColor);\
         const colour = label => getComputedStyle(field(label)).backgroundColor;\
         said.push(legend().join('|'), colour('f0,'), colour('f1,'), colour('f8,'));\
         el('colours').value = 'own'; el('colours').dispatchEvent(new Event('change'));\
         said.push(legend().join('|'), colour('f0,'), colour('f8,'));\
         document.title = said.join(';');"
    );
    for scheme in ["0", "1"] {
        let option = format!("--blink-settings=preferredColorScheme={scheme}");
        let said = title_with(&room, &page, &script, &[&option]).unwrap();
        let parts: Vec<&str> = said.trim_end().split(';').collect();
        let legend = |at: usize| parts[at].split('|').map(|entry| entry.split_once('=').unwrap());
        let (names, files): (Vec<&str>, Vec<&str>) = legend(0).unzip();
        let names = names.join(" ");
        assert_eq!(names, "0.so 1.so 2.so 3.so 4.so 5.so 3 other files");
        assert_eq!(parts[1..4], [files[0], files[1], files[6]]);
        let (names, shares): (Vec<&str>, Vec<&str>) = legend(4).unzip();
        assert_eq!(
            names.join(" "),
            "less than 1 % of all time 1 % to 5 % 5 % to 20 % 20 % and more"
        );
        assert_eq!(parts[5..7], [shares[3], shares[1]]);
        // Shares are in an order, so that neighbours may be more alike.
        can_be_told_apart(&files, 12.0);
        can_be_told_apart(&shares, 9.0);
    }
}

/// Everybody sees that these colours differ, by at least `least` in the distance of CIE 1976.
fn can_be_told_apart(colours: &[&str], least: f64) {
    for eyes in &EYES {
        let seen: Vec<[f64; 3]> = colours.iter().map(|colour| seen(colour, eyes)).collect();
        for (at, one) in seen.iter().enumerate() {
            for (beside, other) in seen.iter().enumerate().skip(at + 1) {
                let distance = (0..3).map(|i| (one[i] - other[i]).powi(2)).sum::<f64>().sqrt();
                assert!(distance > least, "{} and {}: {distance}", colours[at], colours[beside]);
            }
        }
    }
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
