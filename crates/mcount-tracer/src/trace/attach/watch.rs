//! What the worker does while calls are recorded: it waits for the end, keeps to the budget, and shows who looks at it what is
//! being called.

use super::control::{self, Control};
use super::session::Session;
use super::worker::{Worker, inner_id};
use super::{Holder, Picture, Row, Wish};
use crate::trace::budget::{self, Budget, Times};
use crate::trace::kernel::{self, Kernel, Wanted};
use crate::trace::live::{Live, Tally};
use crate::trace::live_waits::{Waited, Watched};
use crate::trace::scope::Switches;
use crate::trace::thrift::{self, Counted, GivenUp, Thrift, Verdict};
use crate::trace::{Size, save, told};
use mcount_ptrace::Standing;
use mcount_trace::Note;
use nix::libc;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it's looked whether there are enough calls, whether the program is still the same, and what was recorded.
const OFTEN: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_millis(200);
const LIVE: Duration = Duration::from_millis(10);
/// After that much time calls are read, however few they are.
const STALE: Duration = Duration::from_millis(100);

/// How often it's looked which processes were made by `fork`: that takes some milliseconds.
const FORKED: Duration = Duration::from_millis(500);

/// Function and module, by the number of the function in the trace.
pub(super) type Names = BTreeMap<u32, (Arc<str>, Arc<str>)>;

/// Looks at what is recorded.
pub(super) struct Watch {
    live: Live,
    budget: Option<Budget>,
    times: Times,
    /// The process whose time is counted, and since when that's known.
    processes: (BTreeSet<i32>, Instant),
    /// Function and module, by number.
    names: Names,
    looked: Instant,
    /// When something was shown last.
    shown: Instant,
    began: Instant,
}

