//! Having a thread of another process stand at an instruction that it usually runs past.

use object::{Object, ObjectSymbol};
use std::path::Path;

/// Makes a thread go on, one instruction at a time, until it's at `address`, and stand there as after SIGSTOP.
///
/// # Errors
///
/// It can't be traced, or it doesn't get there.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]
pub fn stop_at(thread: i32, address: u64) -> Result<(), String> {
    use nix::sys::ptrace;
    use nix::sys::signal::Signal;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    const MOST: u32 = 10_000_000;
    let thread = nix::unistd::Pid::from_raw(thread);
    let text = |error: nix::errno::Errno| error.to_string();
    let wait = || waitpid(thread, Some(WaitPidFlag::__WALL)).map_err(text);
    ptrace::attach(thread).map_err(text)?;
    wait()?;
    for _ in 0..MOST {
        let registers = ptrace::getregs(thread).map_err(text)?;
        #[cfg(target_arch = "x86_64")]
        let place = registers.rip;
        #[cfg(target_arch = "aarch64")]
        let place = registers.pc;
        if place == address {
            return ptrace::detach(thread, Signal::SIGSTOP).map_err(text);
        }
        ptrace::step(thread, None).map_err(text)?;
        wait()?;
    }
    let _ = ptrace::detach(thread, None);
    Err(format!("it doesn't get to {address:#x}"))
}

/// On other processors it can't be done so far.
///
/// # Errors
///
/// Always.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux")))]
pub fn stop_at(_: i32, _: u64) -> Result<(), String> {
    Err("not on this processor".to_owned())
}

/// Where a symbol of a program is in a process that runs it.
///
/// # Errors
///
/// It isn't there, or the process has ended.
pub fn address_of(process: u32, program: &Path, name: &str) -> Result<u64, String> {
    let bytes = crate::files::read(program)?;
    let file = object::File::parse(&*bytes).map_err(|error| error.to_string())?;
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
    let address = symbol.ok_or(format!("no {name}"))?.address();
    if file.kind() == object::ObjectKind::Executable {
        return Ok(address);
    }
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"));
    let maps = maps.map_err(|error| error.to_string())?;
    let program = program.to_string_lossy();
    let first = maps.lines().find(|line| line.ends_with(&*program));
    let start = first.and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok());
    Ok(address + start.ok_or(maps)?)
}
