//! The agent in a process that it wasn't started with: one block of memory, which stays when the recorder leaves, since
//! calls under way return through it. The next recorder finds it and uses it again.
//!
//! ```text
//! header      a page, of the same file in memory as the agent ("mcount-agent")
//! agent       as it's linked, 64 MiB of room for stubs at its end
//! notes       a page: who is attached, which unwinders know the agent
//! objects     a page: what the unwinders keep about it
//! stack       for what the recorder has a thread do
//! ```
//!
//! The contents of a process are its own: all that isn't written anew is compared with the expected bytes. The
//! notes are the exception, and they can only do harm to the process itself.

use super::maps::{self, Mapping};
use crate::commit::about;
use crate::trace::image::{Image, size};
use crate::trace::processor::REACH;
use crate::trace::space::gaps;
use mcount_cpu::here::outside::SYSTEM_CALL;
use mcount_hooks::PAGE;
use mcount_ptrace::rescue::{self, Rescue};
use mcount_ptrace::{CallEnd, Memory, Remote, Target, Thread};
use nix::libc;
use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MAGIC: &[u8; 16] = b"mcount-agent  1\n";
/// The kernel shows this for the file in memory.
const NAME: &str = "/memfd:mcount-agent (deleted)";
pub(super) const FILE: &CStr = c"mcount-agent";
const NOTES: u64 = PAGE;
const OBJECTS: u64 = PAGE;
const STACK: u64 = 64 << 10;
/// Bytes of code from a system call on, with which a thread goes back to what it did.
const GATE: usize = 16;

/// Fields of the notes.
const OWNER: u64 = 0;
const OWNER_START: u64 = 8;
/// How many words for calls of library functions were in use so far.
const WORDS: u64 = 16;
/// The process that is its owner's while nothing is armed in it yet; 0 from then on. A process that it has made meanwhile has the same note, and
/// is nobody's.
const CLAIMED: u64 = 24;
const REGISTERED: u64 = 64;
/// How many unwinders can be noted, and bytes of what each keeps.
const REGISTERED_COUNT: u64 = 16;
const OBJECT: u64 = 128;

fn header(start: u64) -> Vec<u8> {
    let mut bytes = [MAGIC.as_slice(), &start.to_le_bytes()].concat();
    bytes.resize(size(PAGE).unwrap_or(0), 0);
    bytes
}

/// Bytes of the whole block.
fn total(image: &Image) -> u64 {
    PAGE + image.size + NOTES + OBJECTS + STACK
}

/// Header and agent for a block at `start`.
fn content(image: &Image, start: u64) -> io::Result<Vec<u8>> {
    Ok([header(start), image.relocated(start + PAGE)?].concat())
}

/// The block of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    start: u64,
    /// The difference to the addresses of the agent's symbols.
    pub(super) bias: u64,
    notes: u64,
}

impl Block {
    fn new(image: &Image, start: u64) -> Self {
        Self { start, bias: start + PAGE, notes: start + PAGE + image.size }
    }

    /// The block that is in a process already; `None` if there's none, or one of another agent.
    pub(super) fn find(image: &Image, memory: &Memory, maps: &[Mapping]) -> Option<Self> {
        let starts = maps.iter().filter(|map| is_ours(map) && map.offset == 0);
        starts.map(|map| map.start).find_map(|start| Self::at(image, memory, maps, start))
    }

    fn at(image: &Image, memory: &Memory, maps: &[Mapping], start: u64) -> Option<Self> {
        let expected = content(image, start).ok()?;
        let block = Self::new(image, start);
        for load in &image.loads {
            let all = letters(load.protection);
            let is_right = |at: u64| maps::find(maps, at).is_some_and(|map| map.permissions == all);
            let (from, to) = (block.bias + load.start, block.bias + load.end);
            if !is_right(from) || !is_right(to - 1) {
                return None;
            }
            if load.protection & libc::PROT_WRITE == 0 && load.has_bytes() {
                let range = size(PAGE + load.start).ok()?..size(PAGE + load.end).ok()?;
                let right = expected.get(range)?;
                let mut found = vec![0; right.len()];
                memory.read(from, &mut found).ok()?;
                if found != right {
                    return None;
                }
            }
        }
        let mut found = vec![0; 24];
        memory.read(start, &mut found).ok()?;
        let is_mapped =
            maps::find(maps, block.stack() - 1).is_some_and(|map| map.permissions == *b"rw-p");
        (is_mapped && expected.starts_with(&found)).then_some(block)
    }

