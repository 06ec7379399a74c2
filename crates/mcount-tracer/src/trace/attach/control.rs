//! How a second `mcount attach` changes what the first one traces: through a socket that only their user can reach.
//!
//! It's in a folder of its own in the user's folder for such things (`$XDG_RUNTIME_DIR`), if that's the user's
//! and closed to all others; without one, no process can ask. Each end also has the kernel say who the other
//! is. Folders are opened once, and names used beneath them, so no user can put others in their place
//! meanwhile.

use super::Request;
use crate::pattern::{Language, Pattern};
use crate::trace::scope::{Known, Scope};
use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Every question begins with this.
const VERSION: &str = "mcount attach 1";
/// Bytes of a question or an answer.
const MOST: usize = 64 << 10;
/// How long whoever asks may take to do so, and how long it waits for the answer.
const QUESTION: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_secs(20);

/// Where the first one is asked.
pub(super) struct Control {
    listener: UnixListener,
    folder: OwnedFd,
    name: String,
}

impl Control {
    /// Listens for those who ask about `process`. `None` if that can't be done safely.
    pub(super) fn open(process: i32) -> Option<Self> {
        let (folder, name) = (folder(true)?, name(process)?);
        // One that was killed may have left it.
        let _ = unlinkat(&folder, &name, rustix::fs::AtFlags::empty());
        let listener = UnixListener::bind(path(&folder, &name)).ok()?;
        listener.set_nonblocking(true).ok()?;
        Some(Self { listener, folder, name })
    }

    /// The descriptor that becomes readable when a question comes.
    pub(super) fn input(&self) -> i32 {
        self.listener.as_raw_fd()
    }

    /// The question of a user that may ask, and where the answer goes.
    pub(super) fn hear(&self) -> Option<(io::Result<Wanted>, UnixStream)> {
        let (mut stream, _) = self.listener.accept().ok()?;
        if !is_own(&stream) {
            return None;
        }
        let wanted = read(&mut stream, QUESTION).and_then(|text| Wanted::parse(&text));
        Some((wanted, stream))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = unlinkat(&self.folder, &self.name, rustix::fs::AtFlags::empty());
    }
}

/// Answers a question. A process that has stopped listening doesn't want to know.
pub(super) fn answer(mut stream: UnixStream, answer: &io::Result<String>) {
    let text = match answer {
        Ok(text) => format!("+{text}"),
        Err(error) => format!("-{error}"),
    };
    let _ = stream.set_write_timeout(Some(QUESTION));
    let _ = stream.write_all(text.get(..MOST).unwrap_or(&text).as_bytes());
}

/// Asks whoever traces the process already to do what `request` says. `None` if no recorder can be
/// asked.
pub(super) fn ask(request: &Request) -> Option<io::Result<String>> {
    if request.scope.filter.is_empty() && request.scope.exclude.is_empty() {
        return None;
    }
    let (folder, name) = (folder(false)?, name(request.process)?);
    let stream = UnixStream::connect(path(&folder, &name)).ok()?;
    is_own(&stream).then(|| asked(stream, request))
}

fn asked(mut stream: UnixStream, request: &Request) -> io::Result<String> {
    let wanted = Wanted::of(request)?;
    stream.write_all(wanted.text().as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let text = read(&mut stream, ANSWER)?;
    match text.split_at_checked(1) {
        Some(("+", text)) => Ok(text.to_owned()),
        Some(("-", text)) => Err(io::Error::other(text.to_owned())),
        _ => Err(io::Error::other("the other mcount attach doesn't answer")),
    }
}

/// Which functions are to be traced from now on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    filter: Vec<(Language, String)>,
    exclude: Vec<(Language, String)>,
}

impl Wanted {
    /// What `request` says, if that can be changed.
    fn of(request: &Request) -> io::Result<Self> {
        let Scope { filter, exclude, .. } = &request.scope;
        let is_else = request.output.is_some()
            || request.duration.is_some()
            || request.calls.is_some()
            || request.budget.is_some()
            || request.is_hidden()
            || request.scope.is_more_than_patterns();
        if is_else {
            return Err(io::Error::other(
                "another mcount attach traces it already; only --filter and --exclude can be changed",
            ));
        }
        let words = |patterns: &[Pattern]| {
            patterns.iter().map(|one| (one.language(), one.text().to_owned())).collect()
        };
        Ok(Self { filter: words(filter), exclude: words(exclude) })
    }

