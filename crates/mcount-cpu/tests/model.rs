//! Every moment at which a thread can run into a site that is being changed.
//!
//! A model instead of threads, because processors show their worst only once in years. What one step writes, another
//! processor may see byte by byte in any order: so of the bytes of the step under way, any set is new and the rest is
//! old. Between two steps all processors are told, and see the same. Threads take instructions apart one by one, and stand
//! between two of them for as long as they like. All that is tried, for every form of site, forwards, and backwards
//! after a write that fails anywhere.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_cpu::engine::{Change, Code, Step, change};
use mcount_cpu::x86_64::code::{
    ALL_STAND, Area, BY_BREAKPOINT, BY_ONE_BYTE, SITE, armed, behind_trap, idle, is_one_instruction,
};
use std::collections::BTreeSet;

const AREA: usize = 24;
const START: u64 = 0x1000;
const STUB: u64 = 0x0070_1234;

/// What a hook is as compilers leave it: its bytes, and where its instructions end.
const FORMS: &[(&[u8], &[usize])] = &[
    (&[0x0f, 0x1f, 0x44, 0x00, 0x08], &[5]),
    (&[0x0f, 0x1f, 0x44, 0x00, 0x00], &[5]),
    (&[0xe8, 0x11, 0x22, 0x33, 0x44], &[5]),
    (&[0x67, 0xe8, 0x11, 0x22, 0x33, 0x44], &[6]),
    (&[0xff, 0x15, 0x11, 0x22, 0x33, 0x44], &[6]),
    (&[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00], &[6]),
    (&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00], &[10]),
    (&[0x90; 5], &[1, 2, 3, 4, 5]),
    (&[0x66, 0x90, 0x0f, 0x1f, 0x00], &[2, 5]),
    (&[0x0f, 0x1f, 0x40, 0x00, 0x66, 0x90, 0x90], &[4, 6, 7]),
];

/// A thread that runs behind the site.
const THROUGH: usize = usize::MAX;

/// One state of the site: its bytes, and where its instructions end.
#[derive(Clone)]
struct State {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl State {
    /// The instruction at `at`, if one begins there.
    fn instruction(&self, at: usize) -> Option<&[u8]> {
        let is_start = at == 0 || self.ends.contains(&at);
        let end = self.ends.iter().find(|end| **end > at)?;
        is_start.then(|| &self.bytes[at..*end])
    }
}

/// The memory of one site, and the threads that may be in it.
struct Model {
    states: Vec<State>,
    /// What all processors see.
    seen: Vec<u8>,
    /// What is being written.
    written: Vec<u8>,
    /// Where a thread may stand.
    threads: BTreeSet<usize>,
    /// Writes until one fails.
    left: usize,
    wrong: Option<String>,
}

impl Model {
    fn new(states: &[State], left: usize) -> Self {
        let seen = states[0].bytes.clone();
        let threads = BTreeSet::from([0]);
        let states = states.to_vec();
        let mut model = Self { written: seen.clone(), states, seen, threads, left, wrong: None };
        model.run();
        model
    }

    /// Lets threads run as far as they can, whichever of the bytes under way they see.
    fn run(&mut self) {
        let differ: Vec<usize> =
            (0..self.seen.len()).filter(|at| self.seen[*at] != self.written[*at]).collect();
        for set in 0..1_u32 << differ.len() {
            let mut bytes = self.seen.clone();
            for (bit, at) in differ.iter().enumerate() {
                if set >> bit & 1 != 0 {
                    bytes[*at] = self.written[*at];
                }
            }
            let mut left: Vec<usize> = self.threads.iter().copied().collect();
            while let Some(at) = left.pop() {
                if let Some(next) = self.step(&bytes, at)
                    && self.threads.insert(next)
                {
                    left.push(next);
                }
            }
        }
    }

    /// Where a thread at `at` is afterwards.
    fn step(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        if at >= bytes.len() {
            return Some(THROUGH);
        }
        if at == 0 && bytes[0] == 0xcc {
            let behind = behind_trap(START, bytes.len()) - START;
            return usize::try_from(behind).ok();
        }
        let whole = self.states.iter().find_map(|state| {
            let instruction = state.instruction(at)?;
            bytes[at..].starts_with(instruction).then_some(at + instruction.len())
        });
        match whole {
            Some(_) if bytes[at] == 0xe9 => Some(THROUGH),
            Some(next) => Some(next),
            None => {
                self.wrong.get_or_insert_with(|| format!("{bytes:02x?} at {at}"));
                None
            }
        }
    }
}

impl Code for Model {
    type Error = ();

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), ()> {
        let at = usize::try_from(address - START).unwrap();
        let fails = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        // A write that fails may have got somewhere.
        let count = if fails { bytes.len() / 2 } else { bytes.len() };
        self.written[at..at + count].copy_from_slice(&bytes[..count]);
        self.run();
        if fails { Err(()) } else { Ok(()) }
    }

