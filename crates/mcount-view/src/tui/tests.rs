//! What the views show of small traces, on a terminal in memory.

use super::app::App;
use super::load::Loading;
use super::timeline::Timeline;
use crate::replay::{Names, Progress};
use mcount_trace::{End, Trace, Writer, layout};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn slot(depth: u64) -> u64 {
    0x7ffd_0000_0000 - depth * 64
}

/// Two threads: `main` calls `parse` twice and `write` once; another one works all the time.
fn sample() -> Writer {
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/shop").thread_name(7, 7, 0, "shop");
    writer.thread_name(7, 8, 0, "worker");
    let main = writer.function("/bin/shop", "main");
    let parse = writer.function("/bin/shop", "_ZN4shop5parseEPKc");
    let write = writer.function("/bin/shop", "_ZN4shop5writeEv");
    let work = writer.function("/bin/shop", "work");
    let (first, second) = (writer.thread(7, 7), writer.thread(7, 8));
    let mut call = |thread, function, depth, from: u64, to: u64| {
        writer.call(thread, function).from(from).to(to).slot(slot(depth)).end(End::Return);
    };
    call(first, parse, 1, 1_000, 3_000);
    call(first, parse, 1, 4_000, 5_000);
    call(first, write, 1, 6_000, 7_000);
    call(first, main, 0, 0, 8_000);
    call(second, work, 0, 0, 8_000);
    writer.header(layout::header::END_TICKS, 8_000);
    writer
}

