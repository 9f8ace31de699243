//! `--exclude GLOB`: shell patterns for names and paths.
//!
//! A pattern without `/` matches the name of any item; one with `/` matches the path below the
//! source (a leading `/` anchors it there). An excluded directory is not entered. `*` and `?` do
//! not match `/`, `**` does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A compiled set of patterns.
pub(crate) struct Exclude {
    names: GlobSet,
    paths: GlobSet,
}

impl Exclude {
    /// Compiles `patterns`; the error names the first invalid pattern.
    pub(crate) fn new(patterns: &[String]) -> Result<Self, String> {
        let mut names = GlobSetBuilder::new();
        let mut paths = GlobSetBuilder::new();
        for pattern in patterns {
            let trimmed = pattern.trim_end_matches('/');
            let compile = |text: &str| {
                GlobBuilder::new(text)
                    .literal_separator(true)
                    .build()
                    .map_err(|error| format!("--exclude {pattern}: {error}"))
            };
            if let Some(anchored) = trimmed.strip_prefix('/') {
                paths.add(compile(anchored)?);
            } else if trimmed.contains('/') {
                paths.add(compile(trimmed)?);
                paths.add(compile(&format!("**/{trimmed}"))?);
            } else {
                names.add(compile(trimmed)?);
            }
        }
        let build = |set: GlobSetBuilder| set.build().map_err(|error| format!("--exclude: {error}"));
        Ok(Self { names: build(names)?, paths: build(paths)? })
    }

    /// Whether the item with this `path` (from the source's parent) and `name` is excluded.
    pub(crate) fn matches(&self, path: &[u8], name: &[u8]) -> bool {
        let below_source = path.iter().position(|byte| *byte == b'/').map_or(path, |slash| &path[slash + 1..]);
        let as_path = |bytes: &[u8]| Path::new(OsStr::from_bytes(bytes)).to_path_buf();
        self.names.is_match(as_path(name)) || self.paths.is_match(as_path(below_source))
    }
}

#[cfg(test)]
mod tests {
    use super::Exclude;

    fn matches(pattern: &str, path: &str) -> bool {
        let exclude = Exclude::new(&[pattern.to_owned()]).unwrap();
        exclude.matches(path.as_bytes(), path.rsplit('/').next().unwrap().as_bytes())
    }

    #[test]
    fn names_match_anywhere_and_paths_below_the_source() {
        assert!(matches("*.o", "src/a/b.o"));
        assert!(!matches("*.o", "src/a/b.c"));
        assert!(matches("/a", "src/a"));
        assert!(!matches("/a", "src/b/a"));
        assert!(matches("a/*.c", "src/a/x.c"));
        assert!(matches("a/*.c", "src/b/a/x.c"));
        assert!(!matches("a/*.c", "src/a/b/x.c"));
        assert!(matches("a/**/x.c", "src/a/b/c/x.c"));
        assert!(matches("target/", "src/target"));
    }

    #[test]
    fn a_broken_pattern_is_named() {
        assert!(Exclude::new(&["[".to_owned()]).err().unwrap().contains("--exclude ["));
    }
}
