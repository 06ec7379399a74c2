//! What most processors have in common.

#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" {
    static mcount_inside_traced_return: u8;
}

/// Where a traced function returns to, wherever its hook is.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn late_return() -> u64 {
    (&raw const mcount_inside_traced_return) as u64
}

/// Lets handlers see floating-point or vector registers, if they have asked for them.
///
/// # Safety
///
/// `call` is one of the assembly's.
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
pub(crate) unsafe fn show_vectors(call: &mut crate::record::Call, wanted: u32) {
    let is_wanted = wanted & crate::record::flags::VECTORS != 0;
    call.vectors = if is_wanted { call.area } else { std::ptr::null_mut() };
}

/// The stub at an address of a site with this record, and where the function is called behind its hook.
#[cfg(not(any(target_arch = "x86", target_arch = "aarch64", target_arch = "arm")))]
pub(crate) fn stub(
    _: u64,
    place: u64,
    body: u64,
) -> Option<([u8; mcount_cpu::here::code::RECORD_STUB], u64)> {
    let enter = u8::try_from(std::mem::offset_of!(crate::record::Record, enter)).ok()?;
    Some((mcount_cpu::here::code::record_stub(place, enter), body))
}

/// Has the function that's entered return to `address`.
///
/// # Safety
///
/// The call is one of the assembly's.
#[cfg(any(
    target_arch = "loongarch64",
    target_arch = "powerpc64",
    target_arch = "riscv64",
    target_arch = "s390x"
))]
pub(crate) unsafe fn return_to(call: &crate::record::Call, address: u64) {
    // SAFETY: the caller's: the link is in a frame of this thread's.
    unsafe { call.link.write_volatile(address) };
}

/// Has all processors fetch anew what was written. `false`: the kernel has to be asked.
#[cfg(not(target_arch = "riscv64"))]
pub(crate) fn fetch_anew_everywhere() -> bool {
    false
}