/// What's on a screen of 100 by 14 after each of these keys.
fn screens(trace: &[u8], is_loaded: bool, keys: &[&[KeyCode]]) -> Vec<String> {
    let trace = Trace::parse(trace).unwrap();
    let names = Names::new(&trace);
    let progress = Progress::new(&trace, None);
    let loading = Loading::new(&names, &progress);
    if is_loaded {
        loading.load();
    }
    let mut app = App::new("t.mcount", &names, &loading, &[]);
    let mut terminal = Terminal::new(TestBackend::new(100, 14)).unwrap();
    let mut found = Vec::new();
    for keys in keys {
        terminal.draw(|frame| app.draw(frame)).unwrap();
        for key in *keys {
            assert!(app.key(KeyEvent::new(*key, KeyModifiers::NONE)));
        }
        terminal.draw(|frame| app.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines: Vec<String> = (0..buffer.area.height)
            .map(|y| {
                let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
                cells.collect::<String>().trim_end().to_owned()
            })
            .collect();
        found.push(lines.join("\n").trim_end().to_owned());
    }
    found
}

fn typed(text: &str) -> Vec<KeyCode> {
    let keys = text.chars().map(KeyCode::Char);
    std::iter::once(KeyCode::Char('/')).chain(keys).chain([KeyCode::Enter]).collect()
}

/// The lines between the first two and the last one.
fn body(screen: &str) -> Vec<&str> {
    let lines: Vec<&str> = screen.lines().collect();
    let body = &lines[2..lines.len() - 1];
    body.iter().copied().filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_tree_opens_and_closes() {
    let down = KeyCode::Down;
    let all = screens(&sample().finish(), true, &[&[], &[down, KeyCode::Right], &[KeyCode::Left]]);
    let head = "     TOTAL  SHARE       SELF      CALLS  FUNCTION";
    let closed = [
        head,
        " 16.000 us 100.0%   0.000 us          0  ▾ shop",
        "  8.000 us  50.0%   4.000 us          1    ▸ main",
        "  8.000 us  50.0%   8.000 us          1      work",
    ];
    assert_eq!(body(&all[0]), closed, "{}", all[0]);
    let open = [
        head,
        " 16.000 us 100.0%   0.000 us          0  ▾ shop",
        "  8.000 us  50.0%   4.000 us          1    ▾ main",
        "  3.000 us  18.7%   3.000 us          2        shop::parse",
        "  1.000 us   6.2%   1.000 us          1        shop::write",
        "  8.000 us  50.0%   8.000 us          1      work",
    ];
    assert_eq!(body(&all[1]), open, "{}", all[1]);
    assert_eq!(body(&all[2]), closed, "{}", all[2]);
    assert!(
        all[0].starts_with("t.mcount   1 Tree   2 Timeline   3 Functions   4 Source"),
        "{}",
        all[0]
    );
    assert!(all[0].ends_with("f function  s source"), "{}", all[0]);
}

#[test]
fn the_timeline_is_there_at_once() {
    let keys: &[&[KeyCode]] = &[&[KeyCode::Char('2')], &[KeyCode::Down; 1], &[KeyCode::Enter]];
    let all = screens(&sample().finish(), false, keys);
    let body = body(&all[0]);
    assert_eq!(body[0], "0.000 us to 8.000 us: 0.080 us a column");
    assert_eq!(body[1], "7 shop");
    // Each column is 80 ns: calls are where their times are.
    let parse = body[3].find('│').unwrap();
    assert!(body[2].starts_with("│main"), "{}", all[0]);
    assert!((12..=13).contains(&parse) && body[3].contains("│shop::parse"), "{}", all[0]);
    assert_eq!(body[3].matches("│shop::parse").count(), 2, "{}", all[0]);
    assert_eq!((body[4], body[5].starts_with("│work")), ("8 worker", true), "{}", all[0]);
    assert!(all[0].contains("main began at 0.000 us and took 8.000 us"), "{}", all[0]);
    // Nothing at that depth there: the deepest call counts. Its whole time is on the screen then.
    assert!(all[2].contains("0.000 us to 8.000 us"), "{}", all[2]);
    assert!(all[0].lines().nth(1).unwrap().starts_with("reading 5 calls: 0 %"), "{}", all[0]);
    let tree = screens(&sample().finish(), false, &[&[]]);
    assert!(tree[0].contains("mcount reads the calls"), "{}", tree[0]);
}

#[test]
fn zooming_keeps_the_cursor_where_it_is() {
    let bytes = sample().finish();
    let trace = Trace::parse(&bytes).unwrap();
    let mut line = Timeline::new(&trace);
    line.resize(100);
    for column in [0, 30, 99] {
        line.show_all();
        line.column = column;
        let mut spans = Vec::new();
        for _ in 0..40 {
            let time = line.time(line.column);
            line.zoom(true);
            spans.push(line.to - line.from);
            assert!(
                line.time(line.column).abs_diff(time) <= (line.to - line.from) / 50,
                "{column}"
            );
        }
        assert!(spans.is_sorted_by(|a, b| a >= b) && spans.last() == Some(&100), "{spans:?}");
        for _ in 0..40 {
            line.zoom(false);
        }
        assert_eq!((line.from, line.to), (0, 8_000));
    }
    for by in [-1_000, 4, 1_000] {
        line.pan(by);
        assert_eq!((line.from, line.to), (0, 8_000));
    }
}

#[test]
fn functions_are_sorted_and_found() {
    let keys: &[&[KeyCode]] = &[&[KeyCode::Char('3')], &[KeyCode::Char('c')], &typed("WRI")];
    let all = screens(&sample().finish(), true, keys);
    let names = |screen: &str| -> Vec<String> {
        let rows = body(screen).into_iter().skip(1);
        rows.map(|row| row.split_whitespace().last().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&all[0]), ["work", "main", "shop::parse", "shop::write"], "{}", all[0]);
    assert_eq!(names(&all[1])[0], "shop::parse", "{}", all[1]);
    assert!(all[1].contains("*CALLS") && !all[1].contains("*RUNNING"), "{}", all[1]);
    let found = screens(&sample().finish(), true, &[&typed("wri"), &[KeyCode::Char('s')]]);
    // Searching opens the way, and the source says why there's none.
    assert!(found[0].contains("shop::write"), "{}", found[0]);
    assert!(found[1].contains("shop::write(): /bin/shop: "), "{}", found[1]);
    let by_number = screens(&sample().finish(), true, &[&typed("wri"), &[KeyCode::Char('4')]]);
    assert!(by_number[1].contains("shop::write(): /bin/shop: "), "{}", by_number[1]);
    let missed = screens(&sample().finish(), true, &[&typed("nobody"), &typed("[")]);
    assert!(missed[0].ends_with("nobody isn't found here"), "{}", missed[0]);
    assert!(missed[1].lines().last().unwrap().contains('['), "{}", missed[1]);
}

#[test]
fn traces_without_anything() {
    let views: &[&[KeyCode]] =
        &[&[], &[KeyCode::Char('2')], &[KeyCode::Char('3')], &[KeyCode::Char('4')]];
    let keys = [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Enter,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Tab,
        KeyCode::Esc,
    ];
    let chars = "+-[]0nNsfjkhlgGrwtcmxa ".chars().map(KeyCode::Char);
    let every: Vec<KeyCode> = keys.into_iter().chain(chars).collect();
    let mut entries = sample();
    entries.header(layout::header::FLAGS, layout::flags::FINISHED | layout::flags::ENTRIES);
    for trace in [Writer::new().finish(), entries.finish(), sample().finish()] {
        for view in views {
            for is_loaded in [false, true] {
                let shown = screens(&trace, is_loaded, &[view, &every, &every]);
                assert_eq!(shown.len(), 3);
            }
        }
    }
}
