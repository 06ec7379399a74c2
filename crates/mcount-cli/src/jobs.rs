//! The number of threads: as many as the user asks for. Otherwise, under `make -j`, as many as its
//! jobserver has tokens for, and else one for each processor.
//!
//! Source: the manual of GNU make, "Sharing Job Slots with GNU make".

use jobserver::{Acquired, Client, FromEnvErrorKind};
use mcount::Helpers;
use std::num::NonZero;
use std::thread::{self, available_parallelism};

/// The smallest file, in bytes, for which it is worth starting threads.
const WORTH_SHARING: usize = 4 << 20;

/// The most threads to start, so that a mistyped number doesn't use up all memory.
const MOST: usize = 1024;

/// A number of threads, and the right to run them.
pub struct Threads {
    /// How many there are; at least one.
    pub count: usize,
    /// A token for each thread except the first, for which make has already given one. They go back when
    /// this is dropped.
    tokens: Vec<Acquired>,
}

impl Threads {
    /// `asked` threads. 0 means one for each processor, and `None` means as many as make allows.
    #[must_use]
    pub fn new(asked: Option<usize>) -> Self {
        let count = match asked {
            Some(0) => processors(),
            Some(count) => count.min(MOST),
            None => match server() {
                Server::None => processors(),
                Server::OutOfReach => 1,
                Server::At(client) => return Self::of(&client, processors()),
            },
        };
        Self { count, tokens: Vec::new() }
    }

    /// Threads for the work on one file of `size` bytes. One thread, if the file is small.
    #[must_use]
    pub fn for_one(size: usize, asked: Option<usize>) -> Self {
        if size < WORTH_SHARING { Self { count: 1, tokens: Vec::new() } } else { Self::new(asked) }
    }

    /// As many threads as there are tokens now, but at most `most`. It doesn't wait for more tokens,
    /// because one thread can always begin.
    fn of(client: &Client, most: usize) -> Self {
        let tokens = (1..most).map_while(|_| client.try_acquire().ok().flatten());
        let tokens: Vec<_> = tokens.collect();
        Self { count: tokens.len() + 1, tokens }
    }

    /// The threads, for the library to use.
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

    /// How many of the threads have a token from make.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens.len()
    }
}

fn processors() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// The jobserver that the environment names.
enum Server {
    None,
    /// `make -j` runs this, but didn't pass on its jobserver, because the recipe has no `+`.
    OutOfReach,
    At(Client),
}

fn server() -> Server {
    // SAFETY: this takes the file descriptors that the environment names only if they are pipes. This
    // program opens no pipes, so nobody else owns them.
    let found = unsafe { Client::from_env_ext(true) };
    match found.client {
        Ok(client) => Server::At(client),
        Err(error) => match error.kind() {
            FromEnvErrorKind::NoEnvVar | FromEnvErrorKind::NoJobserver => Server::None,
            _ => Server::OutOfReach,
        },
    }
}
