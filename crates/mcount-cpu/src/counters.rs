//! Counters of the processor's events, as programs read them by themselves (`perf_event_open(2)`, `cap_user_rdpmc`).

/// How a program reads them.
#[derive(Debug, Clone, Copy)]
pub struct Counters {
    /// Reads the counter with this number: the `index` of an event's page, less one. The number is that of a counter which the kernel lets
    /// this thread read; if it's another one, the program ends by a signal.
    pub read: unsafe fn(u32) -> u64,
    /// What `config1` of an event says so that programs may read it. The first one counts that the kernel accepts.
    pub config1: &'static [u64],
    /// The number of the system call `perf_event_open`.
    pub open: u64,
}

/// `struct perf_event_attr` of `<linux/perf_event.h>`, as it was at first: `PERF_ATTR_SIZE_VER0`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Attributes {
    /// The kind of the event.
    pub kind: u32,
    /// Bytes of this structure.
    pub size: u32,
    /// Which event.
    pub config: u64,
    sampling: [u64; 3],
    flags: u64,
    wakeup: [u32; 2],
    /// What else is to be known of it.
    pub config1: u64,
}

impl Attributes {
    /// An event of a thread that counts what the program does, and not the kernel, as long as there's a counter for it.
    #[must_use]
    pub const fn new(kind: u32, config: u64, config1: u64) -> Self {
        const PINNED: u64 = 1 << 2;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        let flags = PINNED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        Self { kind, size: 64, config, sampling: [0; 3], flags, wakeup: [0; 2], config1 }
    }
}

const _: () = assert!(size_of::<Attributes>() == 64);

/// The beginning of an event's page: `struct perf_event_mmap_page`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Page {
    version: [u32; 2],
    /// Changes with the rest.
    pub lock: u32,
    /// The number of the counter that it has, plus one; 0: none.
    pub index: u32,
    /// What is to be added to the counter.
    pub offset: i64,
    times: [u64; 2],
    /// What can be done.
    pub capabilities: u64,
    /// How many bits the counter has.
    pub width: u16,
}

impl Page {
    /// Programs may read the counter.
    pub const CAN_READ: u64 = 1 << 2;

    /// What the event has counted. `None`: it has no counter now.
    ///
    /// # Safety
    ///
    /// It's the page of an event of this thread.
    #[expect(unsafe_code, reason = "the counter is read")]
    pub unsafe fn read(page: *const Self, read: unsafe fn(u32) -> u64) -> Option<u64> {
        use core::sync::atomic::{Ordering, compiler_fence};
        loop {
            // SAFETY: the caller promises that the page is there. The kernel changes it only while this thread isn't running.
            unsafe {
                let lock = (&raw const (*page).lock).read_volatile();
                compiler_fence(Ordering::SeqCst);
                let index = (&raw const (*page).index).read_volatile();
                let offset = (&raw const (*page).offset).read_volatile();
                let width = (&raw const (*page).width).read_volatile();
                let can = (&raw const (*page).capabilities).read_volatile() & Self::CAN_READ != 0;
                let unused = 64_u32.saturating_sub(u32::from(width));
                let found = (can && index != 0 && unused < 64).then(|| {
                    let counted = (read(index - 1) << unused).cast_signed() >> unused;
                    offset.wrapping_add(counted).cast_unsigned()
                });
                compiler_fence(Ordering::SeqCst);
                if (&raw const (*page).lock).read_volatile() == lock {
                    return found;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(index: u32, offset: i64, capabilities: u64, width: u16) -> Page {
        Page { version: [0; 2], lock: 2, index, offset, times: [0; 2], capabilities, width }
    }

    /// Counter 3 has counted 10, and counter 4 is below what it began with.
    #[expect(unsafe_code, reason = "readers of counters are unsafe")]
    unsafe fn counter(number: u32) -> u64 {
        match number {
            3 => 10,
            4 => (1 << 48) - 7,
            _ => panic!("{number} is another one's"),
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "the page is a value")]
    fn counters_are_read_as_the_page_says() {
        let table = [
            (page(4, 1000, Page::CAN_READ, 48), Some(1010)),
            (page(5, 1000, Page::CAN_READ, 48), Some(993)),
            (page(4, 0, Page::CAN_READ, 64), Some(10)),
            // None, or it can't be read, or the kernel says nothing of it.
            (page(0, 1000, Page::CAN_READ, 48), None),
            (page(4, 1000, 0, 48), None),
            (page(4, 1000, Page::CAN_READ, 0), None),
        ];
        for (page, expected) in table {
            // SAFETY: it's a value, and so are counters.
            assert_eq!(unsafe { Page::read(&raw const page, counter) }, expected, "{page:?}");
        }
    }

    #[test]
    fn the_structures_are_those_of_the_kernel() {
        use core::mem::offset_of;
        let of_page = [
            (offset_of!(Page, lock), 8),
            (offset_of!(Page, index), 12),
            (offset_of!(Page, offset), 16),
            (offset_of!(Page, capabilities), 40),
            (offset_of!(Page, width), 48),
        ];
        let of_attributes = [
            (offset_of!(Attributes, config), 8),
            (offset_of!(Attributes, flags), 40),
            (offset_of!(Attributes, config1), 56),
        ];
        for (found, expected) in of_page.into_iter().chain(of_attributes) {
            assert_eq!(found, expected);
        }
    }
}
