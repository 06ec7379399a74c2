//! What pointers lead to: structures, lists and trees, as the words of a recipe say (`mcount_cpu::recipe`).
//!
//! A target is copied by one system call into the record of the call, and what it leads to is read from there. So a pointer that changes
//! meanwhile is read once, and no address of the program's is ever loaded from. Words are nested. The stack of a signal handler can
//! be small, so this doesn't call itself.
//!
//! All of it ends: what is copied has to find room in the record, and the agent leaves a tree after [`MOST_NODES`].

use crate::registers::{Registers, read};
use crate::texts::{Text, text};
use mcount_layout::{target, value};
use mcount_recorder::abi::recipe::{
    CASE, COUNTED, COUNTS, DEEPEST, FIELD, FOLLOW, LIST, NONE_OF, TEXT, TREE, WITHIN,
};
use mcount_recorder::payload::Values;

/// How many nodes of a tree are looked at.
const MOST_NODES: usize = 256;
/// No list of a program is that long, in bytes.
const LONGEST: u64 = 1 << 47;
/// How much of a node is read for the addresses of its neighbours.
const NODE: usize = 64;

/// Words that are about bytes in the record. All numbers are small: there are several of these on the stack.
#[derive(Clone, Copy)]
struct Body {
    first: u16,
    end: u16,
    /// How many more elements they are about, and how far these are from each other.
    left: u16,
    size: u16,
    /// Where the bytes are that the words around them are about.
    outer: u16,
}

/// The next step.
struct Step {
    /// How many words were read.
    words: usize,
    /// How many words come that are about what was copied, which may be skipped.
    body: usize,
    /// How many elements they are about, and the size of each.
    times: usize,
    size: usize,
    /// Where the first one is.
    at: usize,
}

/// Does what the first word says, and those that belong to it; how many these are.
pub(crate) fn follow(values: &mut Values, words: &[u64], registers: &Registers) -> usize {
    let mut bodies = [Body { first: 0, end: 0, left: 0, size: 0, outer: 0 }; DEEPEST];
    let (mut depth, mut at, mut base) = (0, 0, 0);
    while at < words.len() && !values.is_full() {
        let mut machine = Machine { values: &mut *values, registers, base };
        let step = machine.step(words.get(at..).unwrap_or_default());
        at += step.words;
        let body = bodies.get_mut(depth).filter(|_| step.times != 0 && step.body != 0);
        if let Some(body) = body {
            *body = Body {
                first: at as u16,
                end: (at + step.body) as u16,
                left: (step.times - 1) as u16,
                size: step.size as u16,
                outer: base as u16,
            };
            base = step.at;
            depth += 1;
        } else {
            at += step.body;
        }
        while let Some(body) = depth.checked_sub(1).and_then(|last| bodies.get_mut(last)) {
            if at < usize::from(body.end) {
                break;
            }
            if body.left != 0 {
                body.left -= 1;
                base += usize::from(body.size);
                at = usize::from(body.first);
                break;
            }
            base = usize::from(body.outer);
            depth -= 1;
        }
        if depth == 0 {
            return at;
        }
    }
    // Nothing more has room.
    words.len()
}

struct Machine<'a> {
    values: &'a mut Values,
    registers: &'a Registers,
    /// Where the bytes are that words are about.
    base: usize,
}

