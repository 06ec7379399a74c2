//! The memory of a process, read and written through `/proc/PID/mem`. That also writes code which is mapped without write
//! permission, so no page is ever writable and executable.

use nix::libc;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;

/// The memory of a process.
#[derive(Debug)]
pub struct Memory(File);

/// A process that something is done to.
#[derive(Debug, Clone, Copy)]
pub struct Target<'m> {
    /// The process ID.
    pub process: i32,
    /// Its memory.
    pub memory: &'m Memory,
}

/// Of a process that has ended, nothing is read or written, which `std` takes for the end of a file.
fn ended(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WriteZero | io::ErrorKind::UnexpectedEof => {
            io::Error::from_raw_os_error(libc::ESRCH)
        }
        _ => error,
    }
}

impl Memory {
    /// Opens the memory of `process`.
    ///
    /// # Errors
    ///
    /// There's no such process, or its memory belongs to another user.
    pub fn open(process: i32) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{process}/mem")).map(Self)
    }

    /// Fills `bytes` with what is at `address`.
    ///
    /// # Errors
    ///
    /// There's nothing mapped, or the process has ended.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address).map_err(ended)
    }

    /// Writes `bytes` to `address`.
    ///
    /// # Errors
    ///
    /// There's nothing mapped, or the process has ended.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address).map_err(ended)
    }

    /// The word of eight bytes at `address`.
    ///
    /// # Errors
    ///
    /// There's nothing mapped, or the process has ended.
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// `count` words of eight bytes from `address` on.
    ///
    /// # Errors
    ///
    /// There's nothing mapped, or the process has ended.
    pub fn words(&self, address: u64, count: usize) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        self.read(address, &mut bytes)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
        bytes.chunks_exact(8).map(word).collect::<Result<_, _>>().map_err(io::Error::other)
    }

    /// The string at `address`, at most a page of it.
    ///
    /// # Errors
    ///
    /// There's nothing mapped, or the process has ended.
    pub fn string(&self, address: u64) -> io::Result<Vec<u8>> {
        let mut found = Vec::new();
        let mut at = address;
        while found.len() < 4096 {
            // A piece never crosses a page, so that it's mapped if its first byte is.
            let mut piece = vec![0; usize::try_from(256 - at % 256).unwrap_or(1)];
            self.read(at, &mut piece)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                found.extend_from_slice(piece.get(..end).unwrap_or_default());
                return Ok(found);
            }
            at += piece.len() as u64;
            found.append(&mut piece);
        }
        Ok(found)
    }
}

/// A file of `/proc` in which there may be the name of a thread. That needn't be UTF-8: the kernel cuts it off after 15 bytes, and the program
/// may choose any.
///
/// # Errors
///
/// There's no such file, or it may not be read.
pub fn proc_text(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    OpenOptions::new().read(true).open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number in the line of `/proc/PROCESS/status` that begins with `field`.
#[must_use]
pub fn status(process: i32, field: &str) -> Option<u64> {
    let text = proc_text(&format!("/proc/{process}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field))?.trim().parse().ok()
}
