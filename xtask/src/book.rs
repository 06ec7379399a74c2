//! `cargo xtask book`: makes a book of the pages in `docs` with mdBook, and follows every link in it.
//!
//! Pages also link to files outside `docs`, which a code host shows. The book gets a copy of the pages, in which these links
//! lead to the repository. mdBook is built into `target/tools` if it isn't in `PATH`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::Arg;

use crate::{Result, files};

const USAGE: &str = "\
usage: cargo xtask book [--open]

Makes a book of the pages in docs, in target/book. A link in it that leads nowhere is an error.

  --open   show it in a browser afterwards
";

/// The version that the book is tried with.
const VERSION: &str = "0.4.52";

/// Runs the chore; `false` if a link is dead.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let mut is_opened = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("open") => is_opened = true,
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let source = copy()?;
    let built = files::workspace().join("target/book");
    let mut mdbook = Command::new(program()?);
    mdbook.arg("build").arg("--dest-dir").arg(&built).args(is_opened.then_some("--open"));
    if !mdbook.arg(source).status()?.success() {
        return Err("mdbook failed".into());
    }
    let pages = pages(&built)?;
    let dead: Vec<String> = pages.keys().flat_map(|page| dead_links(page, &pages)).collect();
    for link in &dead {
        eprintln!("{link}");
    }
    println!("{}: {} pages, {} dead links", built.display(), pages.len(), dead.len());
    Ok(dead.is_empty() && pages.len() > 20)
}

/// Where mdBook is, after building it if need be.
fn program() -> Result<PathBuf> {
    if Command::new("mdbook").arg("--version").output().is_ok() {
        return Ok("mdbook".into());
    }
    let tools = files::workspace().join("target/tools");
    let program = tools.join("bin/mdbook");
    if !program.exists() {
        println!("building mdbook {VERSION}, which takes some minutes");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["install", "--locked", "--no-default-features", "--features", "search"]);
        cargo.args(["--version", VERSION, "--root"]).arg(&tools).arg("mdbook");
        if !cargo.status()?.success() {
            return Err("cargo can't install mdbook".into());
        }
    }
    Ok(program)
}

/// A copy of `book.toml` and of the pages. Links out of `docs` lead to the repository there.
fn copy() -> Result<PathBuf> {
    let (from, to) = (files::workspace(), files::workspace().join("target/book-source"));
    let outside = format!("]({}/blob/main/", env!("CARGO_PKG_REPOSITORY"));
    files::make_folder(&to.join("docs"))?;
    files::write(&to.join("book.toml"), &files::read(&from.join("book.toml"))?)?;
    for path in files::list(&from.join("docs"))? {
        let target = to.join("docs").join(path.file_name().unwrap_or_default());
        let bytes = files::read(&path)?;
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        let page = is_page.then(|| String::from_utf8_lossy(&bytes).replace("](../", &outside));
        files::write(&target, page.as_deref().map_or(&*bytes, str::as_bytes))?;
    }
    Ok(to)
}

/// A page of the built book.
struct Page {
    /// What its links lead to.
    links: Vec<String>,
    /// The places in it to which links can lead.
    places: BTreeSet<String>,
}

/// All pages of the book in `folder`, by their paths.
fn pages(folder: &Path) -> Result<BTreeMap<PathBuf, Page>> {
    let mut pages = BTreeMap::new();
    for path in files::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // print.html is all pages once more, and a web server shows 404.html at any address.
        let is_page = path.extension().is_some_and(|extension| extension == "html");
        if is_page && !matches!(&*name, "print.html" | "404.html" | "toc.html") {
            let text = String::from_utf8_lossy(&files::read(&path)?).into_owned();
            let links = [values(&text, "href=\""), values(&text, "src=\"")].concat();
            let places = values(&text, "id=\"").into_iter().collect();
            pages.insert(path, Page { links, places });
        }
    }
    Ok(pages)
}

/// The values of an attribute, each time that it occurs.
fn values(text: &str, attribute: &str) -> Vec<String> {
    let rests = text.split(attribute).skip(1);
    rests.filter_map(|rest| rest.split_once('"')).map(|(value, _)| value.to_owned()).collect()
}

/// The links of `page` that lead nowhere.
fn dead_links(page: &Path, pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let is_inside = |link: &&String| !link.contains(':') && !link.starts_with("//");
    let links = pages.get(page).map_or(&[][..], |page| &page.links).iter().filter(is_inside);
    let dead = links.filter(|link| !leads_somewhere(page, link, pages));
    dead.map(|link| format!("{}: {link}: leads nowhere", page.display())).collect()
}

fn leads_somewhere(page: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> bool {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { page.with_file_name(file) };
    let known = |page: &Page| place.is_empty() || page.places.contains(place);
    pages.get(&target).map_or_else(|| target.exists(), known)
}