    /// As it's sent: words that end with a zero.
    fn text(&self) -> String {
        let mut text = format!("{VERSION}\0");
        for (kind, patterns) in [("filter", &self.filter), ("exclude", &self.exclude)] {
            for (language, pattern) in patterns {
                let language = if *language == Language::Regex { "regex" } else { "glob" };
                text.extend([kind, "\0", language, "\0", pattern, "\0"]);
            }
        }
        text
    }

    fn parse(text: &str) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a question");
        let rest = text.strip_prefix(VERSION).and_then(|rest| rest.strip_prefix('\0'));
        let rest = rest.ok_or_else(wrong)?;
        let mut wanted = Self::default();
        let words: Vec<&str> = rest.split_terminator('\0').collect();
        if !rest.is_empty() && !rest.ends_with('\0') || !words.len().is_multiple_of(3) {
            return Err(wrong());
        }
        for word in words.chunks_exact(3) {
            let [kind, language, pattern] = word else { continue };
            let language = match *language {
                "glob" => Language::Glob,
                "regex" => Language::Regex,
                _ => return Err(wrong()),
            };
            match *kind {
                "filter" => wanted.filter.push((language, (*pattern).to_owned())),
                "exclude" => wanted.exclude.push((language, (*pattern).to_owned())),
                _ => return Err(wrong()),
            }
        }
        Ok(wanted)
    }

    /// `scope` with these patterns.
    pub(super) fn scope(&self, scope: &Scope) -> io::Result<Scope> {
        let patterns = |words: &[(Language, String)]| {
            let words = words.iter().map(|(language, text)| Pattern::new(text, *language));
            words.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)
        };
        let (filter, exclude) = (patterns(&self.filter)?, patterns(&self.exclude)?);
        Ok(Scope { filter, exclude, known: Known::default(), ..scope.clone() })
    }
}

/// Reads until there's no more.
fn read(stream: &mut UnixStream, time: Duration) -> io::Result<String> {
    let deadline = Instant::now() + time;
    stream.set_nonblocking(false)?;
    let mut bytes = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 4096];
        match stream.read(&mut piece)? {
            0 => break,
            count => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
        if bytes.len() > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too long"));
        }
    }
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Is whoever is at the other end of the same user?
fn is_own(stream: &UnixStream) -> bool {
    let user = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == user)
}

/// The name of the socket: the process, and when it began.
fn name(process: i32) -> Option<String> {
    super::start_of(process).map(|start| format!("{process}-{start}"))
}

/// A path with which a name beneath an open folder can be used, however long the folder's own is.
fn path(folder: &OwnedFd, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name)
}

/// The folder of sockets, which is made if it `is_wanted`.
fn folder(is_wanted: bool) -> Option<OwnedFd> {
    const NAME: &str = "mcount";
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let runtime =
        PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").filter(|name| !name.is_empty())?);
    let runtime = openat(CWD, &runtime, flags, Mode::empty()).ok().filter(is_private)?;
    if is_wanted {
        // It may be there.
        let _ = mkdirat(&runtime, NAME, Mode::RWXU);
    }
    openat(&runtime, NAME, flags, Mode::empty()).ok().filter(is_private)
}

/// Is it this user's, and closed to all others?
fn is_private(folder: &OwnedFd) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let others = 0o077;
    fstat(folder.as_fd()).is_ok_and(|found| found.st_uid == user && found.st_mode & others == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_heard() {
        let filter =
            vec![(Language::Glob, "a*@lib".to_owned()), (Language::Regex, "^b".to_owned())];
        for wanted in [
            Wanted { filter: filter.clone(), exclude: Vec::new() },
            Wanted { filter: Vec::new(), exclude: filter },
            Wanted::default(),
        ] {
            assert_eq!(Wanted::parse(&wanted.text()).unwrap(), wanted);
        }
    }

    #[test]
    fn who_says_too_much_isnt_heard_out() {
        for (size, is_heard) in [(MOST, true), (MOST + 1, false)] {
            let (mut here, mut there) = UnixStream::pair().unwrap();
            let said = std::thread::spawn(move || there.write_all(&vec![b'a'; size]));
            let heard = read(&mut here, ANSWER);
            assert_eq!(heard.is_ok_and(|text| text.len() == size), is_heard, "{size} bytes");
            drop(here);
            // Whoever wasn't heard out may have noticed.
            let _ = said.join().unwrap();
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        for text in [
            "",
            "mcount attach 2\0",
            "mcount attach 1",
            "mcount attach 1\0filter\0glob\0a",
            "mcount attach 1\0filter\0glob\0",
            "mcount attach 1\0filter\0perl\0a\0",
            "mcount attach 1\0output\0glob\0a\0",
        ] {
            assert!(Wanted::parse(text).is_err(), "{text:?}");
        }
    }
}
