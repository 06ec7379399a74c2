//! The calls that a thread is in at one moment. That takes reading one piece, however long the trace is: what lies around it is
//! among the extras ([`crate::index`]).

use crate::calls::Call;
use crate::order::Ordered;
use crate::trace::Trace;

impl Trace<'_> {
    /// The calls that thread `at` of [`Trace::threads`] is in so many nanoseconds after the start of the trace, the outermost first.
    /// A call is from its start until just before its end; one without an end is until the trace ends. The process isn't known
    /// here. Where only entries were recorded, it's in none.
    #[must_use]
    pub fn stack_at(&self, at: usize, nanoseconds: u64) -> Vec<Call> {
        let Some(thread) = self.indices().get(at).filter(|_| !self.header.has_only_entries) else {
            return Vec::new();
        };
        let ticks = self.ticks(nanoseconds);
        let mut open = Vec::new();
        let mut ordered = Ordered::new(self.file(), thread, &thread.extras);
        ordered.seek(ticks, |raw| open.push(*raw));
        open.retain(|raw| raw.end > ticks);
        while let Some((raw, _)) = ordered.next() {
            if raw.start > ticks {
                break;
            }
            if raw.end > ticks {
                open.push(raw);
            }
        }
        let mut stack: Vec<Call> = Vec::with_capacity(open.len());
        for raw in open {
            let how = raw.how_ended();
            stack.push(Call {
                thread: at,
                process: None,
                function: raw.function(),
                caller: stack.last().map(|caller| caller.function),
                depth: stack.len(),
                start: raw.start,
                end: how.map(|_| raw.end),
                how,
                place: raw.ordinal,
            });
        }
        stack
    }
}
