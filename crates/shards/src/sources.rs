//! The sources of a plan: paths on this host, and everything beneath them.

use std::path::Path;

use icdc_disk::tree::Tree;
use icdc_protocol::message::{SendOptions, TransferId};
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_transfer::sender::find_sources;
use icdc_transfer::sender::survey::{Survey, survey};

/// All items of the sources at the absolute `paths` that a copy with `options` would announce.
///
/// # Errors
/// [`SessionError::Local`] if a pattern is malformed, [`SessionError::Interrupted`] if `stop` is
/// requested.
pub fn survey_paths(paths: &[String], options: &SendOptions, stop: &StopSignal) -> Result<Survey, SessionError> {
    let tree = Tree::unconfined(Path::new("/")).map_err(|error| SessionError::Local(error.to_string()))?;
    let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.clone().into_bytes()).collect();
    survey(&find_sources(&tree, &paths, options, &TransferId::default()), options, stop)
}
