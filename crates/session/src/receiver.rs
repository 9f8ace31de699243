//! The receiving end of a session: state machines that take events and return actions.
//!
//! | module | what |
//! |---|---|
//! | [`book`] | names: what is wanted, and when an item, a directory and the run are done |
//! | [`comparisons`] | large files and those that they replace: what is compared, and how far ahead |
//! | [`descriptions`] | large files and those in which their content may be: what is cut into chunks, and how far |
//! | [`ending`] | the end of the session, and the last messages |
//! | [`frames_arrived`] | data frames that arrived over each connection after the first |
//! | [`stalls`] | stalls of these connections while the first one is active |
//! | [`files`] | large files: what is written, durable, noted, compared, complete |
//! | [`parts`] | blocks that arrive in parts: their completion, and the limit on their number |
//! | [`tally`] | counts of what was announced, and of what became of it |

pub mod book;
pub mod comparisons;
pub mod descriptions;
pub mod ending;
pub mod files;
pub mod frames_arrived;
pub mod parts;
pub mod stalls;
pub mod tally;
