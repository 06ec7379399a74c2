//! The file of a module with its debug information, if that's still the file that was traced.

use crate::commit::Failure;
use crate::debug::separate::{Search, Subject};
use mcount_trace::Module;
use object::Object;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What's said of a module without debug information.
pub(crate) const NO_DEBUG: &str = "has no debug information: compile with -g";

/// Opens the file of a module, and what has its debug information; or says why not, in words that follow the path.
pub(crate) fn subject(module: &Module<'_>) -> Result<Subject, String> {
    let path = Path::new(OsStr::from_bytes(module.path));
    let subject = Subject::open(path, &Search::default(), true)
        .map_err(|error: Failure| error.to_string())?;
    let build_id = object::File::parse(subject.bytes())
        .ok()
        .and_then(|file| file.build_id().ok().flatten().map(<[u8]>::to_vec))
        .unwrap_or_default();
    if build_id == module.build_id {
        Ok(subject)
    } else {
        Err("has changed since it was traced".to_owned())
    }
}
