//! `mcount_file`: a file that was opened, and what it is asked.

use crate::failure::{McountFailure, Problem};
use crate::lists::{McountFindings, McountSites};
use crate::options::{McountOptions, text};
use mcount::{CheckOptions, File, LateOptions};
use mcount_store::commit;
use mcount_store::files::Input;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::{ptr, slice};

/// What changes when programs that were linked with an older library can't use this one.
const ABI: u32 = 0;

/// `mcount_file`. Each question parses the headers anew, so that threads share nothing that changes.
pub struct McountFile {
    bytes: Vec<u8>,
    options: McountOptions,
    machine: CString,
    bits: c_int,
    big_endian: bool,
    is_image: bool,
}

impl McountFile {
    fn new(bytes: Vec<u8>, options: McountOptions) -> Result<Self, Problem> {
        let file = File::parse(&bytes)?;
        let machine = CString::new(file.machine()).unwrap_or_default();
        let (bits, big_endian) = (c_int::from(file.bits()), file.is_big_endian());
        let is_image = file.is_image();
        Ok(Self { bytes, options, machine, bits, big_endian, is_image })
    }

    fn file(&self) -> Result<File<'_>, Problem> {
        Ok(File::parse(&self.bytes)?.with_options(self.options.options()))
    }
}

/// What `work` makes, on the heap; null with `failure` if it fails.
///
/// # Safety
///
/// `failure` is null or a `struct mcount_failure`.
unsafe fn made<T>(
    failure: *mut McountFailure,
    work: impl FnOnce() -> Result<T, Problem>,
) -> *mut T {
    match work() {
        Ok(made) => Box::into_raw(Box::new(made)),
        Err(problem) => {
            // SAFETY: the caller promises that `failure` is null or a `struct mcount_failure`.
            unsafe { problem.write(failure) };
            ptr::null_mut()
        }
    }
}

/// The options at `options`, or the default if that is null.
///
/// # Safety
///
/// `options` is null or from this library.
unsafe fn options_or_default(options: *const McountOptions) -> McountOptions {
    // SAFETY: the caller promises that `options` is null or from this library.
    unsafe { options.as_ref() }.cloned().unwrap_or_default()
}

/// The file at `file`.
///
/// # Safety
///
/// `file` is null or from this library.
unsafe fn opened<'f>(file: *const McountFile) -> Result<&'f McountFile, Problem> {
    // SAFETY: the caller promises that `file` is null or from this library.
    unsafe { file.as_ref() }.ok_or_else(|| Problem::argument("no file"))
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_file_abi() -> u32 {
    ABI
}

/// Opens the file at `path`; null with `failure` if that fails.
///
/// # Safety
///
/// `path` is a text, `options` are null or from this library, and `failure` is null or a
/// `struct mcount_failure`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_open(
    path: *const c_char,
    options: *const McountOptions,
    failure: *mut McountFailure,
) -> *mut McountFile {
    // SAFETY: the caller promises that `path` is a text, `options` are null or from this library,
    // and `failure` is null or a `struct mcount_failure`.
    unsafe {
        made(failure, || {
            let input = Input::open(Path::new(text(path)?))?;
            McountFile::new(input.bytes().to_vec(), options_or_default(options))
        })
    }
}

/// Opens a copy of the `size` bytes at `bytes`; null with `failure` if that fails.
///
/// # Safety
///
/// There are that many bytes. The rest is as for [`mcount_file_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_from_memory(
    bytes: *const c_void,
    size: usize,
    options: *const McountOptions,
    failure: *mut McountFailure,
) -> *mut McountFile {
    // SAFETY: the caller promises that there are that many bytes. `path` is a text, `options` are
    // null or from this library, and `failure` is null or a `struct mcount_failure`.
    unsafe {
        made(failure, || {
            if bytes.is_null() {
                return Err(Problem::argument("no bytes"));
            }
            let bytes = slice::from_raw_parts(bytes.cast::<u8>(), size);
            McountFile::new(bytes.to_vec(), options_or_default(options))
        })
    }
}

/// Closes `file`, which may be null.
///
/// # Safety
///
/// `file` is null or from this library, and isn't used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_close(file: *mut McountFile) {
    if !file.is_null() {
        // SAFETY: the caller promises that `file` is null or from this library, and isn't used
        // again.
        drop(unsafe { Box::from_raw(file) });
    }
}

/// The name of the processor, until `file` is closed.
///
/// # Safety
///
/// `file` is null or from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_machine(file: *const McountFile) -> *const c_char {
    // SAFETY: the caller promises that `file` is null or from this library.
    unsafe { file.as_ref() }.map_or(ptr::null(), |file| file.machine.as_ptr())
}

/// 32 or 64.
///
/// # Safety
///
/// `file` is null or from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_bits(file: *const McountFile) -> c_int {
    // SAFETY: the caller promises that `file` is null or from this library.
    unsafe { file.as_ref() }.map_or(0, |file| file.bits)
}

/// Whether its data is big-endian.
///
/// # Safety
///
/// `file` is null or from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_is_big_endian(file: *const McountFile) -> c_int {
    // SAFETY: the caller promises that `file` is null or from this library.
    c_int::from(unsafe { file.as_ref() }.is_some_and(|file| file.big_endian))
}

/// Whether it is linked.
///
/// # Safety
///
/// `file` is null or from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_is_image(file: *const McountFile) -> c_int {
    // SAFETY: the caller promises that `file` is null or from this library.
    c_int::from(unsafe { file.as_ref() }.is_some_and(|file| file.is_image))
}

