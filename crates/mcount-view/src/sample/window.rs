//! Windows, as whoever opens them describes them.

use super::Load;

/// A function that isn't armed in every window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chance {
    /// Its number.
    pub function: u32,
    /// How likely it was to be armed in this window.
    pub chance: f64,
    /// It was.
    pub is_armed: bool,
}

/// Which functions are armed in a window that has only some of them, drawn by lot: half of them, a quarter, or less.
#[derive(Debug, Clone, Copy)]
pub struct Thinned {
    /// The number that is drawn for the window.
    pub seed: u64,
    /// How often all functions are halved.
    pub halvings: u32,
    /// Whether these two say so of a function.
    pub has: fn(u64, u32, u32) -> bool,
}

impl Thinned {
    pub(super) fn has(self, function: u32) -> bool {
        (self.has)(self.seed, self.halvings, function)
    }
}

/// A window: all functions of its group were armed.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Ticks from which on its load was measured. Its hooks had been armed before, and were for as long as the load says.
    pub measured: u64,
    /// Ticks when it began.
    pub start: u64,
    /// How many ticks it took. Calls that began later don't count, even if hooks were armed for longer.
    pub length: u64,
    /// The mean of the gaps at that time, in seconds.
    pub gap: f64,
    /// The group whose functions were armed, drawn among all groups.
    pub group: u32,
    /// How likely it was to be drawn; 0 is 1.
    pub odds: f64,
    /// Functions of the group that aren't armed in every window of it.
    pub chances: Vec<Chance>,
    /// Only some of them were armed.
    pub thinned: Option<Thinned>,
    /// How likely each function was to be armed, before it was drawn whether only some are; 1 if all were certain to be.
    pub likely: f64,
    /// Its functions are called so often that recording takes much of the program's time.
    pub is_busy: bool,
    /// What was before it, if there are witnesses.
    pub quiet: Option<Quiet>,
    /// What the program used meanwhile.
    pub load: Load,
}

/// A time right before a window, in which only some functions were armed: witnesses, which tell how much slower the program is in the window.
#[derive(Debug, Clone, Default)]
pub struct Quiet {
    /// Ticks when it began.
    pub start: u64,
    /// Ticks when it ended.
    pub end: u64,
    /// The witnesses.
    pub witnesses: Vec<u32>,
}

impl Window {
    /// How many times as much it counts for functions of its group as for those that are armed in every window.
    pub(super) fn times(&self) -> f64 {
        if self.odds > 0.0 { 1.0 / self.odds } else { 1.0 }
    }
}