impl Worker {
    /// Waits for the end of `pipe`, of the process, of the time, or for enough calls.
    pub(super) fn wait(&mut self, pipe: &File) -> io::Result<()> {
        let mut thrift = self.thrift();
        let process = super::worker::handle(self.request.process)?;
        let mut watch = self.watch();
        let deadline = self.request.duration.map(|duration| Instant::now() + duration);
        let look = match (&watch, self.request.calls) {
            (Some(_), _) => LIVE,
            (None, Some(_)) => OFTEN,
            (None, None) => SELDOM,
        };
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let has_more = watch.as_ref().is_some_and(|watch| watch.live.left != 0);
            let pace = thrift.as_ref().map_or(look, |thrift| thrift.pace().get());
            let look = if has_more { Duration::ZERO } else { look.min(pace) };
            let time = left.unwrap_or(look).min(look);
            let input = self.request.view.as_ref().and_then(|view| view.input()).unwrap_or(-1);
            let control = self.control.as_ref().map_or(-1, Control::input);
            let mut polled = [pipe.as_raw_fd(), process.as_raw_fd(), input, control]
                .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            let time = i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(0);
            // SAFETY: four entries.
            unsafe { libc::poll(polled.as_mut_ptr(), 4, time) };
            let [end, gone, typed, asked] = polled.map(|one| one.revents != 0);
            if asked && !gone {
                self.hear(watch.as_mut());
            }
            if !gone {
                self.obey();
                self.look_at_defaults(thrift.as_mut());
            }
            let wish = self.see(watch.as_mut(), typed);
            let is_enough = || self.request.calls.is_some_and(|most| self.trace.calls() >= most);
            if end
                || gone
                || self.pauses.told.to_end()
                || wish == Wish::End
                || left.is_some_and(|left| left.is_zero())
                || !self.session.is_there()
                || is_enough()
            {
                self.see_last(watch.as_mut(), gone);
                return Ok(());
            }
        }
    }

    /// Records system calls and context switches from now on, if they're wanted.
    pub(super) fn watch_kernel(&mut self, wanted: &Wanted, kernel: Option<io::Result<Kernel>>) {
        let switches = self.request.scope.switches;
        match kernel {
            None => {}
            Some(Ok(kernel)) => {
                let bias = self.session.block.bias;
                let code = bias..bias + self.session.image.size;
                kernel.know(self.request.process, std::iter::once(code).collect());
                kernel.begin_now();
                self.kernel = Some(kernel);
            }
            Some(Err(error)) if wanted.is_needed() => {
                self.notes.push(kernel::why_nothing(&error, wanted));
            }
            Some(Err(error)) if switches == Switches::Wanted => {
                self.notes.push(kernel::why_not(&error));
            }
            // If there's no room for it, that's said anyway.
            Some(Err(error)) => {
                let why = kernel::why_not(&error);
                let _ = self.trace.add(Note { text: why.as_bytes() });
            }
        }
    }

    /// Where the agent counts in the process.
    fn counted(&self) -> Counted<'_> {
        let Session { memory, image, block, .. } = &self.session;
        let address = block.bias + image.symbols.short_waits;
        Counted { process: self.request.process, memory, address }
    }

    /// What it takes to see what costs too much that nobody has asked for.
    fn thrift(&self) -> Option<Thrift> {
        let scope = &self.request.scope;
        let has_defaults = scope.has_waits() || scope.switches == Switches::IfPossible;
        has_defaults.then(|| Thrift::of_running(&self.counted()))
    }

    /// Gives up what costs too much that nobody has asked for.
    fn look_at_defaults(&mut self, thrift: Option<&mut Thrift>) {
        let Some(thrift) = thrift else { return };
        let is_default = self.request.scope.switches == Switches::IfPossible;
        let kernel = self.kernel.as_ref().filter(|_| is_default);
        let Verdict { given_up, again } = thrift.look(std::iter::once(self.counted()), kernel);
        if !again.is_empty() {
            self.take_waits_up(&again);
        }
        if !given_up.is_empty() {
            self.give_defaults_up(&given_up);
        }
    }

    fn take_waits_up(&mut self, again: &BTreeSet<GivenUp>) {
        let library = &mut self.program.library;
        let waits: BTreeSet<u32> =
            library.waits().filter(|number| thrift::is_one(again, *number)).collect();
        let names = library.take_up(&waits);
        self.pauses.given_up.retain(|number| !waits.contains(number));
        if self.pauses.since.is_none() {
            // The process may have ended.
            let _ = self.switch(true);
        }
        self.note(&thrift::note_of_return(&names, self.seconds()));
    }

    fn give_defaults_up(&mut self, given_up: &BTreeSet<GivenUp>) {
        let seconds = self.seconds();
        let library = &mut self.program.library;
        let waits = library.waits().filter(|number| thrift::is_one(given_up, *number)).collect();
        let names = library.give_up(&waits);
        self.pauses.given_up.extend(waits);
        if !names.is_empty() {
            // The process may have ended.
            let _ = self.switch_given_up_off();
            let names: Vec<&str> = names.iter().map(|(_, name)| &**name).collect();
            self.note(&thrift::note_of_waits(&names, seconds));
        }
        if given_up.contains(&GivenUp::Switches)
            && let Some(kernel) = &self.kernel
        {
            kernel.give_up();
            self.note(&thrift::note_of_switches());
        }
    }

    /// Does what signals have said.
    fn obey(&mut self) {
        if self.pauses.told.to_pause() {
            let is_paused = self.pauses.since.is_none();
            let line = match self.pause(is_paused) {
                Ok(()) => told::line(is_paused).to_owned(),
                Err(error) => error.to_string(),
            };
            self.say(&line);
        }
        if self.pauses.told.to_write() {
            let is_ring = matches!(self.request.size, Size::Ring(_));
            let line = if is_ring { self.save() } else { told::NO_RING.to_owned() };
            self.say(&line);
        }
    }

    fn say(&mut self, text: &str) {
        match &mut self.request.view {
            Some(view) => view.say(text),
            None => (self.request.say)(text),
        }
    }

    /// Writes the newest calls to a trace of their own; what there is to be reported of that.
    fn save(&self) -> String {
        let stand = || Standing::of(self.request.process);
        if let Some(kernel) = &self.kernel {
            kernel.write();
        }
        match save::save(&self.trace, &self.output(), stand) {
            Ok(path) => format!("written to {}", path.display()),
            Err(error) => error.to_string(),
        }
    }

    /// Another recorder asks for other functions.
    fn hear(&mut self, watch: Option<&mut Watch>) {
        let Some((wanted, stream)) = self.control.as_ref().and_then(Control::hear) else { return };
        let done = wanted.and_then(|wanted| self.change(&wanted));
        if done.is_ok() && self.pauses.since.is_some() {
            // All that's wanted now was armed.
            let _ = self.switch(false);
        }
        if let (Some(watch), Ok(_)) = (watch, &done) {
            watch.names = self.names();
            watch.live.watch(self.watched());
            if let Some(budget) = &mut watch.budget {
                budget.forgive();
            }
            self.pauses.given_up.clear();
        }
        control::answer(stream, &done);
    }

    /// Shows the calls so far, to a reader that hasn't seen anything yet.
    fn see_last(&mut self, watch: Option<&mut Watch>, is_over: bool) {
        if let (Some(watch), Some(mut view)) = (watch, self.request.view.take()) {
            if is_over {
                watch.live.look_at_all(&self.trace);
            } else {
                watch.live.look(&self.trace);
            }
            view.end(self.picture(watch));
        }
    }

    /// What it takes to look at calls, if that's asked for.
    fn watch(&self) -> Option<Watch> {
        let budget = self.request.budget.map(Budget::new);
        if budget.is_none() && self.request.view.is_none() {
            return None;
        }
        let mut times = Times::default();
        times.begin(self.request.process);
        let (mut live, names, now) = (Live::default(), self.names(), Instant::now());
        live.watch(self.watched());
        let processes = (BTreeSet::from([self.request.process]), now);
        let (looked, shown, began) = (now, now, now);
        Some(Watch { live, budget, times, processes, names, looked, shown, began })
    }

    /// The functions that are traced: names and modules, by number.
    pub(super) fn names(&self) -> Names {
        let mut names = BTreeMap::new();
        for module in self.program.modules.iter() {
            let path: Arc<str> = module.path.to_string_lossy().into();
            for hook in module.hooks.iter().filter(|hook| hook.is_wanted) {
                let name = crate::names::name_of(&hook.name, true);
                names.insert(hook.id, (Arc::from(&*name), Arc::clone(&path)));
            }
        }
        let library = self.program.library.names(&self.program.modules);
        names.extend(library.map(|(number, name, path)| (number, (name, path))));
        names
    }

    /// The functions whose callers are looked for, if anybody is shown them.
    fn watched(&self) -> Watched {
        if self.request.view.is_none() {
            return Watched::default();
        }
        self.program.library.watched()
    }

    /// Looks at what is new, and does what is wished.
    fn see(&mut self, watch: Option<&mut Watch>, typed: bool) -> Wish {
        let Some(watch) = watch else { return Wish::Nothing };
        // A quarter of what a ring keeps may be new, or what takes much of a budget.
        if watch.live.news(&self.trace) >= 4 || watch.looked.elapsed() >= STALE {
            watch.looked = Instant::now();
            watch.live.look(&self.trace);
            self.keep_to_budget(watch);
        }
        let Some(mut view) = self.request.view.take() else { return Wish::Nothing };
        let mut wish = if typed { view.typed() } else { Wish::Nothing };
        if wish == Wish::Nothing && watch.shown.elapsed() >= view.interval() {
            let picture = self.picture(watch);
            wish = view.show(picture).unwrap_or(Wish::End);
        }
        if wish == Wish::Save {
            view.say(&self.save());
        }
        self.request.view = Some(view);
        wish
    }

    /// The process, and those of which calls were recorded that it has made by `fork`. In another namespace, the numbers that
    /// they have there don't say which they are.
    fn recorded(&self) -> BTreeSet<i32> {
        let process = self.request.process;
        let mut all = BTreeSet::from([process]);
        if inner_id(process) == process {
            all.extend(self.trace.processes().into_iter().map(u32::cast_signed));
        }
        all
    }

    /// Gives up functions that are called too often.
    fn keep_to_budget(&mut self, watch: &mut Watch) {
        let Some(budget) = &mut watch.budget else { return };
        if watch.processes.1.elapsed() >= FORKED {
            watch.processes = (self.recorded(), Instant::now());
        }
        let used = watch.times.count(watch.processes.0.iter().copied());
        let given_up = budget.decide(used, watch.live.all_calls());
        if given_up.is_empty() {
            return;
        }
        self.pauses.given_up.extend(&given_up);
        match self.switch_given_up_off() {
            Ok(()) => {}
            // The process has ended: there's nothing to be given up.
            Err(_) if !self.session.is_there() => return,
            Err(error) => {
                self.notes.push(format!("--budget: {error}"));
                return;
            }
        }
        let names: Vec<&str> = given_up
            .iter()
            .map(|number| watch.names.get(number).map_or("?", |(name, _)| &**name))
            .collect();
        for note in budget::notes(&names) {
            // If there's no room, that's reported anyway.
            let _ = self.trace.add(Note { text: note.as_bytes() });
        }
        let line = budget::line(&names);
        self.say(&line);
    }

    /// System calls since the last time. `time` makes nanoseconds of ticks.
    fn system_calls(&self, time: impl Fn(u64) -> u64) -> Vec<Row> {
        let module: Arc<str> = kernel::MODULE.into();
        let calls = self.kernel.as_ref().map(Kernel::take_calls).unwrap_or_default();
        let row = |(function, Tally { calls, total, own, longest }, total_calls)| Row {
            function,
            module: Arc::clone(&module),
            calls,
            total_calls,
            total: time(total),
            own: time(own),
            longest: time(longest),
            is_armed: true,
            caller: None,
        };
        calls.into_iter().map(row).collect()
    }

    fn picture(&self, watch: &mut Watch) -> Picture {
        let elapsed = watch.shown.elapsed();
        watch.shown = Instant::now();
        let tallies = watch.live.take();
        let rate = self.trace.rate().max(1);
        let time = |ticks: u64| {
            let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(rate);
            u64::try_from(nanoseconds).unwrap_or(u64::MAX)
        };
        let Waited { callers, holder } = watch.live.take_waits();
        let mut by_function: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for ((function, caller), took) in callers {
            let most = by_function.entry(function).or_default();
            *most = (took, caller).max(*most);
        }
        let name = |number: u32| watch.names.get(&number).map(|(name, _)| Arc::clone(name));
        let row = |(number, (function, module)): (&u32, &(Arc<str>, Arc<str>))| {
            let at = usize::try_from(*number).unwrap_or(usize::MAX);
            let Tally { calls, total, own, longest } = tallies.get(at).copied().unwrap_or_default();
            Row {
                function: Arc::clone(function),
                module: Arc::clone(module),
                calls,
                total_calls: watch.live.calls(*number),
                total: time(total),
                own: time(own),
                longest: time(longest),
                is_armed: !self.pauses.given_up.contains(number),
                // If most of it has an unknown caller, the others say nothing of it.
                caller: by_function
                    .get(number)
                    .filter(|(took, _)| took.saturating_mul(2) >= total)
                    .and_then(|(_, caller)| name(*caller)),
            }
        };
        let mut rows: Vec<Row> = watch.names.iter().map(row).collect();
        rows.extend(self.system_calls(time));
        let holder = holder.and_then(|(lock, found)| {
            let caller = found.caller.filter(|caller| *caller != found.function);
            let (lock, function) = (name(lock)?, name(found.function)?);
            Some(Holder { lock, function, caller: caller.and_then(name) })
        });
        Picture {
            program: self.program.path.to_string_lossy().into_owned(),
            process: self.request.process,
            running: watch.began.elapsed(),
            elapsed,
            missed: watch.live.missed,
            rows,
            holder,
        }
    }
}
