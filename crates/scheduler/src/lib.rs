//! Pacing by counting bytes on the wire (PSPacer: Takano et al., 2006), for classes of traffic in a
//! tree.
//!
//! ```text
//! frame ─► filters ─► leaf queue ─┐            position   bytes that have passed on the line, gaps included
//!                     …           ├─► next ─►  due(class) position from which its next frame may leave
//!                     leaf queue ─┘
//!
//! a frame of L bytes on the wire leaves at due = d:   due ← d + L · line / rate      whole bytes and an exact rest
//! a class that had nothing to send:                   due ← max(due, position)       nothing is saved up
//! ```
//!
//! The caller moves `position`: by the frames that it sends, by gap frames that fill the line, or
//! by the clock. The next frame is, in this order: of the due classes with a rate, that of the one
//! whose next full frame would be due soonest after this one; of the classes that may exceed their
//! rate or have none, that of the one that has had least, as far as the ceilings above it allow;
//! else there is a gap up to the next position at which a class is due.
//!
//! | part | file |
//! |---|---|
//! | a class's clock | `clock` |
//! | settings of classes, and the rules for trees of them | [`ClassSettings`], [`Tree`] |
//! | filters that select the class of a frame | [`Filter`], on [`Headers`] |
//! | the queue of a class: byte limit, drop-tail, marking, CoDel | `queue` |
//! | cache of the classes of recent flows | `recent` |
//! | the order of all that | [`Scheduler`] |
//! | gaps as frames | [`gap_frames`] |
//! | burstiness of traffic, as Takano et al. measure it | [`Burstiness`] |
//!
//! Lengths are those on the wire: the Ethernet frame and 24 bytes. PSPacer counts 20 bytes less,
//! and serves the highest rate first among the classes that are due. This is also done here among
//! classes that became due together (WF2Q, Bennett and Zhang, 1996): a fast class notices a frame's
//! delay most. A slow one that has waited for most of its own interval goes before it.

#![forbid(unsafe_code)]

mod burstiness;
mod class;
mod clock;
mod filter;
mod gap;
mod headers;
mod queue;
mod recent;
mod scheduler;

pub use burstiness::{Burstiness, Window};
pub use class::{ClassSettings, LEAST_RATE, Tree, TreeError};
pub use filter::Filter;
pub use gap::{LEAST_GAP, gap_frames};
pub use headers::{Headers, is_ecn_capable, is_of_neighbours, mark_congestion};
pub use queue::{Discipline, QueueSettings, Waiting};
pub use scheduler::{ClassCounters, Scheduler, Step};
