//! The receiving end of a session: state machines that take events and return actions.
//!
//! | module | what |
//! |---|---|
//! | [`book`] | names: what is wanted, and when an item, a directory and the run are done |
//! | [`ending`] | how the session ends, and what is said last |
//! | [`frames_arrived`] | what arrived over each connection after the first |
//! | [`stalls`] | which of these have stalled while the first one is heard |
//! | [`files`] | large files: what is written, durable, noted, compared, complete |
//! | [`parts`] | blocks that arrive in parts: which of them make a block whole, and how many there may be |

pub mod book;
pub mod ending;
pub mod files;
pub mod frames_arrived;
pub mod parts;
pub mod stalls;
