//! What `perf-event2` has, for processors that it isn't written for: there, the kernel can't be asked what it tells of threads
//! (`perf_event_open(2)`), and nothing can be built.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::ops::BitOr;
use std::os::fd::{AsRawFd, RawFd};

/// An event that isn't counted.
#[derive(Clone)]
pub(super) struct Builder<'b>(PhantomData<&'b ()>);

/// Settings that nobody asks for.
macro_rules! settings {
    ($($name:ident: $kind:ty),*) => {
        $(pub(super) fn $name(&mut self, _: $kind) -> &mut Self { self })*
    };
}

impl Builder<'_> {
    pub(super) fn new(_: Event) -> Self {
        Self(PhantomData)
    }

    settings!(observe_pid: i32, one_cpu: usize, inherit: bool, inherit_thread: bool, enabled: bool, sample_id_all: bool);
    settings!(sample: SampleFlag, clockid: Clock, exclude_kernel: bool, exclude_hv: bool, context_switch: bool, task: bool);
    settings!(sample_regs_user: u64, comm: bool, comm_exec: bool, event: Event, sample_period: u64, wakeup_watermark: usize);

    pub(super) fn include_kernel(&mut self) -> &mut Self {
        self
    }

    pub(super) fn any_pid(&mut self) -> &mut Self {
        self
    }

    /// Says that it can't be counted.
    #[expect(clippy::unused_self, reason = "elsewhere it's otherwise")]
    pub(super) fn build(&self) -> io::Result<Counter> {
        let why = "mcount can't ask the kernel for that on this processor yet";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }
}

/// Whatever is to be counted.
pub(super) struct Event;

pub(super) struct Software;

impl Software {
    pub(super) const DUMMY: Event = Event;
    pub(super) const PAGE_FAULTS: Event = Event;
}

pub(super) struct Tracepoint;

impl Tracepoint {
    pub(super) fn with_id(_: u64) -> Event {
        Event
    }
}

pub(super) struct Clock;

impl Clock {
    pub(super) const MONOTONIC_RAW: Self = Self;
}

#[derive(Clone, Copy)]
pub(super) struct SampleFlag;

impl SampleFlag {
    pub(super) const TIME: Self = Self;
    pub(super) const TID: Self = Self;
    pub(super) const RAW: Self = Self;
    pub(super) const REGS_USER: Self = Self;
    pub(super) const IP: Self = Self;
    pub(super) const ADDR: Self = Self;
    pub(super) const STREAM_ID: Self = Self;
}

impl BitOr for SampleFlag {
    type Output = Self;

    fn bitor(self, _: Self) -> Self {
        self
    }
}

/// What is counted: nothing ever is.
pub(super) struct Counter(Infallible);

impl Counter {
    pub(super) fn id(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn sampled(self, _: usize) -> io::Result<Sampler> {
        match self.0 {}
    }
}

impl AsRawFd for Counter {
    fn as_raw_fd(&self) -> RawFd {
        match self.0 {}
    }
}

/// Where it's told.
pub(super) struct Sampler(Infallible);

impl Sampler {
    pub(super) fn next_record(&mut self) -> Option<Record> {
        match self.0 {}
    }
}

impl AsRawFd for Sampler {
    fn as_raw_fd(&self) -> RawFd {
        match self.0 {}
    }
}

/// What is told.
pub(super) struct Record(Infallible);

impl Record {
    pub(super) fn ty(&self) -> u32 {
        match self.0 {}
    }

    pub(super) fn misc(&self) -> u16 {
        match self.0 {}
    }

    pub(super) fn len(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn to_contiguous(&self) -> Cow<'_, [u8]> {
        match self.0 {}
    }
}
