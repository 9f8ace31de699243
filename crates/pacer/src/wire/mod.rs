//! The wire pacer: paces all traffic that a host sends through a device, in classes, by byte
//! clocks.
//!
//! ```text
//! applications ─► TCP/IP ─► routes ─► tap ─► filters ─► byte clocks ─► AF_PACKET ─► device ═► wire
//!                              ▲      (icdc's)                │ gap mode: PAUSE frames fill the gaps
//!                              └── copies of the device's own, preferred while the tap is there
//! device ═► TCP/IP             unchanged for arrivals; answers of neighbours also go to the tap
//! ```
//!
//! The tap has the device's hardware address and MTU, and copies of its routes and permanent
//! neighbours. Nothing of the device is changed. The tap is held by a descriptor: however this
//! process ends, it goes, its routes go, and the host sends as before.
//!
//! | mode | spacing of frames | precision |
//! |---|---|---|
//! | timer | the system's timer wakes the process when a frame is due | frames that are late leave in one bunch |
//! | gap | gap frames fill the line, where it charges for them | the line's, up to a delay of [`LEAD`] |
//!
//! | part | file |
//! |---|---|
//! | line of a device, and whether it charges for gap frames | `line` |
//! | classes of a file | `classes` |
//! | tap, routes, neighbours | `detour` |
//! | frames and gap frames in memory | `frames` |
//! | positions on the line and times | `line_clock` |
//! | the loop | `departure` |
//! | detour and loop as one | `pacer` |
//! | errors | `error` |
//! | burstiness of each class | `burstiness` |
//! | interface for other threads | `control` |

mod burstiness;
mod classes;
mod control;
mod departure;
mod detour;
mod error;
mod frames;
mod line;
mod line_clock;
mod pacer;

pub use classes::Classes;
pub use control::{ClassStatus, Control, Status};
pub use error::WireError;
pub use line::{LEAD, Line, Mode};
pub use pacer::WirePacer;
