//! A thread forbids itself system calls (seccomp). From then on the agent makes none in its name, since the kernel would
//! end the program for it. So what the thread's calls will need is made ready before.
//!
//! The recorder has seen to it that `prctl` and `syscall` of the C library come here first. It's asked whether the filter
//! forbids anything that the agent does, and how far down the stack goes.

use super::blocks;
use super::host::Agent;
use super::instrumented;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use mcount_cpu::here::agent::{SYS_PRCTL, SYS_SECCOMP};
use mcount_recorder::abi::Question;
use mcount_recorder::abi::question::NO_ANSWER;
use mcount_recorder::{Host, sys, thread};

const SIGURG: u64 = 23;
const PR_SET_SECCOMP: u64 = 22;
/// The filter is for all threads of the process (`SECCOMP_FILTER_FLAG_TSYNC`).
const ALL_THREADS: u64 = 1;

/// Nothing is forbidden that the agent needs.
const FINE: u64 = 0;
#[unsafe(no_mangle)]
static mut mcount_question: Question =
    Question { thread: 0, mode: 0, filter: 0, stack: 0, answer: NO_ANSWER };

unsafe extern "C" {
    safe fn mcount_ask(process: u32, thread: u32, signal: u64);
}

/// What `prctl` or `syscall` is called for with these arguments: the mode, the address of the filter, and whether it's for
/// all threads. `None` if it's for something else.
fn wanted([first, second, third, fourth, ..]: [u64; 6]) -> Option<(u64, u64, bool)> {
    let number = |value: u64| value & 0xffff_ffff;
    let (mode, filter, flags) = match (number(first), number(second)) {
        (PR_SET_SECCOMP, mode) => (mode, third, 0),
        (SYS_PRCTL, PR_SET_SECCOMP) => (number(third), fourth, 0),
        (SYS_SECCOMP, operation) => (operation + 1, fourth, third),
        _ => return None,
    };
    matches!(mode, 1 | 2).then_some((mode, filter, flags & ALL_THREADS != 0))
}

/// A thread has called `prctl` or `syscall` with these arguments.
pub(crate) unsafe extern "C" fn mcount_confine(arguments: *const [u64; 6]) {
    // SAFETY: the caller is the routine in the assembly, which has put them there.
    let Some((mode, filter, is_for_all)) = wanted(unsafe { arguments.read() }) else { return };
    let stack = arguments as u64;
    if !Agent::is_confined() {
        // SAFETY: it's on the stack of this thread.
        let block = unsafe { thread::prepare::<Agent>(stack) };
        // SAFETY: blocks stay mapped.
        if block.is_some_and(|block| unsafe { (*block).process } != sys::process_id()) {
            // After `vfork` the block is its parent's as well.
            return;
        }
        let low = match ask(mode, filter, stack) {
            FINE => return,
            NO_ANSWER => stack,
            low => low.min(stack),
        };
        thread::cover_stack::<Agent>(low, stack);
        instrumented::cover_stack(low, stack);
        blocks::confine(blocks::current());
    }
    if is_for_all {
        thread::for_all(blocks::confine_other);
        blocks::confine_new_ones();
    }
}

/// Asks the recorder.
fn ask(mode: u64, filter: u64, stack: u64) -> u64 {
    static LOCK: AtomicU32 = AtomicU32::new(0);
    let before = sys::set_signals(!(1 << (SIGURG - 1)));
    while LOCK.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        sys::yield_now();
    }
    let (process, thread) = (sys::process_id(), sys::thread_id());
    let question = &raw mut mcount_question;
    // SAFETY: the lock is held; the recorder writes while this thread stands.
    let answer = unsafe {
        let asked = Question { thread: thread.into(), mode, filter, stack, answer: NO_ANSWER };
        question.write_volatile(asked);
        mcount_ask(process, thread, SIGURG);
        let answer = (&raw const (*question).answer).read_volatile();
        (&raw mut (*question).thread).write_volatile(0);
        answer
    };
    LOCK.store(0, SeqCst);
    sys::set_signals(before);
    answer
}
