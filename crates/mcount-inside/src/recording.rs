//! A trace while it's written: the file, its header, and what is known of the program (docs/trace-format.md).

use crate::agent::{self, most_bytes, rooms};
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::frames::{LEAST, LIMIT};
use crate::module::Module as Code;
use crate::records;
use mcount_cpu::here::syscalls::ticks;
use mcount_trace::layout::{self, directory, header};
use mcount_trace::{Entry, Function, Mapping, Module, Moment, ProcessStart, Signature, ThreadName};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

/// A trace that is being recorded.
pub(crate) struct Recording {
    /// None once the program has closed its descriptor.
    file: Option<File>,
    path: PathBuf,
    /// Where it's mapped, and how many bytes it can grow to.
    start: *mut u8,
    room: u64,
    /// The process that began it; a forked child must not end it.
    process: u32,
    begin: Moment,
    /// The modules that it knows, by their numbers.
    known: HashSet<usize>,
    /// Where metadata goes: descriptor, bytes, and how many are used.
    metadata: Option<(*mut u8, *mut u8, usize)>,
}

// SAFETY: what the pointers lead to is written under the lock of the program.
unsafe impl Send for Recording {}

/// The number that a trace has for the module with this number: from 1 on.
fn number_of(module: usize) -> u32 {
    u32::try_from(module + 1).unwrap_or(0)
}

/// The processor's clock, and `CLOCK_MONOTONIC` at that time.
fn both_clocks() -> Moment {
    Moment::read(ticks, || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time goes to a value of ours.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
    })
}

/// A part of a time, whose type differs by processor.
fn part(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}

impl Recording {
    /// Creates the trace at `path`, in the place of an older one, and begins to record into it.
    pub(crate) fn begin(path: &Path) -> Result<Self> {
        let (file, temporary) = files::create_beside(path)?;
        let result = Self::with(file, path);
        match result {
            Ok(recording) => {
                std::fs::rename(&temporary, path).map_err(|error| Error::file(path, &error))?;
                Ok(recording)
            }
            Err(error) => {
                let _ = std::fs::remove_file(&temporary);
                Err(error)
            }
        }
    }

    fn with(file: File, path: &Path) -> Result<Self> {
        let wrong = |error: io::Error| Error::file(path, &error);
        if most_bytes() < layout::HEADER_BLOCK {
            // Trying it would end the program by a signal.
            return Err(wrong(io::Error::from_raw_os_error(libc::EFBIG)));
        }
        file.set_len(layout::HEADER_BLOCK).map_err(wrong)?;
        let known = file.metadata().map_err(wrong)?;
        let (start, room) = map(&file).map_err(wrong)?;
        let most = (room - layout::HEADER_BLOCK) / layout::CHUNK_SIZE - 2;
        rooms().set(file.as_raw_fd(), (known.dev(), known.ino()), most);
        let mut recording = Self {
            file: None,
            path: path.to_owned(),
            start,
            room,
            process: std::process::id(),
            begin: both_clocks(),
            known: HashSet::new(),
            metadata: None,
        };
        recording.write_header(&file).map_err(wrong)?;
        agent::begin(start).map_err(|why| Error::new(ErrorKind::NoRoom, why))?;
        let name = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let path = name.as_os_str().as_bytes();
        recording.add(ProcessStart { pid: recording.process, parent: 0, ticks: ticks(), path });
        recording.know_marks();
        file.write_all_at(&layout::MAGIC, header::MAGIC as u64).map_err(wrong)?;
        recording.file = Some(file);
        Ok(recording)
    }

