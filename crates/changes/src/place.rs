//! The item that a path names, and what is never changed.

use icdc_disk::tree::{Directory, Kind, Name, Stat, Tree, printable, resembles_staging};

/// An existing item that is to be changed: its directory, its name there, and its attributes when
/// it was found.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) directory: Directory,
    pub(crate) name: Name,
    pub(crate) stat: Stat,
}

/// Finds the existing item at `path`; a symbolic link is the item itself. `start` has device and
/// inode numbers of the directory where relative paths start and of all above it, which may not be
/// changed. `before` keeps the directory of the path found last, for the next one.
///
/// # Errors
/// There is nothing, it is outside of the tree, the path names a directory as such (`.`, `..`, the
/// root), or it is one of `start`. A sentence for the user.
pub(crate) fn find(
    tree: &Tree,
    path: &[u8],
    start: &[(u64, u64)],
    before: &mut Option<(Vec<u8>, Directory)>,
) -> Result<Place, String> {
    let located = tree.resolve_beside(path, before).map_err(|error| error.to_string())?;
    let shown = printable(path);
    let Some(name) = located.name else {
        return Err(format!("{shown:?}: means a directory as such; name the item in the directory above"));
    };
    let Some(stat) = located.stat else { return Err(format!("{shown}: no such file or directory")) };
    if located.trailing_slash && stat.kind != Kind::Directory {
        let what = stat.kind.described();
        return Err(format!("{shown}: is {what}, not a directory; leave the slash at its end out"));
    }
    if start.contains(&(stat.dev, stat.ino)) {
        return Err(format!("{shown}: relative paths start in it; name items in it instead"));
    }
    Ok(Place { directory: located.directory, name, stat })
}

/// Returns an error if a component of a path that is to be made has a name that icdc keeps for
/// unfinished files.
pub(crate) fn refuse_staging(path: &[u8]) -> Result<(), String> {
    match path.split(|byte| *byte == b'/').any(resembles_staging) {
        true => Err(format!("{}: its name is one that icdc keeps for unfinished files", printable(path))),
        false => Ok(()),
    }
}
