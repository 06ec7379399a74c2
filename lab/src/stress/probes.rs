//! Probes come and go while eight threads run through the functions that they are of.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::servers::as_in_files;
use crate::sources::shell;
use crate::{Result, files};

/// How long the program may take to end, once its time is over.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is done to the program in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// `mcount attach` makes probes of some functions, of all in the program, or of all there are.
    Attach,
    /// `mcount sample` arms and disarms them in windows.
    Sample,
    Top,
}

/// Rounds come in this order, again and again.
const WAYS: [Way; 8] = [
    Way::Attach,
    Way::Attach,
    Way::Sample,
    Way::Attach,
    Way::Attach,
    Way::Attach,
    Way::Top,
    Way::Attach,
];

/// Which functions have probes in a round: one, ten, a hundred, a thousand, all of the program, or all.
fn pattern(round: usize) -> String {
    // A prime number, so that each round has others.
    let number = round * 7919;
    match round % 7 {
        0 => format!("f{:04}", number % 10_000),
        1 => format!("f{:03}?", number % 1000),
        2 => format!("f{:02}??", number % 100),
        3 => format!("f???{}", number % 10),
        4 => format!("f{}???", number % 10),
        5 => "f????".to_owned(),
        _ => "*".to_owned(),
    }
}

/// Does it for so long: `false` if the program, `mcount` or the program's code was wrong once.
pub(super) fn run(folder: &Path, mcount: &Path, minutes: f64) -> Result<bool> {
    let root = files::workspace().display().to_string();
    let line = format!(
        "gcc -w -O2 -shared -fPIC '{root}/tests/live/plugin.c' -o plain.so && \
         gcc -D_GNU_SOURCE -w -O2 -I'{root}/include' '{root}/tests/live/through.c' '{root}/tests/live/many.c' \
         -lpthread -ldl -o through"
    );
    shell(folder, &line)?;
    let seconds = (minutes * 60.0).max(2.0);
    println!("== probes: {seconds:.0} s");
    let mut command = Command::new("./through");
    command.args([&format!("{seconds:.1}"), "./plain.so"]).current_dir(folder);
    let mut program = command.spawn()?;
    let begin = Instant::now();
    let (mut wrong, mut done) = (0, BTreeMap::new());
    for round in 0.. {
        std::thread::sleep(Duration::from_millis(20));
        // The last round has the time it needs, on a busy machine, too.
        if begin.elapsed().as_secs_f64() + 30.0 > seconds && round > 0 {
            break;
        }
        if let Some(status) = program.try_wait()? {
            println!("== failed: round {round}: the program has ended: {status}");
            return Ok(false);
        }
        let way = WAYS.get(round % WAYS.len()).copied().unwrap_or(Way::Attach);
        if let Err(error) = one(folder, mcount, (way, round), program.id()) {
            println!("== failed: round {round}, {way:?}, {}: {error}", pattern(round));
            wrong += 1;
        }
        *done.entry(way).or_insert(0_u64) += 1;
    }
    let status = loop {
        if let Some(status) = program.try_wait()? {
            break status;
        }
        if begin.elapsed().as_secs_f64() > seconds + PATIENCE.as_secs_f64() {
            program.kill()?;
            return Err("the program does not end".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    println!("{done:?}, {wrong} wrong; the program: {status}");
    Ok(wrong == 0 && status.success())
}

/// One round; an error if `mcount` failed, or the code of the program isn't as in its files afterwards.
fn one(folder: &Path, mcount: &Path, (way, round): (Way, usize), process: u32) -> Result<()> {
    let trace = folder.join("through.mcount");
    let (probe, process_id) = (pattern(round), process.to_string());
    let options: &[&str] = match way {
        Way::Attach => &["attach", "--ring", "16M", "--duration", "50ms", "-o"],
        Way::Sample => &["sample", "--cost", "20%", "--duration", "12s", "-o"],
        Way::Top => &["top", "--once", "--interval", "0.2s", "--ring", "16M", "-o"],
    };
    let mut command = Command::new(mcount);
    command.args(options).arg(&trace).args(["--probe", &probe, &process_id]);
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    as_in_files(process)
}