    /// The end of the stack for what a thread is made to do.
    fn stack(&self) -> u64 {
        self.notes + NOTES + OBJECTS + STACK
    }

    /// A thread that does what it's told, and goes on by itself if its recorder dies.
    pub(super) fn remote<'m>(
        &self,
        image: &Image,
        thread: &mut Thread,
        memory: &'m Memory,
    ) -> io::Result<Remote<'m>> {
        Remote::rescued(thread, memory, Rescue { gate: self.gate(image), frame: self.frame() })
    }

    /// Where the frame of a signal has room: where it ends, a function's begins.
    fn frame(&self) -> u64 {
        rescue::place(self.stack())
    }

    /// Where functions return to.
    pub(super) fn end(&self, image: &Image) -> CallEnd {
        let (done, is_done) = (self.bias + image.symbols.done, self.bias + image.symbols.is_done);
        CallEnd { done, is_done, stack: self.frame() + rescue::BELOW }
    }

    /// A system call.
    fn gate(&self, image: &Image) -> u64 {
        self.bias + image.symbols.is_done - SYSTEM_CALL.len() as u64
    }

    pub(super) fn code(&self, image: &Image) -> (u64, u64) {
        (self.bias + image.code.0, self.bias + image.code.1)
    }

    pub(super) fn stubs(&self, image: &Image) -> (u64, u64) {
        (self.bias + image.symbols.stubs, self.bias + image.symbols.stubs_end)
    }

    pub(super) fn moved(&self, image: &Image) -> (u64, u64) {
        (self.bias + image.symbols.moved, self.bias + image.symbols.moved_end)
    }

    /// Maps the block near `extent`.
    pub(super) fn inject(
        image: &Image,
        remote: &mut Remote<'_>,
        target: Target<'_>,
        maps: &[Mapping],
        extent: (u64, u64),
    ) -> io::Result<Self> {
        let start = map_near(remote, maps, extent, total(image))?;
        let block = Self::new(image, start);
        let done = block.map(image, remote, target);
        if done.is_err() {
            let _ = remote.call(libc::SYS_munmap, &[start, total(image)]);
        }
        done.map(|()| block)
    }

    fn map(&self, image: &Image, remote: &mut Remote<'_>, target: Target<'_>) -> io::Result<()> {
        let bytes = content(image, self.start)?;
        let file = in_memory(FILE, &bytes)?;
        // From here on, the thread can do without us, first by a copy of the gate: writing it needs no right to write.
        let gate = self.gate(image);
        let offset = size(gate - self.start)?;
        let code = bytes.get(offset..offset + GATE).ok_or(io::ErrorKind::InvalidData)?;
        target.memory.write(gate, code)?;
        remote.rescue(Rescue { gate, frame: self.frame() })?;
        let data = libc::PROT_READ | libc::PROT_WRITE;
        let rest = [self.notes, NOTES + OBJECTS + STACK, u64::from(data.cast_unsigned())];
        remote.call(libc::SYS_mprotect, &rest)?;
        let descriptor = self.hand_over(remote, target, &file)?;
        let mut result = map_file(remote, (self.start, PAGE), libc::PROT_READ, (descriptor, 0));
        for load in &image.loads {
            let (at, size) = (self.bias + load.start, load.end - load.start);
            let from = (descriptor, PAGE + load.start);
            result = result.and_then(|()| {
                if load.has_bytes() {
                    return map_file(remote, (at, size), load.protection, from);
                }
                let arguments = anonymous(at, size, load.protection, false);
                remote.call(libc::SYS_mmap, &arguments).map(|_| ())
            });
        }
        let closed = remote.call(libc::SYS_close, &[descriptor]);
        result.and(closed.map(|_| ()))
    }

    /// As [`give`].
    pub(super) fn hand_over(
        &self,
        remote: &mut Remote<'_>,
        target: Target<'_>,
        file: &File,
    ) -> io::Result<u64> {
        give(self.stack() - STACK, remote, target, file)
    }

    /// The recorder that is attached, as it says: its process and when that began.
    pub(super) fn owner(&self, memory: &Memory) -> io::Result<(u64, u64)> {
        Ok((memory.word(self.notes + OWNER)?, memory.word(self.notes + OWNER_START)?))
    }

    pub(super) fn set_owner(&self, memory: &Memory, owner: (u64, u64)) -> io::Result<()> {
        memory.write(self.notes + OWNER_START, &owner.1.to_le_bytes())?;
        memory.write(self.notes + OWNER, &owner.0.to_le_bytes())
    }

    /// Is the note of the owner a copy, of a process that had another number?
    pub(super) fn is_copied(&self, memory: &Memory, process: i32) -> io::Result<bool> {
        let claimed = memory.word(self.notes + CLAIMED)?;
        Ok(claimed != 0 && u64::try_from(process) != Ok(claimed))
    }

    /// Only `process` has the owner that's noted, or with 0, those that it makes have it, too.
    pub(super) fn set_claimed(&self, memory: &Memory, process: i32) -> io::Result<()> {
        memory.write(self.notes + CLAIMED, &u64::from(process.unsigned_abs()).to_le_bytes())
    }

    /// The words by which calls of library functions go on: all of them, in the order in which they are to be used. Those that were used last
    /// come last, as the dynamic linker may be about to fill one in.
    pub(super) fn words(&self, image: &Image, memory: &Memory) -> io::Result<Vec<u64>> {
        let used = memory.word(self.notes + WORDS)? % mcount_agent::WORDS as u64;
        let (start, _) = self.extent_of_words(image);
        let all = (used..mcount_agent::WORDS as u64).chain(0..used);
        Ok(all.map(|place| start + 8 * place).collect())
    }

    /// Where these words are.
    pub(super) fn extent_of_words(&self, image: &Image) -> (u64, u64) {
        let start = self.bias + image.symbols.words;
        (start, start + 8 * mcount_agent::WORDS as u64)
    }

    /// So many words more are in use.
    pub(super) fn use_words(&self, memory: &Memory, count: u64) -> io::Result<()> {
        let used = memory.word(self.notes + WORDS)?.wrapping_add(count);
        memory.write(self.notes + WORDS, &used.to_le_bytes())
    }

    /// Where the unwinder whose function is at `address` keeps what it knows of the agent, and where it's noted that it
    /// knows. `None` if it does already, or if there's no more room.
    pub(super) fn room_for(&self, memory: &Memory, address: u64) -> io::Result<Option<(u64, u64)>> {
        for place in 0..REGISTERED_COUNT {
            let note = self.notes + REGISTERED + 8 * place;
            match memory.word(note)? {
                0 => return Ok(Some((self.notes + NOTES + OBJECT * place, note))),
                found if found == address => return Ok(None),
                _ => {}
            }
        }
        Err(io::Error::other("it has loaded too many unwinders"))
    }
}