/// The call sites of `file`; null with `failure` if that fails.
///
/// # Safety
///
/// `file` is from this library, and `failure` is null or a `struct mcount_failure`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_sites(
    file: *const McountFile,
    failure: *mut McountFailure,
) -> *mut McountSites {
    // SAFETY: the caller promises that `file` is from this library, and `failure` is null or a
    // `struct mcount_failure`.
    unsafe { made(failure, || Ok(McountSites::new(&opened(file)?.file()?.sites()?))) }
}

/// The entries of the tables of `file`; null with `failure` if that fails.
///
/// # Safety
///
/// As [`mcount_file_sites`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_table(
    file: *const McountFile,
    failure: *mut McountFailure,
) -> *mut McountSites {
    // SAFETY: the caller promises that `file` is from this library, and `failure` is null or a
    // `struct mcount_failure`.
    unsafe { made(failure, || Ok(McountSites::new(&opened(file)?.file()?.table()?))) }
}

/// The findings about the table of `file`; null with `failure` if there can't be any.
///
/// # Safety
///
/// As [`mcount_file_sites`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_check(
    file: *const McountFile,
    failure: *mut McountFailure,
) -> *mut McountFindings {
    // SAFETY: the caller promises that `file` is from this library, and `failure` is null or a
    // `struct mcount_failure`.
    unsafe {
        made(failure, || {
            let findings = opened(file)?.file()?.check(&CheckOptions::default())?;
            Ok(McountFindings::new(&findings))
        })
    }
}

/// Hands out `bytes`, or says that there are none: 1, or 0; -1 with `failure`.
///
/// # Safety
///
/// `out` and `size` are places to write to, and `failure` is null or a `struct mcount_failure`.
unsafe fn hand_out(
    bytes: Result<Option<Vec<u8>>, Problem>,
    out: *mut *mut c_void,
    size: *mut usize,
    failure: *mut McountFailure,
) -> c_int {
    // SAFETY: the caller promises that `out` and `size` are places to write to, and `failure` is
    // null or a `struct mcount_failure`.
    let places = unsafe { out.as_mut().zip(size.as_mut()) };
    let bytes = bytes.and_then(|bytes| match places {
        Some(places) => Ok((bytes, places)),
        None => Err(Problem::argument("no room for the result")),
    });
    match bytes {
        Ok((Some(bytes), (out, size))) => {
            *size = bytes.len();
            *out = Box::into_raw(bytes.into_boxed_slice()).cast();
            1
        }
        Ok((None, (out, size))) => {
            (*out, *size) = (ptr::null_mut(), 0);
            0
        }
        Err(problem) => {
            // SAFETY: the caller promises that `out` and `size` are places to write to, and
            // `failure` is null or a `struct mcount_failure`.
            unsafe { problem.write(failure) };
            -1
        }
    }
}

/// Makes the object with the right table: 1 with its bytes, 0 if `file` has that table already, or -1 with
/// `failure`.
///
/// # Safety
///
/// `file` is from this library, `bytes` and `size` are places to write to, and `failure` is null or a
/// `struct mcount_failure`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_record(
    file: *const McountFile,
    bytes: *mut *mut c_void,
    size: *mut usize,
    failure: *mut McountFailure,
) -> c_int {
    // SAFETY: the caller promises that `file` is from this library, `bytes` and `size` are places
    // to write to, and `failure` is null or a `struct mcount_failure`.
    unsafe {
        let recorded = opened(file).and_then(|own| {
            let recording = own.file()?.record(&own.options.record_options())?;
            Ok(recording.change.map(|change| change.apply(&own.bytes)))
        });
        hand_out(recorded, bytes, size, failure)
    }
}

/// Makes an object with the table of the linked `file`, to link it in: 1 with its bytes, or -1 with `failure`.
///
/// # Safety
///
/// As [`mcount_file_record`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_file_late_object(
    file: *const McountFile,
    bytes: *mut *mut c_void,
    size: *mut usize,
    failure: *mut McountFailure,
) -> c_int {
    // SAFETY: the caller promises that `file` is from this library, `bytes` and `size` are places
    // to write to, and `failure` is null or a `struct mcount_failure`.
    unsafe {
        let object = opened(file).and_then(|own| {
            let table = own.file()?.late_table(&LateOptions::default())?;
            Ok(Some(mcount::table_object(&table, &own.options.object_options())?))
        });
        hand_out(object, bytes, size, failure)
    }
}

/// Frees what [`mcount_file_record`] and [`mcount_file_late_object`] hand out.
///
/// # Safety
///
/// `bytes` and `size` are from one call of them, or `bytes` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_free(bytes: *mut c_void, size: usize) {
    if !bytes.is_null() {
        // SAFETY: the caller promises that `bytes` and `size` are from one call of them, or `bytes`
        // is null.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(bytes.cast::<u8>(), size)) });
    }
}

/// Records the object at `path` in place, whole or not at all: 1 if it was changed, 0 if it has the right
/// table already, or -1 with `failure`.
///
/// # Safety
///
/// As [`mcount_file_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_record_in_place(
    path: *const c_char,
    options: *const McountOptions,
    failure: *mut McountFailure,
) -> c_int {
    // SAFETY: the caller promises that `path` is a text, `options` are null or from this library,
    // and `failure` is null or a `struct mcount_failure`.
    unsafe {
        let options = options_or_default(options);
        let recorded = text(path).and_then(|path| {
            let how = options.record_options();
            Ok(commit::record_file(Path::new(path), None, &options.options(), &how)?)
        });
        match recorded {
            Ok(recording) => c_int::from(recording.changed),
            Err(problem) => {
                problem.write(failure);
                -1
            }
        }
    }
}
