//! Paths of directories that a copy needs beside its destination: older copies, and that for backups.

/// Path of a directory that an option such as `--link-dest` names: relative to the parent of
/// `destination`, unless it is absolute or begins at the home directory.
pub(super) fn path_beside(destination: &[u8], path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") || path == b"~" || path.starts_with(b"~/") {
        return path.to_vec();
    }
    let trimmed = &destination[..destination.iter().rposition(|byte| *byte != b'/').map_or(0, |end| end + 1)];
    let start = trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    match &trimmed[start..] {
        b"" | b"." | b".." | b"~" => [destination, b"/../", path].concat(),
        _ => [&trimmed[..start], path].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_lies_beside_the_destination() {
        for (destination, path, expected) in [
            ("/backup/today", "yesterday", "/backup/yesterday"),
            ("/backup/today//", "old/one", "/backup/old/one"),
            ("today", "yesterday", "yesterday"),
            ("/backup/today", "/else/where", "/else/where"),
            ("today/", "~/old", "~/old"),
            (".", "old", "./../old"),
            ("a/..", "old", "a/../../old"),
            ("/", "old", "//../old"),
        ] {
            let found = path_beside(destination.as_bytes(), path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{destination} {path}");
        }
    }
}
