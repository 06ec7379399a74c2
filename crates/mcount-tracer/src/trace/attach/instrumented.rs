//! Functions of a running process that tell of their calls themselves (`trace/instrumented.rs`): while these are recorded, the words by which they
//! tell lead to the agent, as those of library calls lead to gates (`words.rs`).

use super::program::Program;
use super::session::{Plan, Session};
use super::words::Gated;
use crate::trace::instrumented_calls::plans;
use crate::trace::instrumented_table::{self, Table};
use mcount_cpu::outside::Routines;
use std::io;

impl Session {
    /// Adds what has functions tell the agent of their calls, by these words.
    pub(super) fn plan_instrumented(
        &self,
        program: &Program,
        plan: &mut Plan,
        mut free: impl Iterator<Item = u64>,
    ) {
        let routines = self.image.symbols.instrumented_routines(self.block.bias);
        for one in &program.instrumented {
            let Some(loaded) = program.loaded.get(one.place) else { continue };
            let Some(module) = program.module(loaded) else { continue };
            let of = loaded.owner(module);
            let mut words = Vec::new();
            for import in plans(one.imports.clone(), routines) {
                let Some(by) = free.next() else { break };
                let writer = &mut plan.stubs.writer;
                if let Some(gated) = Gated::plan(&of, &import, writer, (Routines::default(), by)) {
                    words.extend(gated.word);
                    plan.changes.extend(gated.changes);
                }
            }
            plan.words.push((one.place, words));
            plan.instrumented.extend(&one.functions);
        }
    }

    /// Tells the agent which functions are recorded of those that tell of their calls. No thread is in the agent.
    pub(super) fn tell_of_instrumented(&mut self, plan: &Plan) -> io::Result<()> {
        let last = self.block.bias + self.image.symbols.instrumented;
        let mut at = 0;
        self.instrumented.clear();
        if !plan.instrumented.is_empty() {
            let table = Table::new(0, &plan.instrumented);
            let no_room = || io::Error::other("no room for the functions that tell of their calls");
            let size = table.bytes.len() as u64;
            at = plan.stubs.place_of_table(size).ok_or_else(no_room)?;
            self.memory.write(at, &table.bytes)?;
            self.instrumented.extend(table.words(at));
        }
        self.memory.write(last, &at.to_le_bytes())
    }

    /// Has the calls of these functions be recorded or not, while all threads run.
    pub(super) fn switch_instrumented(
        &self,
        is_on: bool,
        is_one: impl Fn(u32) -> bool,
    ) -> io::Result<()> {
        let words = self.instrumented.iter().filter(|(number, _)| is_one(*number));
        instrumented_table::switch(&self.memory, words.map(|(_, at)| *at), is_on)
    }
}