    fn synchronize(&mut self) -> Result<(), ()> {
        let fails = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        if fails {
            return Err(());
        }
        self.seen.clone_from(&self.written);
        self.run();
        Ok(())
    }
}

/// What threads can see that is wrong, whichever write fails, or none.
fn wrong(states: &[State], steps: &[Step]) -> Option<String> {
    let wide = |state: &State| {
        let mut bytes = [0; AREA];
        bytes[..state.bytes.len()].copy_from_slice(&state.bytes);
        bytes
    };
    let length = states[0].bytes.len();
    let one = Change { address: START, length, from: wide(&states[0]), to: wide(&states[1]) };
    for left in (0..2 * steps.len()).chain([usize::MAX]) {
        let mut model = Model::new(states, left);
        let result = change(&mut model, steps, &[one]);
        if let Some(wrong) = model.wrong {
            return Some(format!("{left}: {wrong}"));
        }
        let ends_as = &states[usize::from(result.is_ok())].bytes;
        assert_eq!(&model.written, ends_as, "{left}: {result:?}");
        assert!(left < usize::MAX || result.is_ok());
    }
    None
}

/// The state that an area of `length` bytes gets, with this as its first instruction.
fn state(length: usize, first: [u8; SITE]) -> State {
    let mut bytes = Area { start: 0, length, is_call: false }.idle()[..length].to_vec();
    bytes[..SITE].copy_from_slice(&first);
    // What fills the rest has up to nine bytes; see `Area::filled_behind`.
    let ends = if length > SITE { vec![SITE, length] } else { vec![SITE] };
    State { bytes, ends }
}

/// Whether the hooks in question are one instruction, and all they can become.
fn forms(are_one: bool) -> Vec<[State; 2]> {
    let is_it = |bytes: &[u8]| is_one_instruction(bytes, bytes.len()) == are_one;
    let mut found = Vec::new();
    for (bytes, ends) in FORMS.iter().filter(|(bytes, _)| is_it(bytes)) {
        for first in [idle(START, STUB).unwrap(), armed(START, STUB).unwrap()] {
            let from = State { bytes: bytes.to_vec(), ends: ends.to_vec() };
            found.push([from, state(bytes.len(), first)]);
        }
    }
    found
}

#[test]
fn idle_and_armed_are_never_mixed() {
    let idle = state(SITE, idle(START, STUB).unwrap());
    let armed = state(SITE, armed(START, STUB).unwrap());
    for steps in [BY_ONE_BYTE, BY_BREAKPOINT] {
        assert_eq!(wrong(&[idle.clone(), armed.clone()], steps), None);
        assert_eq!(wrong(&[armed.clone(), idle.clone()], steps), None);
    }
}

#[test]
fn a_hook_of_one_instruction_is_never_mixed_with_what_it_becomes() {
    let forms = forms(true);
    assert_eq!(forms.len(), 14);
    for states in forms {
        assert_eq!(wrong(&states, BY_BREAKPOINT), None, "{:02x?}", states[0].bytes);
    }
}

/// The model finds what is wrong: that's what the other tests stand on.
#[test]
fn what_must_not_be_done_is_wrong() {
    let forms = forms(false);
    assert_eq!(forms.len(), 6);
    for states in &forms {
        assert!(wrong(states, BY_BREAKPOINT).is_some(), "{:02x?}", states[0].bytes);
    }
    for states in self::forms(true).iter().chain(&forms) {
        assert!(wrong(states, ALL_STAND).is_some(), "{:02x?}", states[0].bytes);
    }
    // The order of the steps is what makes it right.
    let [trap, rest, first] = BY_BREAKPOINT else { panic!() };
    let [from, to] = &self::forms(true)[0];
    let states = [from.clone(), to.clone()];
    for steps in [[*rest, *trap, *first], [*trap, *first, *rest]] {
        assert!(wrong(&states, &steps).is_some());
    }
}