/// Maps `size` bytes for code that the module at `extent` reaches; where.
pub(super) fn map_near(
    remote: &mut Remote<'_>,
    maps: &[Mapping],
    extent: (u64, u64),
    size: u64,
) -> io::Result<u64> {
    // Those that are free by the maps, but not for the kernel, are few.
    const TRIES: usize = 8;
    let mut result = Err(io::Error::other("no free memory near it"));
    for start in gaps(&maps::ranges(maps), extent, size, REACH).take(TRIES) {
        let arguments = anonymous(start, size, libc::PROT_READ | libc::PROT_EXEC, true);
        result = remote.call(libc::SYS_mmap, &arguments);
        if result.as_ref().is_ok_and(|found| *found == start) {
            break;
        }
    }
    result
}

/// Gives `file` to the process, in whatever namespaces it is: through a pair of sockets of its own. The descriptor that it
/// has there. `place` is unused memory of the process.
pub(super) fn give(
    place: u64,
    remote: &mut Remote<'_>,
    Target { process, memory }: Target<'_>,
    file: &File,
) -> io::Result<u64> {
    let kind = u64::from((libc::SOCK_DGRAM | libc::SOCK_CLOEXEC).cast_unsigned());
    let unix = u64::from(libc::AF_UNIX.cast_unsigned());
    remote.call(libc::SYS_socketpair, &[unix, kind, 0, place])?;
    let pair = memory.word(place)?;
    let (ours, theirs) = (pair & 0xffff_ffff, pair >> 32);
    let received =
        send(process, ours, file).and_then(|()| receive(remote, memory, place + 64, theirs));
    let closed = [ours, theirs].map(|one| remote.call(libc::SYS_close, &[one]));
    let received = received?;
    closed.into_iter().collect::<io::Result<Vec<_>>>()?;
    Ok(received)
}

/// Is this a mapping of an agent?
pub(super) fn is_ours(map: &Mapping) -> bool {
    map.path == Path::new(NAME)
}

/// Is it a page of what `puns.rs` maps?
pub(super) fn is_jumps(map: &Mapping) -> bool {
    map.path == Path::new("/memfd:mcount-jumps (deleted)")
}

