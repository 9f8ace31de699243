//! Patterns in the paths of a request, expanded at the end that has the files.

use icdc_disk::tree::{Directory, Tree, is_staging};
use icdc_filter::NamePattern;
use icdc_protocol::limits::{MAX_PATH, MAX_SOURCES};

/// Most names that are compared with the patterns of a request.
const MAX_COMPARED: usize = 1 << 20;

/// The paths of a request, in their order: a pattern that is no name itself is replaced by what it
/// matches, sorted by bytes. One that matches nothing stays, and will be a source that is missing.
///
/// # Errors
/// Too much is matched, or would have to be compared: text for the user.
pub fn expanded(tree: &Tree, paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let mut compared = 0;
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        let is_pattern = path.split(|byte| *byte == b'/').any(|component| NamePattern::parse(component).is_some());
        let matched = if is_pattern && !exists(tree, path) { matched(tree, path, &mut compared)? } else { Vec::new() };
        if matched.is_empty() {
            all.push(path.clone());
        }
        all.extend(matched);
        if all.len() > MAX_SOURCES {
            return Err(too_much(path, "it matches too many names"));
        }
    }
    Ok(all)
}

/// Paths that a pattern matches.
fn matched(tree: &Tree, path: &[u8], compared: &mut usize) -> Result<Vec<Vec<u8>>, String> {
    // Each with the slash at its end.
    let mut reached = vec![Vec::new()];
    for piece in path.split_inclusive(|byte| *byte == b'/') {
        let (name, slash) = piece.strip_suffix(b"/").map_or((piece, &b""[..]), |name| (name, b"/"));
        let Some(pattern) = NamePattern::parse(name) else {
            reached.iter_mut().for_each(|above| above.extend(piece));
            continue;
        };
        let mut further = Vec::new();
        for above in reached {
            let Some(names) = directory(tree, &above).and_then(|directory| directory.entries().ok()) else { continue };
            *compared += names.len();
            let names = names.iter().map(|entry| entry.name).filter(|name| pattern.matches(name) && !is_staging(name));
            further.extend(names.map(|name| [&above, name, slash].concat()).filter(|path| path.len() <= MAX_PATH));
            if *compared > MAX_COMPARED || further.len() > MAX_SOURCES {
                return Err(too_much(path, "there are too many names to compare with it"));
            }
        }
        reached = further;
    }
    reached.retain(|path| exists(tree, path));
    Ok(reached)
}

/// Opens the directory at a path, which is empty for the one that relative paths begin at; `None`
/// if it cannot be opened.
fn directory(tree: &Tree, path: &[u8]) -> Option<Directory> {
    tree.resolve(if path.is_empty() { b"." } else { path }).and_then(|located| located.open_directory()).ok()
}

/// Whether a path names something; one with a slash at its end, a directory.
fn exists(tree: &Tree, path: &[u8]) -> bool {
    tree.resolve(path)
        .is_ok_and(|located| located.stat.is_some() && (!located.trailing_slash || located.open_directory().is_ok()))
}

/// Message for the user that a pattern matches too much, or has to be compared with too much.
fn too_much(path: &[u8], what: &str) -> String {
    let shown = path.escape_ascii();
    format!("{shown}: {what}; name the directory, and choose by --include and --exclude or by --files-from")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn all(paths: &[&str]) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        for name in ["d/a.nc", "d/b.nc", "d/.c.nc", "d/x*", "e/a.nc", "e/f/a.nc", "top.nc", "[b].nc"] {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        std::os::unix::fs::symlink("e", place.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/", place.path().join("out")).unwrap();
        let tree = Tree::open(place.path()).unwrap();
        let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let all = expanded(&tree, &paths).unwrap();
        all.into_iter().map(|path| String::from_utf8(path).unwrap()).collect()
    }

    #[test]
    fn patterns_are_expanded_and_names_are_not() {
        assert_eq!(all(&["d/*.nc"]), ["d/a.nc", "d/b.nc"]);
        assert_eq!(all(&["top.nc", "?/a.nc", "d"]), ["top.nc", "d/a.nc", "e/a.nc", "d"]);
        assert_eq!(all(&["*/"]), ["d/", "e/", "link/"]);
        assert_eq!(all(&["*/*/a.nc"]), ["e/f/a.nc", "link/f/a.nc"]);
        assert_eq!(all(&["./d//*.nc"]), ["./d//a.nc", "./d//b.nc"]);
        assert_eq!(all(&["d/.*nc"]), ["d/.c.nc"]);
    }

    #[test]
    fn a_name_that_exists_is_no_pattern() {
        assert_eq!(all(&["d/x*"]), ["d/x*"]);
        assert_eq!(all(&["[b].nc", "d/[b].nc"]), ["[b].nc", "d/b.nc"]);
    }

    #[test]
    fn a_pattern_that_matches_nothing_stays() {
        assert_eq!(all(&["d/*.x", "none/*", "*/none", "[a", "out/*"]), ["d/*.x", "none/*", "*/none", "[a", "out/*"]);
    }
}
