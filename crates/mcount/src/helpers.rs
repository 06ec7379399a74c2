//! Threads that the caller lends: the library starts none itself, and on a large image there is work
//! for several.

use std::fmt;
use std::sync::Arc;

/// Calls what it is given on each of its threads, and returns when all calls have returned.
type Run = dyn Fn(&(dyn Fn() + Sync)) + Send + Sync;

/// Threads to share the work on one image with; by default none but the caller's.
#[derive(Clone, Default)]
pub struct Helpers(Option<Arc<Run>>);

impl Helpers {
    /// `run` calls its argument on as many threads as it likes, on one at least, and returns when all
    /// calls have returned. Each call does what the others leave.
    ///
    /// ```
    /// let two = mcount::Helpers::new(|work| {
    ///     std::thread::scope(|scope| {
    ///         scope.spawn(work);
    ///         work();
    ///     });
    /// });
    /// let options = mcount::Options::default().helpers(two);
    /// # let _ = options;
    /// ```
    pub fn new(run: impl Fn(&(dyn Fn() + Sync)) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(run)))
    }

    /// Calls `work` on every thread.
    pub(crate) fn run(&self, work: &(dyn Fn() + Sync)) {
        match &self.0 {
            Some(run) => run(work),
            None => work(),
        }
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Helpers(some)" } else { "Helpers(none)" })
    }
}
