//! Programs that forbid themselves system calls (seccomp): the agent is to make none that a filter ends the program for.
//!
//! The C library's functions by which a program does that, `prctl` and `syscall`, call the agent first, which asks here. If
//! the filter forbids something that the agent needs, the agent makes ready what the thread's calls will need, and does without
//! from then on; what can't be recorded so is counted. Filters last: threads and processes that are made begin with them, and so do
//! programs that are executed. That's seen where these stop for the first time.
//!
//! In the strict mode, the processor's clock mayn't be read either; it's read here then.

use super::file::clock;
use super::modules::Module;
use super::sandbox;
use super::space::Space;
use super::start::Untraced;
use super::tracee::{Memory, Tracee};
use super::{Process, Recorder};
use mcount_agent::question;
use mcount_live::x86_64 as code;
use nix::libc;
use std::io;

/// The answer if nothing is forbidden that the agent needs.
const FINE: u64 = 0;
/// The most of a stack that's made ready, in bytes.
const MOST: u64 = 8 << 20;
/// `rdtsc`.
const READ_CLOCK: [u8; 2] = [0x0f, 0x31];
/// Bytes of code that may be moved, at most.
const MOVED: usize = code::STUB_KIND - 2 * code::SITE;

/// What programs take on in a sandbox.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Confinement {
    /// Filters that are known to forbid nothing that the agent needs.
    harmless: u64,
    /// There has been one that does.
    pub(super) has_been: bool,
}

impl Recorder {
    /// Answers a thread that is going to forbid itself system calls. `false` if it has asked for something else.
    pub(super) fn answered(&mut self, thread: Tracee) -> bool {
        let id = self.threads.get(&thread.id()).copied();
        let Some(process) = id.and_then(|id| self.processes.get_mut(&id)) else { return false };
        let placed = process.space.borrow().agent.as_ref().map(|placed| placed.bias);
        let Some(at) = placed.map(|bias| bias + self.agent.symbols.question) else { return false };
        let word = |offset: u64| process.memory.word(at + offset).unwrap_or(0);
        let asks = thread.registers().map_or(0, |registers| registers.rsi & 0xffff_ffff);
        if asks == 0 || word(question::THREAD) != asks {
            return false;
        }
        let (mode, stack) = (word(question::MODE), word(question::STACK));
        let has_values = self.request.scope.has_values();
        let is_harmless = mode == 2
            && read_filter(&process.memory, word(question::FILTER))
                .is_ok_and(|filter| sandbox::allows_tracing(&filter, has_values));
        let answer = if is_harmless {
            process.confinement.harmless += 1;
            FINE
        } else {
            process.confinement.has_been = true;
            self.is_confined = true;
            lowest(thread.id(), stack).unwrap_or(stack)
        };
        // It does without an answer, too.
        let _ = process.memory.write(at + question::ANSWER, &answer.to_le_bytes());
        true
    }

    /// Does a new thread of `process` begin with something forbidden that the agent needs?
    pub(super) fn begins_confined(&self, thread: Tracee, process: &Process) -> bool {
        let Confinement { harmless, has_been } = process.confinement;
        let is_first = self.threads.get(&thread.id()) == Some(&thread.id());
        // Threads are many. Where nobody has asked, none has a filter.
        (is_first || has_been || harmless != 0)
            && sandbox::filters_of(thread.id()) > self.own_filters + harmless
    }

    /// What `thread` has taken on, which has just executed a program.
    ///
    /// # Errors
    ///
    /// Something is forbidden that the agent needs, or that isn't known.
    pub(super) fn confinement_at_exec(&self, thread: Tracee) -> Result<Confinement, Untraced> {
        let before = self.processes.get(&thread.id());
        let before = before.map_or(0, |process| process.confinement.harmless);
        let filters = sandbox::filters_of(thread.id());
        if filters > self.own_filters + before
            && !sandbox::lets_begin(thread.id(), self.request.scope.has_values())
        {
            return Err(Untraced::Confined);
        }
        let harmless = filters.saturating_sub(self.own_filters);
        Ok(Confinement { harmless, has_been: false })
    }

    /// Did `thread` get a fault because its process may not read the clock? Then it's given the time.
    pub(super) fn gave_time(&self, thread: Tracee) -> bool {
        let process = self.threads.get(&thread.id()).and_then(|id| self.processes.get(id));
        let Some(process) = process else { return false };
        let Some(bias) = process.space.borrow().agent.as_ref().map(|placed| placed.bias) else {
            return false;
        };
        let Ok(mut registers) = thread.registers() else { return false };
        let mut bytes = [0; 2];
        if !(bias..bias + self.agent.symbols.stubs).contains(&registers.rip)
            || process.memory.read(registers.rip, &mut bytes).is_err()
            || bytes != READ_CLOCK
        {
            return false;
        }
        let now = clock();
        registers.rax = now & 0xffff_ffff;
        registers.rdx = now >> 32;
        registers.rip += READ_CLOCK.len() as u64;
        thread.set_registers(&registers).is_ok()
    }
}

