//! How many threads work: as many as are asked for; under `make -j` as many as its jobserver has
//! tokens for; otherwise one for each processor.
//!
//! The protocol is in the manual of GNU make, "Sharing Job Slots with GNU make".

use jobserver::{Acquired, Client, FromEnvErrorKind};
use mcount::Helpers;
use std::num::NonZero;
use std::thread::{self, available_parallelism};

/// Bytes of a file from which on threads are worth starting.
const WORTH_SHARING: usize = 4 << 20;

/// As many threads as are started, however many are asked for: a number that is a slip of the fingers
/// must not take all memory.
const MOST: usize = 1024;

/// A number of threads, and the right to run them.
pub struct Threads {
    /// How many; at least one.
    pub count: usize,
    /// One for each thread but the first, which make has given one already. They go back when this
    /// is dropped.
    tokens: Vec<Acquired>,
}

impl Threads {
    /// `asked` threads, 0 for one for each processor; as many as make allows if `None`.
    #[must_use]
    pub fn new(asked: Option<usize>) -> Self {
        let processors = || available_parallelism().map_or(1, NonZero::get);
        let fixed = |count| Self { count, tokens: Vec::new() };
        match asked {
            Some(0) => fixed(processors()),
            Some(count) => fixed(count.min(MOST)),
            None => match server() {
                Server::None => fixed(processors()),
                Server::OutOfReach => fixed(1),
                Server::At(client) => Self::of(&client, processors()),
            },
        }
    }

    /// Threads for the work on one file of `size` bytes, where that is large enough to be shared.
    #[must_use]
    pub fn for_one(size: usize, asked: Option<usize>) -> Self {
        if size < WORTH_SHARING { Self { count: 1, tokens: Vec::new() } } else { Self::new(asked) }
    }

    /// As many as there are tokens for now, at most `most`. It does not wait for others: the thread
    /// that is there can begin.
    fn of(client: &Client, most: usize) -> Self {
        let token = |_| client.try_acquire().ok().flatten();
        let tokens: Vec<_> = (1..most).map_while(token).collect();
        Self { count: tokens.len() + 1, tokens }
    }

    /// The threads, to lend to the library.
    #[must_use]
    pub fn helpers(&self) -> Helpers {
        let others = self.count - 1;
        if others == 0 {
            return Helpers::default();
        }
        Helpers::new(move |work| {
            thread::scope(|scope| {
                for _ in 0..others {
                    scope.spawn(work);
                }
                work();
            });
        })
    }

    /// How many of the threads have a token of make's.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens.len()
    }
}

/// What the environment says of a jobserver.
enum Server {
    None,
    /// `make -j` runs this, but did not pass its jobserver on: the recipe has no `+`.
    OutOfReach,
    At(Client),
}

fn server() -> Server {
    // SAFETY: the file descriptors that the environment names are taken only if they are pipes, and
    // this program opens none: so they are not another's.
    let found = unsafe { Client::from_env_ext(true) };
    match found.client {
        Ok(client) => Server::At(client),
        Err(error) => match error.kind() {
            FromEnvErrorKind::NoEnvVar | FromEnvErrorKind::NoJobserver => Server::None,
            _ => Server::OutOfReach,
        },
    }
}
