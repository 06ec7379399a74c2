//! `calls GLOB PROGRAM [ARG]...`, or `calls GLOB PID`: prints the calls of the functions that the glob means while they come, and
//! leaves the trace `calls.mcount`.

#[cfg(can_trace)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use mcount_tracer::{Options, Session};
    use std::io::Write;

    let mut arguments = std::env::args_os().skip(1);
    let glob = arguments.next().ok_or("which functions?")?;
    let command: Vec<_> = arguments.collect();
    let first = command.first().ok_or("which program or process?")?;

    let options = Options::new("calls.mcount").function(&glob.to_string_lossy())?;
    let mut session = match first.to_string_lossy().parse() {
        Ok(process) => Session::take(process, options)?,
        Err(_) => Session::start(&command, options)?,
    };

    let mut out = std::io::stdout().lock();
    loop {
        // What is over when it's asked has no more calls behind those that are read now.
        let is_over = session.is_over();
        let calls = session.calls();
        for call in &calls {
            writeln!(out, "{:>12} ns  {}", call.duration, call.function)?;
        }
        if is_over && calls.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    let finished = session.stop()?;
    for note in finished.notes {
        writeln!(out, "{note}")?;
    }
    writeln!(out, "trace: {}", finished.trace.display())?;
    Ok(())
}

#[cfg(not(can_trace))]
fn main() {}
