//! Files of a mirror's receiver that may have become announced items: whether the source has
//! something at their paths.

use icdc_disk::tree::{Name, TreeError};
use icdc_protocol::message::{CandidatePlace, Mirrored, SendOptions};

use super::chosen::Chosen;
use super::sources::Root;

/// The sources of a mirror, as far as the receiver may ask what they have.
#[derive(Default)]
pub(super) struct AskedAbout {
    roots: Vec<(u32, Root)>,
    /// Choice of what is copied of them; `None` if nothing may be asked.
    chosen: Option<Chosen>,
}

impl AskedAbout {
    /// The sources of a session with these options; nothing may be asked unless it is a mirror
    /// without a list of names.
    pub(super) fn of(roots: &[(u32, Root)], options: &SendOptions) -> Self {
        // Of listed names, it is not known which directories are read.
        if options.mirrored == Mirrored::No || options.listed.is_some() {
            return Self::default();
        }
        Self { roots: roots.to_vec(), chosen: Chosen::new(&options.choice).ok() }
    }

    /// Places at which the source has nothing, as bits: bit n stands for place number n.
    pub(super) fn gone(&self, places: &[CandidatePlace]) -> u32 {
        let is_gone = |place: &CandidatePlace| self.is_gone(place.source, &place.path).unwrap_or(false);
        places.iter().enumerate().filter(|(_, place)| is_gone(place)).fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// Whether nothing has this path below the directory of the source `number`; `None` where that is
    /// not known: it cannot be looked at, or its directory is not read, and what the destination has
    /// in it stays.
    fn is_gone(&self, number: u32, path: &[u8]) -> Option<bool> {
        let chosen = self.chosen.as_ref()?;
        let (_, root) = self.roots.get(self.roots.binary_search_by_key(&number, |(number, _)| *number).ok()?)?;
        let mut directory = match &root.name {
            Some(name) => root.directory.open_directory(name).ok()?,
            None => root.directory.clone(),
        };
        let mut components = path.split(|byte| *byte == b'/').peekable();
        while let Some(component) = components.next() {
            if chosen.leaves_contents_out(&directory, root.stat.dev).is_some() {
                return None;
            }
            let name = Name::new(component).ok()?;
            let found = match components.peek() {
                Some(_) => directory.open_directory(&name).map(Some),
                None => directory.stat(&name).map(|_| None),
            };
            match found {
                Ok(Some(below)) => directory = below,
                Ok(None) => return Some(false),
                // A link to a directory is not followed by the scan either.
                Err(TreeError::NotADirectory { .. }) => return Some(true),
                Err(error) => return error.is_missing().then_some(true),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use icdc_disk::tree::Tree;
    use icdc_protocol::message::Choice;

    use super::super::sources::find;
    use super::*;

    #[test]
    fn what_has_the_path_in_the_source_is_not_gone() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        fs::create_dir_all(root.join("source/a")).unwrap();
        fs::write(root.join("source/a/file"), "").unwrap();
        std::os::unix::fs::symlink("a", root.join("source/link")).unwrap();
        let tree = Tree::open(root).unwrap();
        let choice = Choice { exclude_caches: true, ..Choice::default() };
        let options = SendOptions { choice, mirrored: Mirrored::KeepingExcluded, ..SendOptions::default() };
        fs::create_dir(root.join("source/cache")).unwrap();
        fs::write(root.join("source/cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
        for written in ["source", "source/"] {
            let roots = find(&tree, &[written.as_bytes().to_vec()], &options, &[0; 16]).roots;
            let asked = AskedAbout::of(&roots, &options);
            let is_gone = |number, path: &str| asked.is_gone(number, path.as_bytes());
            for (path, gone) in [
                ("a/file", false),
                ("a", false),
                ("link", false),
                ("a/other", true),
                ("b/file", true),
                ("a/file/x", true),
                ("link/file", true),
            ] {
                assert_eq!(is_gone(0, path), Some(gone), "{written} {path}");
            }
            for (number, path) in [(1, "a/other"), (0, "../x"), (0, ""), (0, "cache/other")] {
                assert_eq!(is_gone(number, path), None, "{written} {path}");
            }
            let place = |path: &str| CandidatePlace { source: 0, path: path.as_bytes().to_vec() };
            assert_eq!(asked.gone(&["a", "x", "cache/x", "y"].map(place)), 0b1010);
            let no_mirror = AskedAbout::of(&roots, &SendOptions::default());
            assert_eq!(no_mirror.gone(&[place("x")]), 0);
        }
    }
}
