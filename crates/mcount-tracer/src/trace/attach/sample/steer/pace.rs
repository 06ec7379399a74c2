//! What windows of a group take, and how long they are to be.

use super::super::random::float;
use super::NEW;
use std::cmp::Ordering;

/// How many times as much all of its calls take as arming, at least and at most.
const USUAL: [f64; 2] = [2.0, 8.0];
/// Of functions that are called most often: how many times as much calls within it take as all else, among it calls while it's about to begin. If
/// calls come alike at all times, longer windows tell as much for less; if they come in phases, more of them do. About half of what it costs buys either.
const BUSY: [f64; 2] = [0.5, 1.0];

/// What windows of a group take, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    windows: u64,
    /// How long they are.
    pub(super) length: f64,
    /// Recording, what this process does however many calls there are, and what it does for calls.
    recording: f64,
    pub(super) arming: f64,
    reading: f64,
    /// The part of all recorded calls that began in it, and not while it was about to begin or end.
    within: f64,
}

impl Pace {
    pub(super) fn new(length: f64) -> Self {
        Self { windows: 0, length, recording: 0.0, arming: 0.0, reading: 0.0, within: 0.0 }
    }

    /// What calls take, as seconds of the program's time; nothing of a program that only waits.
    pub(super) fn of_calls(&self, load: f64) -> f64 {
        self.recording / load + self.reading
    }

    /// Whether its calls take less than they should of what it takes, or more: then it's to be longer, or shorter.
    pub(super) fn balance(&self, load: f64, is_busy: bool) -> Ordering {
        let calls = self.of_calls(load);
        let (part, [least, most]) = if is_busy {
            let within = calls * self.within;
            (within / (self.arming + calls - within).max(1e-9), BUSY)
        } else {
            (calls / self.arming.max(1e-9), USUAL)
        };
        if part < least {
            Ordering::Less
        } else if part > most {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }

    /// One took so much.
    pub(super) fn mix(&mut self, [recording, arming, reading, within]: [f64; 4]) {
        self.windows += 1;
        // The first ones count alike.
        let part = NEW.max(1.0 / float(self.windows));
        let mix = |mean: &mut f64, new: f64| *mean += part * (new - *mean);
        mix(&mut self.recording, recording);
        // What takes long once isn't what arming takes: windows would be long, and few.
        let most = if self.windows == 1 { f64::INFINITY } else { self.arming * 2.0 };
        mix(&mut self.arming, arming.min(most));
        mix(&mut self.reading, reading);
        mix(&mut self.within, within);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arming takes 1 ms.
    fn balance(calls: f64, within: f64, is_busy: bool) -> Ordering {
        let mut pace = Pace::new(0.001);
        // Recording takes a quarter of what calls take, of a program that has half of a processor.
        pace.mix([calls / 4.0, 0.001, calls / 2.0, within]);
        pace.balance(0.5, is_busy)
    }

    #[test]
    fn windows_are_longer_where_little_is_called() {
        let usual = [0.0015, 0.004, 0.009].map(|calls| balance(calls, 0.9, false));
        // Of 5 ms, so much is within windows: 1, 2, or 3.
        let busy = [0.25, 0.5, 0.75].map(|within| balance(0.004, within, true));
        let expected = [Ordering::Less, Ordering::Equal, Ordering::Greater];
        assert_eq!([usual, busy], [expected; 2]);
    }
}
