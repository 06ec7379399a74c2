//! `--counters`: which events of the processor can be counted, and whether programs may read their counters here.

use super::processor;
use mcount_agent::config::COUNTERS_COUNT as MOST;
use mcount_agent::{COUNTERS, Counter};
use mcount_cpu::counters::{Attributes, Counters, Page};
use nix::libc;
use std::io;

/// An event of the processor that's counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterName {
    name: String,
    kind: u32,
    config: u64,
}

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_HW_CACHE` and `PERF_TYPE_RAW` of `<linux/perf_event.h>`.
const HARDWARE: u32 = 0;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// Names as `perf list` has them. Numbers are those of `enum perf_hw_id` and, with `operation << 8` and `result << 16`, of `enum perf_hw_cache_id`
/// in `<linux/perf_event.h>`.
const NAMES: &[(&str, u32, u64)] = &[
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
    ("branches", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("bus-cycles", HARDWARE, 6),
    ("stalled-cycles-frontend", HARDWARE, 7),
    ("stalled-cycles-backend", HARDWARE, 8),
    ("ref-cycles", HARDWARE, 9),
    ("L1-dcache-loads", CACHE, 0),
    ("L1-dcache-load-misses", CACHE, 1 << 16),
    ("L1-icache-load-misses", CACHE, 1 | 1 << 16),
    ("LLC-loads", CACHE, 2),
    ("LLC-load-misses", CACHE, 2 | 1 << 16),
    ("dTLB-load-misses", CACHE, 3 | 1 << 16),
    ("iTLB-load-misses", CACHE, 4 | 1 << 16),
];

impl CounterName {
    /// Reads names with commas between them. `rHEX` is an event by its number, as the processor's manual has it.
    ///
    /// # Errors
    ///
    /// A name isn't known, or there are too many, or one comes twice; the text says which.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut found: Vec<Self> = Vec::new();
        for name in text.split(',').map(str::trim) {
            let one = Self::parse(name)?;
            if found.iter().any(|other| (other.kind, other.config) == (one.kind, one.config)) {
                return Err(format!("{name} is there twice"));
            }
            found.push(one);
        }
        if found.len() > MOST { Err(format!("at most {MOST} counters")) } else { Ok(found) }
    }

    fn parse(name: &str) -> Result<Self, String> {
        let known = NAMES.iter().find(|(known, ..)| *known == name);
        let raw = || u64::from_str_radix(name.strip_prefix('r')?, 16).ok();
        let event = known.map(|(_, kind, config)| (*kind, *config));
        let Some((kind, config)) = event.or_else(|| Some((RAW, raw()?))) else {
            let all: Vec<&str> = NAMES.iter().map(|(known, ..)| *known).collect();
            return Err(format!("no counter {name:?}: there are {}, and rHEX", all.join(", ")));
        };
        Ok(Self { name: name.to_owned(), kind, config })
    }

    /// What it's called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What the agent is told.
pub(super) fn configured(names: &[CounterName]) -> [Counter; MOST] {
    let mut found = [Counter::NONE; MOST];
    for (room, one) in found.iter_mut().zip(names) {
        *room = Counter { kind: u64::from(one.kind) + 1, config: one.config };
    }
    found
}

/// Can all of these be counted at once, and read by a program?
///
/// # Errors
///
/// They can't; the text says why, and what helps.
pub(super) fn check(names: &[CounterName]) -> io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let Some(reading) = COUNTERS else {
        return Err(io::Error::other(processor::missing("counters")));
    };
    let mut open = Vec::new();
    for one in names {
        let event = Event::open(one, &reading).map_err(|error| cannot(one, &error))?;
        let page = event.page();
        if page.capabilities & Page::CAN_READ == 0 {
            return Err(unreadable(one));
        }
        open.push((one, event));
    }
    // One that has no counter of its own would be counted by turns.
    match open.iter().find(|(_, event)| event.page().index == 0) {
        Some((one, _)) => Err(of(one, "the processor has no counter left for it: count fewer")),
        None => Ok(()),
    }
}

fn of(counter: &CounterName, text: &str) -> io::Error {
    io::Error::other(format!("--counters {}: {text}", counter.name))
}

fn cannot(counter: &CounterName, error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO | libc::EINVAL) => of(
            counter,
            "this machine doesn't count it, as many virtual machines don't: trace without it, or on another one",
        ),
        Some(libc::EACCES | libc::EPERM) => of(
            counter,
            "only root may count here: run as root, sysctl kernel.perf_event_paranoid=2",
        ),
        Some(libc::ENOSYS) => of(counter, "the kernel has no perf_event_open"),
        _ => of(counter, &error.to_string()),
    }
}

fn unreadable(counter: &CounterName) -> io::Error {
    const SETTING: &str = "/proc/sys/kernel/perf_user_access";
    let help = match std::fs::read_to_string(SETTING) {
        Ok(_) => "programs may not read counters: as root, sysctl kernel.perf_user_access=1",
        Err(_) => {
            "programs may not read counters: as root, echo 1 > /sys/bus/event_source/devices/cpu/rdpmc"
        }
    };
    of(counter, help)
}

/// An event of this thread.
struct Event(*const Page);

impl Event {
    #[expect(clippy::cast_possible_truncation, reason = "a file descriptor")]
    fn open(name: &CounterName, reading: &Counters) -> io::Result<Self> {
        const CLOEXEC: libc::c_ulong = 8;
        let mut error = io::Error::from_raw_os_error(libc::ENODEV);
        for config1 in reading.config1 {
            let attributes = Attributes::new(name.kind, name.config, *config1);
            // SAFETY: the structure is only read.
            let file = unsafe {
                libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, CLOEXEC)
            };
            if file < 0 {
                error = io::Error::last_os_error();
                continue;
            }
            // SAFETY: a new mapping, of a file that's open; it's closed once.
            let page = unsafe {
                let (size, flags) = (Self::size(), libc::MAP_SHARED);
                let page =
                    libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, flags, file as i32, 0);
                libc::close(file as i32);
                page
            };
            if page == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            return Ok(Self(page.cast_const().cast()));
        }
        Err(error)
    }

    /// Its page is one of the system's.
    fn size() -> usize {
        // SAFETY: takes a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).unwrap_or(4096)
    }

    fn page(&self) -> Page {
        // SAFETY: it's mapped.
        unsafe { self.0.read_volatile() }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was mapped, and nobody else has it.
        unsafe { libc::munmap(self.0.cast_mut().cast(), Self::size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let found = CounterName::parse_list("cycles, LLC-load-misses,r01c2").unwrap();
        let found: Vec<_> = found.iter().map(|one| (one.name(), one.kind, one.config)).collect();
        let expected = [("cycles", 0, 0), ("LLC-load-misses", 3, 0x1_0002), ("r01c2", 4, 0x1c2)];
        assert_eq!(found, expected);
        for (text, error) in [
            ("cycle", "no counter \"cycle\""),
            ("", "no counter \"\""),
            ("cycles,cycles", "twice"),
            ("r1,r2,r3,r4,r5", "at most 4"),
            ("rxyz", "no counter"),
        ] {
            let found = CounterName::parse_list(text).unwrap_err();
            assert!(found.contains(error), "{found}");
        }
    }
}
