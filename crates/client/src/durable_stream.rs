//! Durable part of a stream that is kept where its copy ends early: it is told then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use icdc_transfer::{Event, EventSink};
use icdc_units::ByteCount;

/// Number of bytes of a stream that are durable at the destination, by the events of a run.
#[derive(Clone, Debug)]
pub(crate) struct DurableStream(Arc<AtomicU64>);

impl DurableStream {
    /// A stream of which `from` bytes are durable.
    pub(crate) fn new(from: ByteCount) -> Self {
        Self(Arc::new(AtomicU64::new(from.as_u64())))
    }

    /// Sink that notes what the events of a run say about the stream, and passes them on to `events`.
    pub(crate) fn noting(&self, events: &EventSink) -> EventSink {
        let (noted, events) = (self.0.clone(), events.clone());
        Arc::new(move |event| {
            if let Event::StreamDurable { bytes } = event {
                noted.store(bytes, Ordering::Relaxed);
            }
            events(event);
        })
    }

    /// Number of durable bytes from the start of the stream.
    pub(crate) fn bytes(&self) -> ByteCount {
        ByteCount::new(self.0.load(Ordering::Relaxed))
    }
}
