//! The hooks of functions that are patched: what they are, and how they become something else so that the process can be left
//! at any moment.

use super::arch::{is_test, leap, one_byte};
use super::hub::{Entry, Hub};
use super::plan::Target;
use crate::trace::processor::{SITE, armed as jump_to, jump_before, target as target_of};
use mcount_hooks::PAGE;
use mcount_ptrace::{Memory, Standing, resume::ResumePoint};
use std::io;

/// How a hook is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    Idle,
    /// It leads to its gate.
    Armed,
    /// A recorder was killed while it wrote it. It does nothing.
    Between,
    /// Another tracer or a debugger has it.
    Foreign,
}

pub(super) fn look(memory: &Memory, hub: &Hub, entry: &Entry, slot: usize) -> io::Result<Hook> {
    let mut now = vec![0; entry.idle.len()];
    memory.read(entry.site, &mut now)?;
    if now == entry.idle {
        return Ok(Hook::Idle);
    }
    if is_between(entry.site, &now) {
        return Ok(Hook::Between);
    }
    let mut jump = [0; SITE];
    let at = entry.before.as_ref().map_or(entry.site, |(before, _)| *before);
    let is_short =
        |before: u64| jump_before(entry.site, before).is_some_and(|short| now.starts_with(&short));
    if entry.before.as_ref().is_some_and(|(before, _)| !is_short(*before)) {
        return Ok(Hook::Foreign);
    }
    memory.read(at, &mut jump)?;
    let is_ours = target_of(at, &jump).is_some_and(|target| hub.is_gate(slot, target));
    Ok(if is_ours { Hook::Armed } else { Hook::Foreign })
}

/// What makes a hook jump to its gate, in order. `None` if that's out of reach, or the hook can't be read.
pub(super) fn armed(
    memory: &Memory,
    target: &Target,
    entry: &Entry,
    gate: u64,
) -> Option<Vec<(u64, Vec<u8>)>> {
    let mut bytes = target.filled.clone();
    let mut now = vec![0; bytes.len()];
    memory.read(entry.site, &mut now).ok()?;
    if let Some((before, _)) = &entry.before {
        let short = jump_before(entry.site, *before)?;
        bytes.get_mut(..short.len())?.copy_from_slice(&short);
        let mut writes = vec![(*before, jump_to(*before, gate)?.to_vec())];
        writes.extend(pieces(entry.site, &now, &bytes));
        return Some(writes);
    }
    bytes.get_mut(..SITE)?.copy_from_slice(&jump_to(entry.site, gate)?);
    Some(pieces(entry.site, &now, &bytes))
}

/// Makes a hook what it was, if it leads to its gate or does nothing.
pub(super) fn put_back(memory: &Memory, hub: &Hub, entry: &Entry, slot: usize) -> io::Result<()> {
    if !matches!(look(memory, hub, entry, slot)?, Hook::Armed | Hook::Between) {
        return Ok(());
    }
    let mut now = vec![0; entry.idle.len()];
    memory.read(entry.site, &mut now)?;
    for (at, bytes) in pieces(entry.site, &now, &entry.idle) {
        memory.write(at, &bytes)?;
    }
    if let Some((before, bytes)) = &entry.before {
        memory.write(*before, bytes)?;
    }
    Ok(())
}

/// How many bytes of a hook are in the page that it begins in. `None`: all of them.
fn split(site: u64, length: usize) -> Option<usize> {
    let first = usize::try_from(PAGE - site % PAGE).ok()?;
    (first < length).then_some(first)
}

/// The writes that make `to` of a hook that is `from`, in order.
///
/// A page is written at once, whoever is killed, and two aren't. So a hook that's in two of them goes through states that do
/// nothing: a short jump after it, under which all other bytes change; or, where even that is in two pages, `test`, of as many bytes
/// as the jump of the one state has.
fn pieces(site: u64, from: &[u8], to: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let whole = vec![(site, to.to_vec())];
    let Some(first) = split(site, to.len()) else { return whole };
    let (near, far) = to.split_at(first);
    let start = match first {
        1 => one_byte(from, to).map(|byte| vec![byte]),
        _ => leap(to.len()).map(|leap| leap.to_vec()),
    };
    let Some(start) = start else { return whole };
    vec![(site, start), (site + first as u64, far.to_vec()), (site, near.to_vec())]
}

/// Is this one of the states that `pieces` leads through?
fn is_between(site: u64, now: &[u8]) -> bool {
    match split(site, now.len()) {
        None => false,
        Some(1) => now.first().is_some_and(|first| is_test(*first)),
        Some(_) => leap(now.len()).is_some_and(|leap| now.starts_with(&leap)),
    }
}

/// Where a thread is to go on that stands at an address; `None`: there.
type Elsewhere<'e> = &'e dyn Fn(u64) -> Option<u64>;

/// Makes threads that are in the middle of an area begin it once more: it does nothing.
pub(super) fn step_back(
    memory: &Memory,
    standing: &mut Standing,
    places: &[Vec<ResumePoint>],
    entry: &Entry,
) -> io::Result<()> {
    let is_inside = |address: u64| address > entry.site && address < entry.body();
    move_all(memory, standing, places, &|address| is_inside(address).then_some(entry.site))
}

