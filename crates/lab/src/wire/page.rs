//! Counters and series of a lab's path: a file in shared memory that the wire process writes as
//! packets cross. Any process may read it at any time, also after the wire has been killed.
//!
//! ```text
//! offset 0       numbers about the process (Global)          HEADER_WORDS
//!                gauges of a→b, of b→a (Gauge)               LANE_WORDS each
//! SERIES_OFFSET  a→b: HISTORY bins of 1 ms, b→a likewise     BIN_WORDS each
//! ```
//!
//! All words are 64 bits, written and read atomically one by one; those that no number has are
//! zero. A bin belongs to the millisecond `number = time / 1 ms` if its first word holds that
//! number; the bins are a ring, so the last [`HISTORY`] are there. The file gets its memory as time
//! goes (`Reserve`).

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use icdc_path::Fate;
use icdc_scheduler::Window;
use icdc_units::{ByteCount, Span, Time};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::heading::Heading;

/// Number of bins of a direction: ten minutes, the time recorded ahead, and a margin.
pub(crate) const HISTORY: u64 = 670_000;
/// Length of a bin of the series.
pub(crate) const BIN: Span = Span::from_millis(1);

/// Number of 64-bit words for the numbers about the process ([`Global`]), at the beginning of the
/// page.
const HEADER_WORDS: usize = 64;
/// Number of 64-bit words for the numbers about one direction ([`Gauge`]).
const LANE_WORDS: usize = 64;
/// Number of 64-bit words of a bin: the number of its millisecond, and four of counts.
const BIN_WORDS: usize = 5;
/// Offset of the bins in the page, in bytes.
const SERIES_OFFSET: usize = 4096;
/// Length of the page's file in bytes.
const LENGTH: usize = SERIES_OFFSET + 2 * HISTORY as usize * BIN_WORDS * 8;

/// Numbers about the wire process, by their index in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Global {
    /// Monotonic time of the last sign of life of the wire, in nanoseconds.
    Heartbeat,
    /// Whether the wire has real-time priority (1) or not (0).
    Realtime,
    /// Frames that the hosts' devices or their backlogs dropped: the machine's doing, not the
    /// path's.
    DeviceDrops,
    /// Monotonic time at which the wire began, in nanoseconds.
    Started,
}

/// Numbers about one direction, by their index in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)] // as in `icdc_path::Counters`, or evident from the name
pub enum Gauge {
    /// Frames that arrived at the path.
    Offered,
    /// Bytes on the wire of these frames.
    OfferedBytes,
    /// Frames that the bottleneck passed.
    Delivered,
    /// Bytes on the wire of these frames.
    DeliveredBytes,
    /// Frames that the path lost.
    Lost,
    /// Frames that the full queue or CoDel dropped.
    QueueDrops,
    /// Gap frames (PAUSE).
    GapFrames,
    /// Frames that exceeded the line rate.
    Overruns,
    /// Longest queue at the bottleneck, in bytes.
    QueueMax,
    /// Packets in flight on the path now.
    HeldPackets,
    /// Bytes in flight on the path now.
    HeldBytes,
    /// Frames that the ring had no free slot for.
    RingOverflow,
    /// Packets that the far device refused.
    SendFailures,
    /// Frames that were longer than a slot of the ring.
    Truncated,
    /// Packets of many frames (segmentation offload).
    Superpackets,
    /// Median of the lateness of packets, in nanoseconds.
    LatenessMedian,
    /// 99th percentile of the lateness, in nanoseconds.
    Lateness99,
    /// 99.9th percentile of the lateness, in nanoseconds.
    Lateness999,
    /// Greatest lateness, in nanoseconds.
    LatenessMax,
    /// Largest burst of a window (see [`icdc_scheduler::Burstiness`]), in bytes.
    BurstMax,
    /// Sum of the largest bursts of all windows, in bytes.
    BurstSum,
    /// Number of windows.
    BurstWindows,
    /// Frames that got a congestion mark (ECN).
    Marked,
}

