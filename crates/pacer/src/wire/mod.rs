//! The wire pacer: what a host sends through a device, in classes, by byte clocks.
//!
//! ```text
//! applications ─► TCP/IP ─► routes ─► tap ─► filters ─► byte clocks ─► AF_PACKET ─► device ═► wire
//!                              ▲       (ours)                 │ gap mode: PAUSE frames fill the gaps
//!                              └── copies of the device's own, preferred while the tap is there
//! device ═► TCP/IP             what arrives takes the usual way; only answers of neighbours go to the tap as well
//! ```
//!
//! The tap has the device's hardware address and MTU, and copies of its routes and permanent
//! neighbours. Nothing of the device is changed. The tap is held by a descriptor: however this
//! process ends, it goes, its routes go, and the host sends as before.
//!
//! | mode | what keeps frames apart | precision |
//! |---|---|---|
//! | timer | the system's timer wakes the process when a frame is due | what the process is late, it sends in one bunch |
//! | gap | gap frames that fill the line, where something is charged for them | that of the line, as long as the process is not later than [`LEAD`] |
//!
//! | part | file |
//! |---|---|
//! | what line a device has, and whether gap frames are charged there | `line` |
//! | classes as a file describes them | `classes` |
//! | tap, routes, neighbours | `detour` |
//! | frames and gap frames in memory | `frames` |
//! | positions on the line and times | `line_clock` |
//! | the loop | `departure` |
//! | detour and loop as one | `pacer` |
//! | what can go wrong | `error` |
//! | how bursty each class leaves | `burstiness` |
//! | what others may see and ask of it | `control` |

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
