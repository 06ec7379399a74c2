//! How a test ends itself as ignored: a panic that only the test's own harness sees.

use libtest_mimic::Failed;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind};
use std::sync::Once;

/// The reason of a test that ignores itself, on its way up.
struct Ignored(String);

/// Ends the test that runs here: it is reported as ignored.
///
/// # Panics
///
/// No test of this module runs in this thread.
pub fn ignore(reason: impl Into<String>) -> ! {
    let reason = reason.into();
    assert!(
        RUNNING.with_borrow(Option::is_some),
        "{reason}. Only a #[testkit::test], in a program with harness = false, can be ignored"
    );
    resume_unwind(Box::new(Ignored(reason)))
}

thread_local! {
    /// The message of the last panic in this thread; empty if no test runs in it.
    static RUNNING: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a test: `Some` says why it was ignored.
pub(crate) fn catch(run: impl FnOnce() -> Result<(), String>) -> Result<Option<String>, Failed> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !keep(info) {
                usual(info);
            }
        }));
    });
    RUNNING.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(run));
    let said = RUNNING.take().unwrap_or_default();
    match result {
        Ok(result) => result.map(|()| None).map_err(Failed::from),
        Err(payload) => ignored(payload).map(Some).map_err(|()| said.into()),
    }
}

/// Keeps what a panic says until its test ends, so that it stands under the test's name. Not for threads that a test
/// starts.
fn keep(info: &PanicHookInfo<'_>) -> bool {
    RUNNING.with_borrow_mut(|said| match said {
        Some(said) => {
            *said = info.to_string();
            true
        }
        None => false,
    })
}

/// The reason, if the test ignored itself.
fn ignored(payload: Box<dyn Any + Send>) -> Result<String, ()> {
    payload.downcast::<Ignored>().map(|ignored| ignored.0).map_err(drop)
}