/// One direction's numbers of one millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Bytes on the wire that arrived at the far end.
    pub delivered: ByteCount,
    /// Bytes on the wire that arrived at the path.
    pub offered: ByteCount,
    /// Longest queue at the bottleneck in the millisecond.
    pub queue: ByteCount,
    /// Number of frames that the full queue or CoDel dropped, or that exceeded the line rate.
    pub queue_drops: u32,
    /// Number of frames that the path lost.
    pub lost: u32,
    /// Burstiness of the second that began here; zero in all other milliseconds.
    pub burst: ByteCount,
}

/// Time ahead for which deliveries are recorded at the time of their departure; later ones are
/// missing in the series.
pub(crate) const AHEAD: Span = Span::from_secs(60);
/// Further time ahead for which memory is populated.
const SPARE: Span = Span::from_secs(10);

/// File of a path's counters and series, mapped into memory: the wire writes it while other
/// processes read.
pub struct Page {
    memory: NonNull<AtomicU64>,
}

// SAFETY: all access is by atomic operations on memory that lives as long as the page.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

/// Allocates memory for the page's file ahead of time: if it were missing, recording would end the
/// wire by a signal (SIGBUS).
pub(super) struct Reserve {
    file: File,
    /// Time until which memory is populated.
    until: Time,
}

impl Reserve {
    /// Allocates memory for the bins of the time from `now` on, if that is not done yet. An error
    /// if there is no memory.
    pub(super) fn ensure(&mut self, now: Time) -> io::Result<()> {
        if self.until >= now + AHEAD + SPARE {
            return Ok(());
        }
        let number = |at: Time| at.as_nanos() / BIN.as_nanos();
        let until = now + AHEAD + SPARE * 2;
        let (first, end) = (number(now.max(self.until)), number(until));
        // In two parts where the series begins again.
        let turn = (end / HISTORY * HISTORY).clamp(first, end);
        for heading in Heading::BOTH {
            for (first, end) in [(first, turn), (turn, end)].into_iter().filter(|(first, end)| first < end) {
                let length = (end - first) * BIN_WORDS as u64 * 8;
                fallocate(&self.file, FallocateFlags::empty(), bin_words(heading, first) as u64 * 8, length)?;
            }
        }
        self.until = until;
        Ok(())
    }
}

impl Page {
    /// Makes the file, with memory for the near future after `now`.
    pub(super) fn create(path: &Path, now: Time) -> io::Result<(Self, Reserve)> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.set_len(LENGTH as u64)?;
        fallocate(&file, FallocateFlags::empty(), 0, SERIES_OFFSET as u64)?;
        let page = Self::map(&file, ProtFlags::READ | ProtFlags::WRITE)?;
        let mut reserve = Reserve { file, until: Time::ORIGIN };
        reserve.ensure(now)?;
        Ok((page, reserve))
    }

    /// Opens and maps an existing page, to be read only.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() != LENGTH as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "made by another version of icdc"));
        }
        Self::map(&file, ProtFlags::READ)
    }

    /// Maps the whole file into memory, shared with other processes.
    fn map(file: &File, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe { mmap(std::ptr::null_mut(), LENGTH, protection, MapFlags::SHARED, file, 0)? };
        Ok(Self { memory: NonNull::new(memory.cast()).expect("mmap does not give the null page") })
    }

    /// Reads a number about the process.
    #[must_use]
    pub fn global(&self, which: Global) -> u64 {
        self.word(which as usize).load(Ordering::Relaxed)
    }

    /// Writes one number about the wire process.
    pub(crate) fn set_global(&self, which: Global, value: u64) {
        self.word(which as usize).store(value, Ordering::Relaxed);
    }

    /// Reads a number about one direction.
    #[must_use]
    pub fn gauge(&self, heading: Heading, gauge: Gauge) -> u64 {
        self.lane_word(heading, gauge).load(Ordering::Relaxed)
    }

    /// The bin of millisecond `number` of the monotonic clock; `None` if nothing happened in it, or
    /// it is not recorded yet or any more.
    #[must_use]
    pub fn bin(&self, heading: Heading, number: u64) -> Option<Bin> {
        let words = bin_words(heading, number);
        if self.word(words).load(Ordering::Acquire) != number {
            return None;
        }
        let [bytes, queue, drops, burst] = [1, 2, 3, 4].map(|word| self.word(words + word).load(Ordering::Relaxed));
        Some(Bin {
            delivered: ByteCount::new(bytes & 0xffff_ffff),
            offered: ByteCount::new(bytes >> 32),
            queue: ByteCount::new(queue),
            queue_drops: (drops & 0xffff_ffff) as u32,
            lost: (drops >> 32) as u32,
            burst: ByteCount::new(burst),
        })
    }

    /// The page's word of one number about a direction.
    fn lane_word(&self, heading: Heading, gauge: Gauge) -> &AtomicU64 {
        self.word(HEADER_WORDS + heading.index() * LANE_WORDS + gauge as usize)
    }

    /// The 64-bit word at an index of the page.
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < LENGTH / 8, "all words lie in the page");
        // SAFETY: the index is within the mapping, which is aligned to a page.
        unsafe { self.memory.add(index).as_ref() }
    }
}