impl Machine<'_> {
    fn step(&mut self, words: &[u64]) -> Step {
        let word = words.first().copied().unwrap_or(0);
        let more = words.get(1).copied().unwrap_or(0);
        let (from, at) = (word >> 8 & 0xff, word >> 32 & 0xffff);
        let limit = word >> 24 & 0xff;
        match word & 0xff {
            TEXT => {
                let wanted = Text::ended(self.word(from, at)).limited(limit);
                text(self.values, &wanted.of_field());
            }
            COUNTED => {
                let length = self.word(word >> 16 & 0xff, word >> 48);
                let wanted = Text::counted(self.word(from, at), length).limited(limit);
                text(self.values, &wanted.of_field());
            }
            FOLLOW => return self.target((from, at), more),
            LIST => return self.list(word, more),
            TREE => return self.tree(word, more, words.get(2).copied().unwrap_or(0)),
            WITHIN => {
                let start = self.values.used().saturating_sub(at as usize);
                return Step {
                    words: 1,
                    body: (word >> 48) as usize,
                    times: 1,
                    size: 0,
                    at: start,
                };
            }
            CASE => return self.case(word, words),
            _ => {}
        }
        Step { words: 1, body: 0, times: 0, size: 0, at: 0 }
    }

    fn word(&self, source: u64, at: u64) -> u64 {
        if source == FIELD { self.number(at, 8) } else { self.registers.word(source, at) }
    }

    /// A number in the bytes that words are about.
    fn number(&self, at: u64, size: usize) -> u64 {
        let mut bytes = [0; 8];
        let found = self.values.added(self.base + at as usize).iter();
        bytes.iter_mut().take(size).zip(found).for_each(|(room, byte)| *room = *byte);
        u64::from_le_bytes(bytes)
    }

    /// Adds a pointer's target.
    fn target(&mut self, (source, at): (u64, u64), more: u64) -> Step {
        let pointer = self.word(source, at);
        if source != FIELD {
            self.values.add(&pointer.to_le_bytes());
        }
        let (size, body) = ((more & 0xffff) as usize, (more >> 32 & 0xffff) as usize);
        let start = self.values.used() + 1;
        let mut found = target::NONE;
        if let Some((state, room)) = self.values.free(1 + size).and_then(<[u8]>::split_first_mut)
            && pointer != 0
        {
            found = if read(pointer, room) == size { target::READ } else { target::BAD };
            *state = found;
        }
        let is_read = found == target::READ;
        if is_read {
            self.values.keep(1 + size);
        } else {
            self.values.add(&[found]);
        }
        Step { words: 2, body, times: usize::from(is_read), size: 0, at: start }
    }

    /// Adds the elements of a list.
    fn list(&mut self, word: u64, more: u64) -> Step {
        let first = self.word(word >> 8 & 0xff, word >> 32 & 0xffff);
        let second = self.word(word >> 16 & 0xff, word >> 48);
        let (size, most) = (more & 0xffff, more >> 16 & 0xffff);
        let bytes = second.wrapping_sub(first);
        let count = match word & COUNTS {
            0 if bytes > LONGEST => 0,
            0 => bytes / size.max(1),
            _ => second,
        };
        let is_bad = word & COUNTS == 0 && bytes > LONGEST;
        self.values.add(&count.to_le_bytes());
        let head = self.values.used();
        self.values.add(&[0; 2]);
        let size = size as usize;
        let room = (self.values.room() / size.max(1)) as u64;
        let wanted = count.min(most).min(room) as usize;
        let room = self.values.free(wanted * size).unwrap_or_default();
        let read = if room.is_empty() { 0 } else { read(first, room) };
        let found = read.checked_div(size).unwrap_or(0);
        let bad = if is_bad || read < wanted * size { value::BAD } else { 0 };
        self.values.set_head(head, found as u16 | bad);
        self.values.keep(found * size);
        Step { words: 2, body: (more >> 32 & 0xffff) as usize, times: found, size, at: head + 2 }
    }

    /// Adds the values of a tree.
    fn tree(&mut self, word: u64, more: u64, links: u64) -> Step {
        let mut node = self.number(word >> 32 & 0xffff, 8);
        let count = self.number(word >> 48, 8);
        let (size, most) = ((more & 0xffff) as usize, more >> 16 & 0xffff);
        let mut tree = Tree { links, left: MOST_NODES };
        self.values.add(&count.to_le_bytes());
        let head = self.values.used();
        self.values.add(&[0; 2]);
        let room = (self.values.room() / size.max(1)) as u64;
        let wanted = if size == 0 { 0 } else { count.min(most).min(room) };
        let mut found = 0;
        while found < wanted {
            let place = node.wrapping_add(more >> 48);
            let is_read = self.values.free(size).is_some_and(|room| read(place, room) == size);
            if !is_read {
                break;
            }
            self.values.keep(size);
            found += 1;
            if found < wanted {
                let Some(next) = tree.next(node) else { break };
                node = next;
            }
        }
        let bad = if found < wanted { value::BAD } else { 0 };
        self.values.set_head(head, found as u16 | bad);
        let body = (more >> 32 & 0xffff) as usize;
        Step { words: 3, body, times: found as usize, size, at: head + 2 }
    }

    /// Whether a number is one of some.
    fn case(&mut self, word: u64, words: &[u64]) -> Step {
        let count = (word >> 16 & 0xff) as usize;
        let number = self.number(word >> 32 & 0xffff, (word >> 24 & 0xff) as usize);
        let is_one = words.iter().skip(1).take(count).any(|one| *one == number);
        let is_meant = is_one == (word & NONE_OF == 0);
        let (body, at) = ((word >> 48) as usize, self.base);
        Step { words: 1 + count, body, times: usize::from(is_meant), size: 0, at }
    }
}

/// A binary tree.
struct Tree {
    /// Where in a node the addresses of the parent, the left and the right child are.
    links: u64,
    /// How many more nodes are looked at: some may lead to each other.
    left: usize,
}

impl Tree {
    /// The address that a node has there.
    fn link(&mut self, node: u64, shift: u32) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let at = (self.links >> shift & 0xffff) as usize;
        let mut bytes = [0; NODE];
        let room = bytes.get_mut(..at + 8)?;
        if read(node, room) != at + 8 {
            return None;
        }
        Some(u64::from_le_bytes(*room.last_chunk()?))
    }

    fn parent(&mut self, node: u64) -> Option<u64> {
        self.link(node, 0)
    }

    fn left(&mut self, node: u64) -> Option<u64> {
        self.link(node, 16)
    }

    fn right(&mut self, node: u64) -> Option<u64> {
        self.link(node, 32)
    }

    /// The node behind this one.
    fn next(&mut self, node: u64) -> Option<u64> {
        let mut next = self.right(node)?;
        if next != 0 {
            loop {
                let left = self.left(next)?;
                if left == 0 {
                    return Some(next);
                }
                next = left;
            }
        }
        let mut below = node;
        loop {
            next = self.parent(below)?;
            if self.right(next)? != below {
                return Some(next);
            }
            below = next;
        }
    }
}
