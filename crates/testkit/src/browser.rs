//! The pages that `mcount report` writes, in a browser without a window.

use crate::process;
use crate::room::Room;
use std::process::Command;

/// Names of functions with which a page could do more than name them.
pub const HOSTILE_NAMES: [&str; 4] = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\" autofocus onfocus=document.title='owned' x=\"",
    "{{data}}<!--<script>",
];

/// The title of `page` after `script` has run in it, or its first error. Markup is as the document has it.
///
/// # Errors
///
/// chromium can't be run.
pub fn title_after(room: &Room, page: &str, script: &str) -> Result<String, String> {
    title_with(room, page, script, &[])
}

/// The same with these options of the browser.
///
/// # Errors
///
/// chromium can't be run.
pub fn title_with(
    room: &Room,
    page: &str,
    script: &str,
    options: &[&str],
) -> Result<String, String> {
    // Before the scripts of the page, so that their errors are seen.
    let acting = format!(
        "<body><script>window.addEventListener('error', (event) => {{ document.title = event.message; }});\
         window.addEventListener('load', () => {{ {script} }});</script>"
    );
    let path = room.put("acting.html", page.replace("<body>", &acting).as_bytes())?;
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    browser.args(["--disable-background-networking", "--disable-component-update"]);
    browser.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1200,900"]);
    browser.arg("--virtual-time-budget=5000").args(options);
    browser.arg(format!("--user-data-dir={}", room.path("browser").display()));
    // Only the title is printed: the document may be larger than a pipe.
    let command =
        format!("{browser:?} --dump-dom \"$1\" | grep -o '<title>[^<]*</title>' | head -1");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).arg("sh").arg(path);
    let title = process::run(&mut shell)?.trim().to_owned();
    Ok(title.trim_start_matches("<title>").trim_end_matches("</title>").to_owned())
}
