//! Moves files between two ends over one paced, encrypted, verified stream, and measures the way between them.

mod account;
mod buffers;
mod clock;
mod connect;
mod copy;
mod drive;
mod ending;
mod error;
pub mod event;
mod far_end;
pub mod known_paths;
pub mod link;
mod listen;
pub mod location;
mod measure;
mod options;
mod own_rights;
mod pace;
mod receiver;
mod sender;
mod serve;
mod session;
mod stages;
mod stand_in;
mod stop;

pub use connect::{ConnectError, Far};
pub use copy::copy;
pub use error::CopyError;
pub use event::{Event, EventSink, Outcome, Sample, Stage, Summary};
pub use far_end::{FarEndError, far_end};
pub use icdc_session::SessionError;
pub use location::{Location, LocationError};
pub use measure::{MeasureError, MeasureEvent, MeasureOptions, MeasureSink, Measurement, measure};
pub use options::{ConfirmHost, CopyOptions};
pub use serve::{ServeConfig, ServeError, serve};
pub use stop::StopSignal;

/// A path for people: bytes that are not printable are escaped.
pub(crate) fn path_text(path: &[u8]) -> String {
    icdc_disk::tree::printable(path)
}

/// A digest in hex, as `b3sum` prints it.
pub(crate) fn digest_text(digest: &icdc_protocol::Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}

const _: () = assert!(icdc_disk::BLOCK_SIZE == icdc_protocol::BLOCK_SIZE);