/// A file in memory with this name, and with these bytes in it.
pub(super) fn in_memory(name: &CStr, bytes: &[u8]) -> io::Result<File> {
    // SAFETY: the name is a string; the descriptor is new.
    let file = unsafe {
        match libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            file => Ok(File::from(OwnedFd::from_raw_fd(file))),
        }
    };
    let filled = file.and_then(|mut file| file.write_all(bytes).map(|()| file));
    filled.map_err(|error| about_memory(name, error))
}

/// `error`, with the name that the kernel shows for a file in memory.
pub(super) fn about_memory(name: &CStr, error: io::Error) -> io::Error {
    about(format!("/memfd:{}", name.to_string_lossy()).as_ref(), error)
}

/// The arguments of `mmap` for private memory that isn't a file's; `is_new`: nothing may be there yet.
pub(super) fn anonymous(address: u64, size: u64, protection: i32, is_new: bool) -> [u64; 6] {
    let fixed = if is_new { libc::MAP_FIXED_NOREPLACE } else { libc::MAP_FIXED };
    crate::trace::space::mapping(address, size, protection, fixed)
}

/// Maps a piece of a file in the place of what's there.
pub(super) fn map_file(
    remote: &mut Remote<'_>,
    (at, size): (u64, u64),
    protection: i32,
    (descriptor, offset): (u64, u64),
) -> io::Result<()> {
    let number = |value: i32| u64::from(value.cast_unsigned());
    let flags = number(libc::MAP_PRIVATE | libc::MAP_FIXED);
    remote
        .call(libc::SYS_mmap, &[at, size, number(protection), flags, descriptor, offset])
        .map(|_| ())
}

fn letters(protection: i32) -> [u8; 4] {
    let letter = |flag: i32, letter: u8| if protection & flag == 0 { b'-' } else { letter };
    [
        letter(libc::PROT_READ, b'r'),
        letter(libc::PROT_WRITE, b'w'),
        letter(libc::PROT_EXEC, b'x'),
        b'p',
    ]
}

/// Sends `file` through the socket that has the number `socket` in `process`.
fn send(process: i32, socket: u64, file: &File) -> io::Result<()> {
    let socket = socket_of(process, socket)?;
    let mut byte = [0_u8];
    let mut piece = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // Length, level and type of the control message, and the descriptor.
    let (level, kind) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    let mut control = [0_u64; 3];
    let words = [20, 0, level, kind, file.as_raw_fd(), 0];
    for (room, pair) in control.iter_mut().zip(words.chunks_exact(2)) {
        let [low, high] = pair else { continue };
        *room = u64::from(low.cast_unsigned()) | u64::from(high.cast_unsigned()) << 32;
    }
    // SAFETY: all that the message leads to lives during the call.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        // Its size in bytes, of a type that C libraries disagree about.
        message.msg_controllen = 24;
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The socket that has this number in `process`.
fn socket_of(process: i32, socket: u64) -> io::Result<OwnedFd> {
    let owned = |number: i64| match i32::try_from(number) {
        // SAFETY: it was made just now.
        Ok(number) if number >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: no pointer is passed.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    // SAFETY: as above.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), socket, 0) })
}

/// Has the process receive a file from its socket; `place` has room for what that takes.
fn receive(remote: &mut Remote<'_>, memory: &Memory, place: u64, socket: u64) -> io::Result<u64> {
    const CONTROL: u64 = 24;
    // struct msghdr: name and its length, pieces and their count, control and its length, flags. Then a piece, its byte,
    // and the control message, whose descriptor is behind length, level and type.
    let (piece, byte, control) = (place + 64, place + 80, place + 96);
    let words = [0, 0, piece, 1, control, CONTROL, 0, 0, byte, 1];
    let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    memory.write(place, &bytes)?;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    remote.call(libc::SYS_recvmsg, &[socket, place, u64::from(flags.cast_unsigned())])?;
    match memory.word(place + 40)? {
        CONTROL => Ok(memory.word(control + 16)? & 0xffff_ffff),
        _ => Err(io::Error::other(
            "it can't open the trace: it has too many open files; raise its limit (prlimit --nofile)",
        )),
    }
}

/// The processes that have this file mapped.
pub(super) fn processes_with(file: &Metadata) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        let Ok(process) = name.parse() else { continue };
        // One that may not be looked at can't have come from one that may.
        let Ok(maps) = maps::read(process) else { continue };
        let is_it = |map: &Mapping| map.inode == file.ino() && map.permissions == *b"rw-s";
        if maps.iter().any(is_it) && maps.iter().any(is_ours) {
            found.push(process);
        }
    }
    Ok(found)
}
