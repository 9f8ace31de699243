//! Lists what is in a tree: names, metadata, and digests of contents, at the end that has it.
//!
//! ```text
//!  walk ─┬────────────── records ──────────────┬► in order ► batches ═ link ═► checked ► ls, du, verify
//!        ├─ small files ► workers: read, digest ┤
//!        └─ large files ► reader: io_uring, Direct I/O ► workers: digest blocks
//! ```
//!
//! | file | what |
//! |---|---|
//! | `root` | the item that is listed |
//! | `walk` | the items of its tree, depth first, each directory beneath the one before by descriptor |
//! | `produce` | records in order, in batches |
//! | `digests` | digests of files by several threads |
//! | `subject` | a regular file to be digested |
//! | `large` | reads large files at the disk's rate |
//! | `far` | the end that lists for another |
//! | `near` | a listing of this host or of another one, as a stream |
//!
//! What is compared with what is decided in [`icdc_session::listing`].

#![forbid(unsafe_code)]

mod digests;
mod far;
mod large;
mod near;
mod produce;
mod root;
mod subject;
mod walk;

pub use far::answer;
pub use near::Listing;
