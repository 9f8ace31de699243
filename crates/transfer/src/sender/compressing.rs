//! Compresses payloads, as [`icdc_rate::compression`] decides, on the threads that digest and pack.
//!
//! A payload is compressed after its digest is known and before it is queued for a connection; the
//! result takes its place in its block, so that no more blocks are needed. As many threads compress at a
//! time as there are codecs: at most one for each hashing thread, and fewer where memory is limited.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use icdc_link::{Parcel, Payload};
use icdc_protocol::compression::{Compressor, LEAST_LENGTH, compressor_memory};
use icdc_protocol::limits::LEAF_SIZE;
use icdc_protocol::message::{Compress, Compressed, Compressible, Uncompressed};
use icdc_rate::compression::{
    Attempt, Bottleneck, Compression, Neighbours, Observed, Reason, Setting, TOP_LEVEL, Trial,
};
use icdc_units::{ByteCount, Span, Time};

use crate::clock;
use crate::codecs::Codecs;
use crate::event::{Event, Stage};
use crate::{processors, resources};

const NO_PANIC: &str = "no panic while compression is decided";

/// Compression of one session's payloads.
pub(super) struct Compressing {
    setting: Compress,
    decision: Mutex<Compression>,
    /// `None` where nothing is compressed.
    codecs: Option<Codecs<Compressor>>,
    /// Memory of the packs of small files, which have no file of their own.
    packs: Mutex<Neighbours>,
    /// Bytes that were compressed, and bytes that they became.
    from: AtomicU64,
    to: AtomicU64,
    /// Payload bytes that were queued as they are.
    plain: AtomicU64,
    /// Time in nanoseconds that compressing has taken.
    took: AtomicU64,
    /// Whether the receiver takes no compressed payloads.
    is_refused: AtomicBool,
    /// Whether this end may not have the memory for a codec.
    lacks_memory: bool,
}

impl Compressing {
    /// Compression as the user wants it.
    pub(super) fn new(setting: Compress) -> Self {
        let rule = match setting {
            Compress::Auto => Setting::Auto,
            Compress::Never => Setting::Never,
            Compress::Level(level) => Setting::Level(level),
        };
        let top = match setting {
            Compress::Never => None,
            Compress::Auto => Some(TOP_LEVEL),
            Compress::Level(level) => Some(level),
        };
        let number = top.map_or(0, |level| resources::codecs(processors::hashers(), compressor_memory(level)));
        let codecs = (number > 0).then(|| Codecs::new(number));
        let lacks_memory = setting != Compress::Never && codecs.is_none();
        Self {
            setting,
            decision: Mutex::new(Compression::new(rule, processors::count() as u64)),
            codecs,
            packs: Mutex::default(),
            from: AtomicU64::new(0),
            to: AtomicU64::new(0),
            plain: AtomicU64::new(0),
            took: AtomicU64::new(0),
            is_refused: AtomicBool::new(false),
            lacks_memory,
        }
    }

    /// The parcel with its payload compressed, where that is decided and saves something; otherwise
    /// as it is. `neighbours` are the blocks before it.
    pub(super) fn compressed(&self, takes: bool, neighbours: &Mutex<Neighbours>, parcel: Parcel) -> Parcel {
        let Some(codecs) = &self.codecs else { return parcel };
        if !takes {
            self.is_refused.store(true, Ordering::Relaxed);
            return parcel;
        }
        let length = parcel.payload_length();
        // A short one, such as the end of a file, tells nothing about its neighbours.
        let attempt = if length < LEAST_LENGTH {
            Attempt::default()
        } else {
            self.decision.lock().expect(NO_PANIC).next(&mut neighbours.lock().expect(NO_PANIC))
        };
        if attempt == Attempt::default() {
            self.plain.fetch_add(length as u64, Ordering::Relaxed);
            return parcel;
        }
        codecs.with(|codec| {
            let begun = clock::now();
            let parcel = self.attempted(codec, attempt, neighbours, parcel);
            self.took.fetch_add((clock::now() - begun).as_nanos(), Ordering::Relaxed);
            parcel
        })
    }

    /// As [`compressed`](Self::compressed), for a pack of small files.
    pub(super) fn compressed_pack(&self, takes: bool, parcel: Parcel) -> Parcel {
        self.compressed(takes, &self.packs, parcel)
    }

