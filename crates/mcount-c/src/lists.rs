//! Lists of sites and of findings, with texts that live as long as the list.

use mcount::{CallSite, Finding, Kind, Level, Sites};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::ptr;

/// `struct mcount_site`.
#[repr(C)]
pub struct McountSite {
    section: *const c_char,
    symbol: *const c_char,
    hook: *const c_char,
    offset: u64,
    address: u64,
    symbol_offset: i64,
    size: u64,
    section_index: u32,
    kind: u32,
    flags: u32,
    reserved: u32,
}

/// `struct mcount_finding`.
#[repr(C)]
pub struct McountFinding {
    rule: *const c_char,
    text: *const c_char,
    section: *const c_char,
    symbol: *const c_char,
    offset: u64,
    address: u64,
    flags: u32,
    is_error: c_int,
}

/// `MCOUNT_SITE_*`.
mod flags {
    pub(super) const RECORDED: u32 = 1;
    pub(super) const EXCLUDED: u32 = 2;
    pub(super) const STALE: u32 = 4;
    pub(super) const HAS_OFFSET: u32 = 8;
    pub(super) const HAS_ADDRESS: u32 = 16;
}

/// `mcount_sites`.
pub struct McountSites {
    rows: Vec<McountSite>,
    _texts: Texts,
}

/// `mcount_findings`.
pub struct McountFindings {
    rows: Vec<McountFinding>,
    _texts: Texts,
}

// SAFETY: the rows lead into texts of the same list, which never change.
unsafe impl Send for McountSites {}
// SAFETY: as above.
unsafe impl Sync for McountSites {}
// SAFETY: as above.
unsafe impl Send for McountFindings {}
// SAFETY: as above.
unsafe impl Sync for McountFindings {}

/// Texts, each once.
#[derive(Default)]
struct Texts(HashMap<String, CString>);

impl Texts {
    /// Where `text` is; null if there is none.
    fn add(&mut self, text: Option<&str>) -> *const c_char {
        let Some(text) = text else { return ptr::null() };
        if let Some(known) = self.0.get(text) {
            return known.as_ptr();
        }
        let without_zeroes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
        let kept = CString::new(without_zeroes).unwrap_or_default();
        // A CString keeps its bytes where they are when it moves.
        self.0.entry(text.to_owned()).or_insert(kept).as_ptr()
    }
}

fn places(offset: Option<u64>, address: Option<u64>) -> u32 {
    let mut found = 0;
    if offset.is_some() {
        found |= flags::HAS_OFFSET;
    }
    if address.is_some() {
        found |= flags::HAS_ADDRESS;
    }
    found
}

impl McountSites {
    pub(crate) fn new(sites: &Sites) -> Self {
        let mut texts = Texts::default();
        let rows = sites.sites.iter().map(|site| row(site, &mut texts)).collect();
        Self { rows, _texts: texts }
    }
}

fn row(site: &CallSite, texts: &mut Texts) -> McountSite {
    let mut flags = places(site.offset, site.address);
    for (is, flag) in [
        (site.recorded, flags::RECORDED),
        (site.excluded, flags::EXCLUDED),
        (site.stale, flags::STALE),
    ] {
        flags |= if is { flag } else { 0 };
    }
    McountSite {
        section: texts.add(site.section.as_deref()),
        symbol: texts.add(site.symbol.as_deref()),
        hook: texts.add(site.hook.as_deref()),
        offset: site.offset.unwrap_or(0),
        address: site.address.unwrap_or(0),
        symbol_offset: site.symbol_offset.unwrap_or(0),
        size: site.size.unwrap_or(0),
        section_index: site.section_index.unwrap_or(0),
        kind: match site.kind {
            None => 0,
            Some(Kind::Call) => 1,
            Some(Kind::Nop) => 2,
            Some(Kind::Patchable) => 3,
            Some(Kind::Literal) => 4,
            Some(Kind::Sled) => 5,
            Some(Kind::ExitSled) => 6,
            Some(Kind::EventSled) => 7,
            Some(_) => u32::MAX,
        },
        flags,
        reserved: 0,
    }
}

impl McountFindings {
    pub(crate) fn new(findings: &[Finding]) -> Self {
        let mut texts = Texts::default();
        let wanted = findings.iter().filter(|f| f.rule.default_level() >= Level::Warn);
        let rows = wanted.map(|finding| McountFinding {
            rule: texts.add(Some(finding.rule.name())),
            text: texts.add(Some(&finding.detail)),
            section: texts.add(finding.section.as_deref()),
            symbol: texts.add(finding.symbol.as_deref()),
            offset: finding.offset.unwrap_or(0),
            address: finding.address.unwrap_or(0),
            flags: places(finding.offset, finding.address),
            is_error: c_int::from(finding.rule.default_level() == Level::Deny),
        });
        let rows = rows.collect();
        Self { rows, _texts: texts }
    }
}

/// How many sites `sites` has.
///
/// # Safety
///
/// `sites` is null or a list of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_sites_count(sites: *const McountSites) -> usize {
    // SAFETY: the caller promises that `sites` is null or a list of this library.
    unsafe { sites.as_ref() }.map_or(0, |sites| sites.rows.len())
}

/// The site `number` of `sites`; null if it has fewer.
///
/// # Safety
///
/// As [`mcount_sites_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_sites_at(
    sites: *const McountSites,
    number: usize,
) -> *const McountSite {
    // SAFETY: the caller promises that `sites` is null or a list of this library.
    let row = unsafe { sites.as_ref() }.and_then(|sites| sites.rows.get(number));
    row.map_or(ptr::null(), ptr::from_ref)
}

/// Frees `sites`, which may be null.
///
/// # Safety
///
/// As [`mcount_sites_count`], and it isn't used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_sites_free(sites: *mut McountSites) {
    if !sites.is_null() {
        // SAFETY: the caller promises that `sites` is null or a list of this library, and it isn't
        // used again.
        drop(unsafe { Box::from_raw(sites) });
    }
}

/// How many findings `findings` has.
///
/// # Safety
///
/// `findings` is null or a list of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_findings_count(findings: *const McountFindings) -> usize {
    // SAFETY: the caller promises that `findings` is null or a list of this library.
    unsafe { findings.as_ref() }.map_or(0, |findings| findings.rows.len())
}

/// The finding `number` of `findings`; null if it has fewer.
///
/// # Safety
///
/// As [`mcount_findings_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_findings_at(
    findings: *const McountFindings,
    number: usize,
) -> *const McountFinding {
    // SAFETY: the caller promises that `findings` is null or a list of this library.
    let row = unsafe { findings.as_ref() }.and_then(|findings| findings.rows.get(number));
    row.map_or(ptr::null(), ptr::from_ref)
}

/// Frees `findings`, which may be null.
///
/// # Safety
///
/// As [`mcount_findings_count`], and it isn't used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_findings_free(findings: *mut McountFindings) {
    if !findings.is_null() {
        // SAFETY: the caller promises that `findings` is null or a list of this library, and it
        // isn't used again.
        drop(unsafe { Box::from_raw(findings) });
    }
}
