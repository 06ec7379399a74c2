//! `mcount tui`: a trace on a terminal, as a tree of calls, a timeline of threads, a table of functions, and sources.
//!
//! A long trace is on the screen at once: the timeline reads what is under its columns, and the tree and the table are made by other
//! threads while one looks.

mod app;
mod draw;
mod functions;
mod load;
mod search;
mod source;
#[cfg(test)]
mod tests;
mod timeline;
mod tree;

use crate::replay::{Names, Progress};
use app::App;
use load::Loading;
use mcount_trace::Trace;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_usize;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long nothing has to happen for the screen to be drawn again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Shows a trace on the terminal until the user has enough of it, or a signal ends this: which one. `missing` says what the trace
/// lacks.
///
/// # Errors
///
/// Those of the terminal.
pub fn run(
    title: &str,
    trace: &Trace<'_>,
    missing: &[String],
    progress: &Progress<'_>,
) -> io::Result<Option<i32>> {
    let names = Names::new(trace);
    let loading = Loading::new(&names, progress);
    std::thread::scope(|scope| {
        scope.spawn(|| loading.load());
        let result = show(&mut App::new(title, &names, &loading, missing));
        progress.stop();
        result
    })
}

/// Lets the application have the terminal, which is as before in the end, also if this panics.
fn show(app: &mut App<'_, '_>) -> io::Result<Option<i32>> {
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGHUP, SIGINT, SIGTERM] {
        register_usize(number, Arc::clone(&signal), usize::try_from(number).unwrap_or(0))?;
    }
    let mut terminal = ratatui::try_init()?;
    let result = turns(&mut terminal, app, &signal);
    ratatui::try_restore()?;
    result
}

/// Waits for a key. `false` if the terminal is gone: then crossterm would read its end again and again.
fn wait(patience: Duration) -> io::Result<bool> {
    let input = io::stdin();
    let mut files = [PollFd::new(&input, PollFlags::IN)];
    let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    match poll(&mut files, Some(&patience)) {
        Err(error) if error != Errno::INTR => return Err(error.into()),
        _ => {}
    }
    let is_gone = PollFlags::HUP | PollFlags::ERR;
    Ok(!files.iter().any(|file| file.revents().intersects(is_gone)))
}

fn turns(
    terminal: &mut DefaultTerminal,
    app: &mut App<'_, '_>,
    signal: &AtomicUsize,
) -> io::Result<Option<i32>> {
    loop {
        terminal.draw(|frame| app.draw(frame))?;
        let patience = if app.is_reading { Duration::ZERO } else { PATIENCE };
        if !wait(patience)? {
            return Ok(Some(SIGHUP));
        }
        let is_ready = match event::poll(Duration::ZERO) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            result => result?,
        };
        match signal.load(Ordering::Relaxed) {
            0 => {}
            number => return Ok(i32::try_from(number).ok()),
        }
        if is_ready
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && !app.key(key)
        {
            return Ok(None);
        }
    }
}