/// Makes threads begin their gates once more that have asked where to go, and have not gone there.
pub(super) fn ask_again(
    memory: &Memory,
    standing: &mut Standing,
    places: &[Vec<ResumePoint>],
    hub: &Hub,
) -> io::Result<()> {
    move_all(memory, standing, places, &|address| hub.begun_gate(address))
}

fn move_all(
    memory: &Memory,
    standing: &mut Standing,
    places: &[Vec<ResumePoint>],
    elsewhere: Elsewhere<'_>,
) -> io::Result<()> {
    for (thread, places) in standing.threads.iter_mut().zip(places) {
        for place in places {
            let Some(there) = elsewhere(place.address) else { continue };
            match place.frame {
                Some(frame) => memory.write(frame, &there.to_le_bytes())?,
                None => thread.change().set_instruction(there),
            }
        }
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic, OpKind};
    use mcount_cpu::x86_64::code;

    const BODY: u64 = 0x3000;

    /// The way of a thread that comes to a hook: it goes on after it (`None`), or jumps elsewhere.
    fn done(site: u64, bytes: &[u8]) -> Option<u64> {
        let end = site + bytes.len() as u64;
        let mut at = site;
        while at != end {
            let rest = &bytes[usize::try_from(at - site).unwrap()..];
            let mut decoder = Decoder::with_ip(64, rest, at, DecoderOptions::NONE);
            let instruction = decoder.decode();
            at = match instruction.mnemonic() {
                Mnemonic::Nop => instruction.next_ip(),
                Mnemonic::Test if instruction.op0_kind() == OpKind::Register => {
                    instruction.next_ip()
                }
                Mnemonic::Jmp => instruction.near_branch_target(),
                // The compiler's call of the hook.
                Mnemonic::Call if instruction.code() == Code::Call_rel32_64 => return Some(1),
                _ => panic!("{bytes:02x?} at {at:x}"),
            };
            if !(site..=end).contains(&at) {
                return Some(at);
            }
        }
        None
    }

    /// Each way in which compilers leave a hook, and it when it's armed.
    fn forms(site: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let gate = code::armed(site, 0x1234_5678).unwrap();
        let short = jump_before(site, site - 5).unwrap();
        let with = |jump: &[u8], fill: &[u8]| [jump, fill].concat();
        vec![
            (vec![0x90; 5], gate.to_vec()),
            (vec![0x0f, 0x1f, 0x44, 0, 8], gate.to_vec()),
            (vec![0xe8, 1, 2, 3, 0], gate.to_vec()),
            (vec![0x90; 8], with(&gate, &[0x0f, 0x1f, 0])),
            (vec![0x67, 0xe8, 1, 2, 3, 0], with(&gate, &[0x90])),
            (
                [&[0x66; 6][..], &[0x2e, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0], &[0x90]].concat(),
                with(&gate, &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x66, 0x90]),
            ),
            (vec![0x90; 2], short.to_vec()),
            (vec![0x66, 0x90], short.to_vec()),
        ]
    }

    #[test]
    fn a_process_can_be_left_after_each_write() {
        let mut least = usize::MAX;
        for offset in 1..16 {
            let site = BODY - offset;
            for (idle, armed) in forms(site) {
                for (from, to) in [(&idle, &armed), (&armed, &idle)] {
                    let allowed = [done(site, from), done(site, to), None];
                    let mut now = from.clone();
                    let writes = pieces(site, from, to);
                    least = least.min(writes.len());
                    // A hook whose first byte alone is in the first page, before a long NOP: there's no way.
                    let is_whole = writes.len() == 1 && offset == 1 && idle.len() > 5;
                    for (number, (at, bytes)) in writes.iter().enumerate() {
                        let end = at + bytes.len() as u64 - 1;
                        let is_split = split(site, to.len()).is_some();
                        assert!(at / PAGE == end / PAGE || is_whole, "{idle:02x?} {offset}");
                        let start = usize::try_from(at - site).unwrap();
                        now[start..start + bytes.len()].copy_from_slice(bytes);
                        assert!(allowed.contains(&done(site, &now)), "{from:02x?}: {now:02x?}");
                        let is_last = number + 1 == writes.len();
                        assert!(is_last || is_split && is_between(site, &now), "{now:02x?}");
                    }
                    assert_eq!(now, *to);
                }
            }
        }
        assert_eq!(least, 1, "a hook in one page is written at once");
    }

    #[test]
    fn what_is_left_between_is_taken_further() {
        for offset in 1..5 {
            let site = BODY - offset;
            let (idle, armed) = forms(site).swap_remove(0);
            let mut now = idle.clone();
            for (at, bytes) in pieces(site, &idle, &armed).iter().take(2) {
                let start = usize::try_from(at - site).unwrap();
                now[start..start + bytes.len()].copy_from_slice(bytes);
                for to in [&idle, &armed] {
                    let mut then = now.clone();
                    for (at, bytes) in pieces(site, &now, to) {
                        let start = usize::try_from(at - site).unwrap();
                        then[start..start + bytes.len()].copy_from_slice(&bytes);
                        assert!([None, done(site, to)].contains(&done(site, &then)), "{then:02x?}");
                    }
                    assert_eq!(then, *to);
                }
            }
        }
    }
}