impl Space {
    /// Has the functions of `module` by which a program forbids itself something call the agent first. No thread runs there.
    pub(super) fn watch(
        &mut self,
        memory: &Memory,
        watch: u64,
        module: &Module,
        bias: u64,
    ) -> io::Result<()> {
        let Some(placed) = &mut self.agent else { return Ok(()) };
        let watch = placed.bias + watch;
        for (function, bytes) in &module.confining {
            let start = if bytes.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
            let moved = bytes.get(start..).and_then(movable);
            let place = bias + function + start as u64;
            let has_hook = module.hooks.iter().any(|hook| hook.function == *function);
            let Some(moved) = moved.filter(|_| !has_hook) else { continue };
            let Some(at) = placed.stubs.take(code::STUB as u64) else { continue };
            let behind = at + (code::SITE + moved.len()) as u64;
            let back = code::armed(behind, place + moved.len() as u64);
            let (Some(jump), Some([_, distance @ ..]), Some(back)) =
                (code::armed(place, at), code::armed(at, watch), back)
            else {
                continue;
            };
            // A call has the form of a jump.
            memory.write(at, &[&[0xe8], distance.as_slice(), moved, &back].concat())?;
            memory.write(place, &jump)?;
        }
        Ok(())
    }
}

/// The instructions that `code` begins with, as far as a jump takes their place; `None` if one of them depends on where it is,
/// or isn't known here. They're what compilers begin functions with.
fn movable(code: &[u8]) -> Option<&[u8]> {
    let mut length = 0;
    while length < code::SITE {
        length += instruction(code.get(length..)?)?;
    }
    code.get(..length).filter(|moved| moved.len() <= MOVED)
}

/// The length of a `push`, of a `sub` from the stack pointer, or of a `mov` between registers and the stack.
fn instruction(code: &[u8]) -> Option<usize> {
    let (prefix, rest) = match code {
        [0x40..=0x4f, rest @ ..] => (1, rest),
        _ => (0, code),
    };
    let length = match rest {
        [0x50..=0x57, ..] => 1,
        [0xb8..=0xbf, ..]
            if code.first().is_some_and(|prefix| prefix & 8 == 0 || *prefix > 0x4f) =>
        {
            5
        }
        [0x83, 0xec, _, ..] => 3,
        [0x81, 0xec, _, _, _, _, ..] => 6,
        // mod 3: two registers; mod 1 and the stack pointer: a byte more, and one for the distance.
        [0x89 | 0x8b | 0x63, 0xc0..=0xff, ..] => 2,
        [0x89 | 0x8b | 0x8d, form, 0x24, _, ..] if form & 0xc7 == 0x44 => 4,
        _ => return None,
    };
    (code.len() >= prefix + length).then_some(prefix + length)
}

/// The filter that a `struct sock_fprog` leads to.
fn read_filter(memory: &Memory, at: u64) -> io::Result<Vec<sandbox::Instruction>> {
    let words = memory.words(at, 2)?;
    let [count, start] = words.as_slice() else { return Err(io::ErrorKind::InvalidData.into()) };
    let count = usize::try_from(count & 0xffff).unwrap_or(0);
    if count > sandbox::LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(memory.words(*start, count)?.into_iter().map(sandbox::Instruction::from_word).collect())
}

/// The lowest address of the stack that `stack` is on, within reason.
fn lowest(thread: i32, stack: u64) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{thread}/maps")).ok()?;
    let (low, name) = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (low, high) = range.split_once('-')?;
        let parse = |text: &str| u64::from_str_radix(text, 16).ok();
        let (low, high) = (parse(low)?, parse(high)?);
        (low..high).contains(&stack).then_some((low, rest))
    })?;
    let most = stack.saturating_sub(MOST);
    // The first thread's grows.
    let grows = name.ends_with("[stack]");
    Some(if grows { stack.saturating_sub(stack_limit(thread)).max(most) } else { low.max(most) })
}

/// How large the first thread's stack may get.
fn stack_limit(process: i32) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit goes to a value of ours.
    let got =
        unsafe { libc::prlimit(process, libc::RLIMIT_STACK, std::ptr::null(), &raw mut limit) };
    if got == 0 { limit.rlim_cur } else { MOST }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_functions_are_moved_whole() {
        let rows: [(&[u8], Option<usize>); 9] = [
            // glibc's prctl and syscall, and musl's.
            (&[0x48, 0x83, 0xec, 0x58, 0x49, 0x89, 0xca, 0x48, 0x89], Some(7)),
            (&[0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48], Some(6)),
            (&[0x48, 0x83, 0xec, 0x58, 0x48, 0x63, 0xff, 0x49], Some(7)),
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x74, 0x24, 0x28], Some(9)),
            (&[0xb8, 0x9d, 0, 0, 0, 0x0f, 0x05], Some(5)),
            // mov $…, %rax with eight bytes of number.
            (&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], None),
            // lea 0x10(%rip), %rax
            (&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0], None),
            (&[0xe8, 0, 0, 0, 0], None),
            (&[0x48, 0x89], None),
        ];
        for (code, expected) in rows {
            assert_eq!(movable(code).map(<[u8]>::len), expected, "{code:02x?}");
        }
    }
}