    fn write_header(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&layout::BYTE_ORDER.to_ne_bytes(), header::BYTE_ORDER as u64)?;
        file.write_all_at(&layout::VERSION.to_ne_bytes(), header::VERSION as u64)?;
        let realtime = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let realtime = realtime.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0));
        self.set(header::CHUNK_SIZE, layout::CHUNK_SIZE);
        self.set(header::CLOCK, layout::clock::COUNTER);
        self.set(header::START_TICKS, self.begin.ticks);
        self.set(header::START_REALTIME, realtime);
        self.set(header::START_MONOTONIC, self.begin.nanoseconds);
        // Long enough for three digits; the rest comes at the end.
        std::thread::sleep(Duration::from_millis(2));
        self.measure_clock();
        Ok(())
    }

    fn measure_clock(&self) {
        self.set(header::TICKS_PER_SECOND, both_clocks().ticks_per_second(self.begin));
    }

    #[expect(clippy::cast_ptr_alignment, reason = "fields of a trace are aligned")]
    fn field(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the header is mapped as long as this lives, the offset is one of its fields and a multiple of 8.
        unsafe { &*self.start.wrapping_add(offset).cast::<AtomicU64>() }
    }

    fn set(&self, offset: usize, value: u64) {
        self.field(offset).store(value, SeqCst);
    }

    /// Adds a metadata record. If there's no room, calls are dropped as well, and [`Self::finish`] says so.
    #[expect(clippy::cast_ptr_alignment, reason = "fields of a trace are aligned")]
    fn add<'e>(&mut self, entry: impl Into<Entry<'e>>) {
        let mut bytes = Vec::new();
        entry.into().append(&mut bytes);
        let size = usize::try_from(layout::CHUNK_SIZE).unwrap_or(0);
        if self.metadata.is_none_or(|(_, _, used)| used + bytes.len() > size) {
            self.metadata = agent::metadata_chunk().map(|(what, place)| (what, place, 0));
        }
        let Some((descriptor, place, used)) = self.metadata else { return };
        let after = used + bytes.len();
        // SAFETY: the chunk is this recording's, and has that many bytes.
        unsafe {
            place.add(used).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            descriptor.add(directory::USED).cast::<u64>().write_volatile(after as u64);
        }
        self.metadata = Some((descriptor, place, after));
    }

    /// Lets the trace know the function that markers are calls of.
    fn know_marks(&mut self) {
        static NUMBER: OnceLock<Option<u32>> = OnceLock::new();
        const ROLE: u8 = 3;
        const NAME: &[u8] = b"text";
        let Some(number) = *NUMBER.get_or_init(records::number) else { return };
        let name = b"mcount_mark";
        self.add(Function { number, module: 0, address: 0, size: 0, name });
        let values = [&[ROLE, 4], NAME, &[layout::kind::TEXT]].concat();
        self.add(Signature { function: number, values: &values });
        agent::set_function(number);
    }

    /// Lets the trace know a module, by this number, if it doesn't yet.
    pub(crate) fn know(&mut self, number: usize, module: &Code) {
        if !self.known.insert(number) {
            return;
        }
        let path = module.path.as_os_str().as_bytes();
        let build_id = module.build_id.as_slice();
        self.add(Module { number: number_of(number), build_id, path });
        for (hook, site) in module.hooks.iter().zip(&module.sites) {
            self.add(Function {
                number: site.record.id,
                module: number_of(number),
                address: hook.function,
                size: hook.size,
                name: hook.names.first().map_or(b"", |name| name.as_bytes()),
            });
        }
        self.loaded(true, number, module);
    }

    /// The module was unloaded.
    pub(crate) fn forget(&mut self, number: usize, module: &Code) {
        if self.known.remove(&number) {
            self.loaded(false, number, module);
        }
    }

    fn loaded(&mut self, is_loaded: bool, number: usize, module: &Code) {
        let bias = module.loaded.as_ref().map_or(0, |loaded| loaded.bias);
        let (module, pid) = (number_of(number), self.process);
        self.add(Mapping { module, pid, bias, ticks: ticks(), is_loaded });
    }

    /// Adds what the threads are called that still run.
    fn add_thread_names(&mut self) {
        for entry in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let thread = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let name = files::read(&entry.path().join("comm"));
            let (Some(thread), Ok(mut name)) = (thread, name) else { continue };
            name.pop_if(|last| *last == b'\n');
            let (pid, tid) = (self.process, thread);
            self.add(ThreadName { pid, tid, ticks: ticks(), name: &name });
        }
    }

    /// Ends it. Calls that are under way are in it as such. The caller has disarmed what was armed for it.
    ///
    /// # Errors
    ///
    /// Some calls are missing from it.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.process == std::process::id() {
            self.add_thread_names();
        }
        let is_quiet = agent::end();
        self.file = self.file.and_then(|file| own(file, &self.path));
        if self.process != std::process::id() {
            // A forked child: the trace is its parent's.
            return Ok(());
        }
        // A child that still records finds no more room.
        self.set(header::FULL, 1);
        self.set(header::READY, 0);
        self.measure_clock();
        self.set(header::END_TICKS, ticks());
        let dropped = self.field(header::DROPPED).load(SeqCst);
        self.field(header::FLAGS).fetch_or(layout::flags::FINISHED, SeqCst);
        let chunks = self.field(header::NEXT_CHUNK).load(SeqCst);
        let size = layout::HEADER_BLOCK + chunks * layout::CHUNK_SIZE;
        let error = rooms().error.load(SeqCst);
        rooms().set(-1, (0, 0), 0);
        if is_quiet {
            // A thread may just be writing a record: what has been written to stays mapped.
            unmap(self.start, size, self.room);
            let _ = self.file.map(|file| file.set_len(size));
        }
        if dropped == 0 {
            return Ok(());
        }
        let why = match error {
            0 => "no memory where the shadows of stacks are".to_owned(),
            error => io::Error::from_raw_os_error(error).to_string(),
        };
        let text = format!("{}: {why}: {dropped} calls were not recorded", self.path.display());
        Err(Error::new(ErrorKind::File, text))
    }
}

/// The file of a trace that's being recorded, if its descriptor is still its own. Else the program has closed it, and may
/// have opened another file with this number; so it's looked for at `path`.
fn own(file: File, path: &Path) -> Option<File> {
    if rooms().is_it(file.as_raw_fd()) {
        return Some(file);
    }
    let _ = file.into_raw_fd();
    let found = File::options().write(true).open(path).ok()?;
    rooms().is_it(found.as_raw_fd()).then_some(found)
}

/// Maps the file, and says how many bytes of it. What earlier traces have written stays mapped, so where addresses have 32
/// bits there may be no room for the most that it can grow to.
fn map(file: &File) -> io::Result<(*mut u8, u64)> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let mut room = LIMIT;
    loop {
        let size = usize::try_from(room).unwrap_or(0);
        let nowhere = std::ptr::null_mut();
        // SAFETY: new memory.
        let found = unsafe { libc::mmap(nowhere, size, protection, flags, file.as_raw_fd(), 0) };
        if found != libc::MAP_FAILED {
            return Ok((found.cast(), room));
        }
        room /= 2;
        if room < LEAST {
            return Err(io::Error::last_os_error());
        }
    }
}

/// Gives back what is mapped from `size` bytes on, of `room` bytes.
fn unmap(start: *mut u8, size: u64, room: u64) {
    let size = usize::try_from(size).unwrap_or(0);
    let rest = usize::try_from(room).unwrap_or(0).saturating_sub(size);
    // SAFETY: it's the mapping of a trace, and nobody has got a chunk there.
    unsafe { libc::munmap(start.wrapping_add(size).cast(), rest) };
}
