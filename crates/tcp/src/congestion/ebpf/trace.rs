//! The tracing build of an algorithm: a record of each of its operations, to compare with the
//! native build.

use icdc_cc::{Algorithm, TraceRecord};
use libbpf_rs::{MapCore, RingBufferBuilder};

use super::load::{Loaded, load_object, registration};
use super::text;
use crate::congestion::error::LoadError;

/// Name of the ring buffer map in which the tracing build puts its records (`c/trace_bpf.h`).
const RING: &str = "icdc_trace";

/// Tracing build of an algorithm, loaded by this process. It is unloaded when this is dropped;
/// sockets that use it keep it.
#[derive(Debug)]
pub struct Traced {
    loaded: Loaded,
    kernel_name: String,
}

/// Loads the tracing build of `algorithm`, which has a name of its own in the kernel and is slower.
///
/// # Errors
/// See [`LoadError`].
pub fn load_traced(algorithm: &'static Algorithm, settings: &[(&str, i64)]) -> Result<Traced, LoadError> {
    let kernel_name = format!("icdct_{}", algorithm.name);
    let loaded = load_object(registration(), algorithm, &kernel_name, settings, algorithm.traced_object())?;
    Ok(Traced { loaded, kernel_name })
}

impl Traced {
    /// Kernel name of the tracing build, by which sockets choose it.
    #[must_use]
    pub fn kernel_name(&self) -> &str {
        &self.kernel_name
    }

    /// Takes the records that have been written since the last call, in order, without waiting. 16
    /// MiB of them are stored, later ones are lost.
    ///
    /// # Errors
    /// The error of libbpf.
    pub fn records(&self) -> Result<Vec<TraceRecord>, String> {
        let map = self.loaded.object().maps().find(|map| map.name() == RING).ok_or("there is no ring buffer")?;
        let mut records = Vec::new();
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            records.extend(TraceRecord::parse(bytes));
            0
        };
        builder.add(&map, take).map_err(|error| text(&error))?;
        let ring = builder.build().map_err(|error| text(&error))?;
        ring.consume().map_err(|error| text(&error))?;
        drop(ring);
        Ok(records)
    }
}
