//! Threads that the caller lends. The library starts none itself, but a large image has work for several.

use std::fmt;
use std::sync::Arc;

/// Calls its argument on each of its threads, and returns when all calls have returned.
type Run = dyn Fn(&(dyn Fn() + Sync)) + Send + Sync;

/// Threads that share the work on an image. By default there is only the caller's.
#[derive(Clone, Default)]
pub struct Helpers(Option<Arc<Run>>);

impl Helpers {
    /// `run` calls its argument on any number of threads, but at least one, and returns when all calls
    /// have returned. The calls share the work among themselves.
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
