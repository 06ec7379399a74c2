//! The names of threads, as the kernel has them: `pthread_setname_np` and `prctl(PR_SET_NAME)` set them at any time, so what a
//! thread is called last says most.

use super::file::TraceFile;
use crate::files;
use mcount_ptrace::Tracee;
use mcount_ptrace::stop::threads;
use mcount_trace::ThreadName;
use std::collections::BTreeSet;
use std::path::Path;

/// Puts into the trace what a thread of `process` is called now, if the kernel still knows it. `ids` are the numbers that the two have in
/// the trace.
pub(super) fn add(trace: &TraceFile, (process, thread): (i32, i32), ids: (i32, i32)) {
    let path = format!("/proc/{process}/task/{thread}/comm");
    let Ok(mut name) = files::read_to_end(Path::new(&path)) else { return };
    name.pop_if(|last| *last == b'\n');
    let (pid, tid) = (ids.0.cast_unsigned(), ids.1.cast_unsigned());
    // If there's no room, that's reported anyway.
    let _ = trace.add(ThreadName { pid, tid, ticks: trace.ticks(), name: &name });
}

/// The same for all threads of `process`, by the numbers that they have in their own namespace.
pub(super) fn add_all(trace: &TraceFile, process: i32) {
    for thread in threads(process).unwrap_or_default() {
        add(trace, (process, thread), (inner(process), inner(thread)));
    }
}

/// The threads of `process`, by the numbers that they have in their own namespace.
pub(super) fn inner_threads(process: i32) -> BTreeSet<i32> {
    threads(process).unwrap_or_default().into_iter().map(inner).collect()
}

fn inner(id: i32) -> i32 {
    Tracee::new(id).inner_id().unwrap_or(id)
}
