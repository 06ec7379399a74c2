//! Whether functions without a hook can have probes, in words.

use crate::why::{Answer, Reason};
use crate::words::counted;
use mcount::Functions;
use mcount_hooks::probe::Planner;

/// Whether a function can have a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeVerdict {
    /// It can.
    pub is_possible: bool,
    /// Which bytes move, or why there can be none.
    pub words: String,
}

/// What tells whether functions of a file can have probes.
pub struct Probes<'d> {
    planner: Option<Planner<'d>>,
}

impl<'d> Probes<'d> {
    /// Reads the file `bytes`, with these functions, if one of `answers` is about a function without a hook.
    #[must_use]
    pub fn new(bytes: &'d [u8], functions: &Functions, answers: &[Answer]) -> Self {
        let is_asked = functions.is_image && answers.iter().any(lacks_hook);
        let mut planner = is_asked.then(|| Planner::new(bytes).ok()).flatten();
        if let Some(planner) = &mut planner {
            let sites = functions.functions.iter().flat_map(|function| &function.sites);
            planner.leave_hooks(sites.filter_map(|site| site.address));
        }
        Self { planner }
    }

    /// Whether the function of `answer` can have a probe. `None` if it needs none, or if files of its kind have none.
    #[must_use]
    pub fn verdict(&self, answer: &Answer) -> Option<ProbeVerdict> {
        let planner = self.planner.as_ref().filter(|_| lacks_hook(answer))?;
        let function = planner.function(answer.address?)?;
        Some(match planner.plan(&function) {
            Ok(plan) => {
                let moved = counted(plan.moved as u64, "byte", "bytes");
                let words = format!("the first {moved} at {:#x} can move", plan.entry);
                ProbeVerdict { is_possible: true, words }
            }
            Err(refusal) => ProbeVerdict { is_possible: false, words: refusal.to_string() },
        })
    }
}

/// Is it a function with code that has no hook?
pub(crate) fn lacks_hook(answer: &Answer) -> bool {
    let lacks = matches!(
        answer.reason,
        Reason::Excluded
            | Reason::WithoutHooks
            | Reason::Assembly
            | Reason::NoHook
            | Reason::Unknown
    );
    lacks && answer.symbol.is_some()
}
