//! The walk along a list of names: directories above listed items are announced as well, a listed
//! directory with everything in it.
//!
//! The list is in scan order, so that what is beneath a directory comes right after its name.

use icdc_disk::tree::{Directory, Kind, Name, Stat, TreeError, is_staging};

use super::children::{Children, Extent, Named};
use super::{Level, Scan};
use crate::sender::examination::{STAGED, beneath, too_deep};

impl Children {
    /// Path below the source to what is beneath `name`, an entry of this directory, its slash
    /// included.
    pub(super) fn path_to(&self, name: &[u8]) -> Vec<u8> {
        match self {
            Self::Named { above } => [above, name, b"/"].concat(),
            Self::Listed { .. } | Self::Kept(_) | Self::Selected { .. } => Vec::new(),
        }
    }
}

impl Scan<'_> {
    /// The next name of the list; the inner `None` stands for the end, the outer for that of the
    /// session.
    fn peek_listed(&mut self) -> Option<Option<Vec<u8>>> {
        let (executor, listed) = (self.executor, self.listed.as_mut()?);
        match listed.peek(|| executor.is_over()) {
            Ok(name) => Some(name.map(<[u8]>::to_vec)),
            Err(error) => {
                executor.fail(error);
                None
            }
        }
    }

    /// The next entry that the list names in the directory at the path `above`; the inner `None`
    /// stands for no further one, the outer for the end of the session.
    pub(super) fn next_listed(&mut self, above: &[u8]) -> Option<Option<Named>> {
        let Some(name) = self.peek_listed()? else { return Some(None) };
        let Some(rest) = name.strip_prefix(above) else { return Some(None) };
        let (name, extent) = match rest.iter().position(|byte| *byte == b'/') {
            Some(end) => (rest[..end].to_vec(), Extent::Listed),
            None if rest.is_empty() && !above.is_empty() => {
                // The directory itself, of sources that are followed.
                self.listed.as_mut()?.take();
                return self.next_listed(above);
            }
            None => {
                self.listed.as_mut()?.take();
                (rest.to_vec(), Extent::All)
            }
        };
        Some(Some(Named { name, hint: None, extent }))
    }

    /// Passes over names beneath a directory of which everything is announced. `None` when the
    /// session is over.
    pub(super) fn pass_over_listed(&mut self, children: &Children, name: &[u8]) -> Option<()> {
        match children {
            Children::Named { .. } => self.drop_listed(&children.path_to(name), None),
            Children::Listed { .. } | Children::Kept(_) | Children::Selected { .. } => Some(()),
        }
    }

    /// Announces a directory for what the list names beneath it. `None` when the session is over.
    pub(super) fn enter_listed(&mut self, levels: &mut Vec<Level>, name: Vec<u8>) -> Option<()> {
        let Some(level) = levels.last() else { return Some(()) };
        let (path, inner) = (beneath(&level.path, &name), level.children.path_to(&name));
        if self.chosen.excludes(&path[self.above_root.min(path.len())..], true) {
            return self.drop_listed(&inner, None);
        }
        let too_deep = too_deep(levels.len(), level.paths, &path);
        let opened = match too_deep {
            Some(reason) => Err(Some(reason)),
            None => open(&level.directory, &name).map_err(|error| self.reason_of(error)),
        };
        match opened {
            Ok((directory, stat)) => {
                let depth = levels.len();
                self.push_level(levels, directory, name, path, &stat, Extent::Listed)?;
                let walked = levels.get(depth).map(|level| &level.children);
                match walked {
                    Some(Children::Named { .. }) => Some(()),
                    // It could not be announced, which is told, or what is in it is left out.
                    _ => self.drop_listed(&inner, None),
                }
            }
            Err(reason) => self.drop_listed(&inner, reason.as_deref()),
        }
    }

    /// Reason why nothing beneath a directory is copied; `None` if that is no failure: it is gone from a source that is
    /// followed.
    fn reason_of(&self, error: Unopened) -> Option<String> {
        (self.following.is_none() || !error.is_missing).then_some(error.reason)
    }

    /// Takes the names of the list that begin with `path`; each fails for this `reason`, if there is
    /// one. `None` when the session is over.
    fn drop_listed(&mut self, path: &[u8], reason: Option<&str>) -> Option<()> {
        while let Some(name) = self.peek_listed()?.filter(|name| name.starts_with(path)) {
            self.listed.as_mut()?.take();
            if let Some(reason) = reason {
                self.fail(name, reason.to_owned())?;
            }
        }
        Some(())
    }
}

/// Error of a listed directory that cannot be opened: the reason, and whether it is missing.
struct Unopened {
    reason: String,
    is_missing: bool,
}

impl From<TreeError> for Unopened {
    fn from(error: TreeError) -> Self {
        Self { is_missing: error.is_missing(), reason: error.to_string() }
    }
}

impl From<String> for Unopened {
    fn from(reason: String) -> Self {
        Self { reason, is_missing: false }
    }
}

/// Opens a directory that the list names something beneath, and returns its attributes; an error is
/// the reason why nothing beneath it can be copied.
fn open(directory: &Directory, name: &[u8]) -> Result<(Directory, Stat), Unopened> {
    if is_staging(name) {
        return Err(STAGED.to_owned().into());
    }
    let name = Name::new(name).map_err(|error| error.to_string())?;
    let stat = directory.stat(&name)?;
    if stat.kind != Kind::Directory {
        let what = stat.kind.described();
        return Err(format!("{} is {what}, which is not followed; list it itself", directory.path_of(&name)).into());
    }
    let inner = directory.open_directory(&name)?;
    Ok((inner, stat))
}
