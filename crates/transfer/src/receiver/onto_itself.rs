//! Refuses a copy onto itself: a source that is what it would replace, and a directory that the
//! destination is in. Tells what of the destination is a source, which a mirror must not delete.

use icdc_disk::tree::{Directory, Name, Stat, TreeError};
use icdc_protocol::message::{Begin, Identity, Source, SourceKind};
use icdc_session::SessionError;

use super::placement::{Placement, refusal, refuse};
use crate::identity::Identities;
use crate::path_text;

/// Refuses a copy of a source onto itself or into itself. Nothing has been made yet.
pub(super) fn refuse_onto_itself(placement: &Placement, begin: &Begin) -> Result<(), SessionError> {
    let has_identities = begin.sources.iter().any(|source| source.identity.is_some());
    let Some(identities) = Identities::of(&begin.job).filter(|_| has_identities) else { return Ok(()) };
    let lineage = placement.existing().lineage();
    let above: Vec<_> = lineage.into_iter().map(|(device, inode)| identities.numbered(device, inode)).collect();
    for source in &begin.sources {
        let Some(identity) = source.identity else { continue };
        if source.kind != SourceKind::Item && above.contains(&identity) {
            return Err(onto_itself(source, &placement.existing().path()));
        }
        if let Some((directory, name)) = placement.target_of(source)
            && let Some(stat) = stat(directory, &name).map_err(refuse)?
            && identities.identity(&stat) == identity
        {
            return Err(onto_itself(source, &directory.path_of(&name)));
        }
    }
    Ok(())
}

/// Sources of a session whose sender is on the same kernel, by identities with which this end
/// recognizes them.
pub(super) struct SourcesHere {
    identities: Identities,
    sources: Vec<Identity>,
}

impl SourcesHere {
    /// The sources of a session that begins with `begin`; `None` if its sender is on another kernel.
    pub(super) fn of(begin: &Begin) -> Option<Self> {
        let sources: Vec<_> = begin.sources.iter().filter_map(|source| source.identity).collect();
        let identities = Identities::of(&begin.job).filter(|_| !sources.is_empty())?;
        Some(Self { identities, sources })
    }

    /// Whether the item that `stat` describes is one of the sources.
    pub(super) fn has(&self, stat: &Stat) -> bool {
        self.sources.contains(&self.identities.identity(stat))
    }

    /// Whether a directory is one of the sources, or lies in one.
    pub(super) fn hold(&self, directory: &Directory) -> bool {
        let numbered = |(device, inode)| self.identities.numbered(device, inode);
        directory.lineage().into_iter().any(|place| self.sources.contains(&numbered(place)))
    }
}

/// Attributes of the item `name` in this directory; `None` if it does not exist.
fn stat(directory: &Directory, name: &Name) -> Result<Option<Stat>, TreeError> {
    match directory.stat(name) {
        Err(error) if error.is_missing() => Ok(None),
        found => found.map(Some),
    }
}

/// Error for a source that is what it would replace at `place`, or holds that.
fn onto_itself(source: &Source, place: &str) -> SessionError {
    let name = path_text(&source.name);
    let how = if source.kind == SourceKind::Item { "is the same file" } else { "is the same directory, or lies in it" };
    refusal(format!("{name} cannot be copied into itself: {place} {how}, by whatever path or host"))
}