    /// The parcel, compressed or sampled by a codec as was decided.
    fn attempted(
        &self,
        codec: &mut Compressor,
        attempt: Attempt,
        neighbours: &Mutex<Neighbours>,
        parcel: Parcel,
    ) -> Parcel {
        let Parcel { message, payload: Some(Payload::Own(mut block, length)) } = parcel else { return parcel };
        if attempt.sample {
            let sample = &block[..length.min(LEAF_SIZE)];
            (1..=TOP_LEVEL).for_each(|level| self.trial(level, sample.len(), || codec.measure(sample, level)));
        }
        let shorter = attempt.level.and_then(|level| {
            let mut frame = None;
            self.trial(level, length, || {
                frame = codec.compress(&block[..length], level);
                frame.map_or(length, <[u8]>::len)
            });
            neighbours.lock().expect(NO_PANIC).on_tried(frame.is_some());
            frame
        });
        let payload = shorter.map_or(length, |frame| {
            block[..frame.len()].copy_from_slice(frame);
            frame.len()
        });
        let message = match Compressible::of(message) {
            Ok(of) if payload < length => {
                self.from.fetch_add(length as u64, Ordering::Relaxed);
                self.to.fetch_add(payload as u64, Ordering::Relaxed);
                Compressed { length: length as u32, of }.into()
            }
            Ok(of) => {
                self.plain.fetch_add(length as u64, Ordering::Relaxed);
                of.into()
            }
            Err(message) => *message,
        };
        Parcel { message, payload: Some((block, payload).into()) }
    }

    /// Notes what `compress`, which returns the length of the result, makes of this many bytes.
    fn trial(&self, level: u8, plain: usize, compress: impl FnOnce() -> usize) {
        let begun = clock::now();
        let compressed = ByteCount::from(compress());
        let trial = Trial { plain: ByteCount::from(plain), compressed, took: clock::now() - begun };
        self.decision.lock().expect(NO_PANIC).on_trial(level, trial);
    }

    /// Observes the transfer, in which `stage` limits, and `delivered` bytes have reached the receiver's
    /// host, which stand for `stand_for`; returns an event where the decision changes.
    pub(super) fn on_tick(
        &self,
        now: Time,
        stage: Stage,
        (delivered, stand_for): (ByteCount, ByteCount),
    ) -> Option<Event> {
        self.codecs.as_ref()?;
        // A ceiling of the user's, or of a key, is as good a reason as a slow path: below it, more data
        // arrives in the same time.
        let limits = match stage {
            Stage::Network | Stage::RateCeiling | Stage::MaxRate => Bottleneck::Network,
            Stage::SourceDisk | Stage::DestinationDisk => Bottleneck::Disk,
            Stage::Hash | Stage::Encrypt => Bottleneck::Processor,
            Stage::Start | Stage::Scan | Stage::Finish => Bottleneck::None,
        };
        let took = Span::from_nanos(self.took.load(Ordering::Relaxed));
        let worked = clock::of_process() - took;
        let observed = Observed { limits, delivered, stand_for, worked };
        let change = self.decision.lock().expect(NO_PANIC).on_tick(now, observed)?;
        Some(Event::Compression { level: change.level, uncompressed: change.reason.map(told) })
    }

    /// Number of bytes that were compressed, and that they became.
    pub(super) fn sums(&self) -> (u64, u64) {
        (self.from.load(Ordering::Relaxed), self.to.load(Ordering::Relaxed))
    }

    /// Reason for which data travels as it is at present; `None` where it is compressed, and where there
    /// is nothing to tell.
    pub(super) fn uncompressed(&self) -> Option<Uncompressed> {
        let (from, _) = self.sums();
        if self.lacks_memory {
            return Some(Uncompressed::Memory);
        }
        if self.is_refused.load(Ordering::Relaxed) {
            return Some(Uncompressed::OlderEnd);
        }
        match self.setting {
            Compress::Auto => self.decision.lock().expect(NO_PANIC).reason().map(told),
            Compress::Level(_) if from == 0 && self.plain.load(Ordering::Relaxed) > 0 => Some(Uncompressed::Data),
            Compress::Never | Compress::Level(_) => None,
        }
    }

    /// Number of payload bytes on the way that so many bytes become, by all that
    /// was queued.
    pub(super) fn on_the_way(&self, bytes: ByteCount) -> ByteCount {
        let ((from, to), plain) = (self.sums(), self.plain.load(Ordering::Relaxed));
        if from == 0 { bytes } else { bytes.scaled(plain + to, plain + from) }
    }
}

/// The reason as it is told.
fn told(reason: Reason) -> Uncompressed {
    match reason {
        Reason::Disk => Uncompressed::Disk,
        Reason::Processor => Uncompressed::Processor,
        Reason::Data => Uncompressed::Data,
    }
}
