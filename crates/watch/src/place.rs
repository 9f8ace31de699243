//! Names in followed trees.

/// Path in one of the trees that are followed: the number of the tree, and the path below its root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the tree.
    pub tree: u32,
    /// Path below the root of the tree; empty for the root.
    pub path: Vec<u8>,
}

impl Place {
    /// Place of the entry `name` of the directory here.
    #[must_use]
    pub fn entry(&self, name: &[u8]) -> Self {
        let path = if self.path.is_empty() { name.to_vec() } else { [&self.path, name].join(&b'/') };
        Self { tree: self.tree, path }
    }

    /// Directory of which this is an entry, and the name of the entry; `None` for the root of a tree.
    #[must_use]
    pub fn split(&self) -> Option<(Self, &[u8])> {
        let start = self.path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (above, name) = self.path.split_at(start);
        let path = above.strip_suffix(b"/").unwrap_or(above).to_vec();
        (!name.is_empty()).then_some((Self { tree: self.tree, path }, name))
    }

    /// Whether this is `directory`, or a place beneath it.
    #[must_use]
    pub fn is_within(&self, directory: &Self) -> bool {
        let Some(rest) = self.path.strip_prefix(directory.path.as_slice()) else { return false };
        self.tree == directory.tree && (directory.path.is_empty() || rest.is_empty() || rest.starts_with(b"/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beneath_a_directory_begins_with_its_path_and_a_slash() {
        let place = |path: &str| Place { tree: 1, path: path.into() };
        assert_eq!((place("").entry(b"a"), place("a").entry(b"b")), (place("a"), place("a/b")));
        for (directory, name) in [("", b"a"), ("a/b", b"c")] {
            assert_eq!(place(directory).entry(name).split(), Some((place(directory), name.as_slice())));
        }
        assert_eq!(place("").split(), None);
        for (path, directory, expected) in
            [("a/b", "a", true), ("a", "a", true), ("ab", "a", false), ("a", "", true), ("a", "a/b", false)]
        {
            assert_eq!(place(path).is_within(&place(directory)), expected, "{path} {directory}");
        }
        assert!(!Place { tree: 2, path: b"a/b".to_vec() }.is_within(&place("a")));
    }
}