/// Index of the first word of a bin.
fn bin_words(heading: Heading, number: u64) -> usize {
    let index = heading.index() as u64 * HISTORY + number % HISTORY;
    SERIES_OFFSET / 8 + index as usize * BIN_WORDS
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `map`, to which no reference is left.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), LENGTH) };
    }
}

/// The part of the page that one direction writes.
#[derive(Clone)]
pub(super) struct LanePage {
    page: Arc<Page>,
    heading: Heading,
}

impl LanePage {
    /// The part of `page` for this direction.
    pub(super) fn new(page: Arc<Page>, heading: Heading) -> Self {
        Self { page, heading }
    }

    /// Sets a number of this direction.
    pub(super) fn set(&self, gauge: Gauge, value: u64) {
        self.page.lane_word(self.heading, gauge).store(value, Ordering::Relaxed);
    }

    /// Adds to a number of this direction, which only the lane's thread writes.
    pub(super) fn add(&self, gauge: Gauge, value: u64) {
        let word = self.page.lane_word(self.heading, gauge);
        word.store(word.load(Ordering::Relaxed) + value, Ordering::Relaxed);
    }

    /// Records the burstiness of a second that has ended: in the counters, and in the bin of its
    /// first millisecond.
    pub(super) fn burst(&self, window: &Window) {
        let longest = self.page.gauge(self.heading, Gauge::BurstMax).max(window.burst.as_u64());
        self.set(Gauge::BurstMax, longest);
        self.add(Gauge::BurstSum, window.burst.as_u64());
        self.add(Gauge::BurstWindows, 1);
        self.page.word(self.open_bin(window.start) + 4).store(window.burst.as_u64(), Ordering::Relaxed);
    }

    /// Counts a frame in the bin of its arrival at the path, with its fate and the queue that it
    /// found, and in the bin of its delivery.
    pub(super) fn arrived(&self, at: Time, fate: Fate, wire_length: ByteCount, queue: ByteCount) {
        let words = self.open_bin(at);
        let add = |word: usize, value: u64| {
            let word = self.page.word(words + word);
            word.store(word.load(Ordering::Relaxed) + value, Ordering::Relaxed);
        };
        add(1, wire_length.as_u64() << 32);
        match fate {
            Fate::Dropped | Fate::Overrun => add(3, 1),
            Fate::Lost => add(3, 1 << 32),
            Fate::Delivered(_) | Fate::Marked(_) | Fate::Gap => {}
        }
        let longest = self.page.word(words + 2);
        longest.store(longest.load(Ordering::Relaxed).max(queue.as_u64()), Ordering::Relaxed);
        if let Some(due) = fate.due()
            && due - at <= AHEAD
        {
            let word = self.page.word(self.open_bin(due) + 1);
            word.store(word.load(Ordering::Relaxed) + wire_length.as_u64(), Ordering::Relaxed);
        }
    }

    /// The words of the bin of this time, emptied if they were another millisecond's.
    fn open_bin(&self, at: Time) -> usize {
        let number = at.as_nanos() / BIN.as_nanos();
        let words = bin_words(self.heading, number);
        if self.page.word(words).load(Ordering::Relaxed) != number {
            for word in 1..BIN_WORDS {
                self.page.word(words + word).store(0, Ordering::Relaxed);
            }
            self.page.word(words).store(number, Ordering::Release);
        }
        words
    }
}
