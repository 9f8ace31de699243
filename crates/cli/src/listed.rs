//! Lists of names to be copied, as files have them: one name on each line, or each ended by a NUL.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use icdc_client::Location;
use icdc_protocol::limits::MAX_PATH;
use icdc_protocol::validate::is_component;
use icdc_transfer::{NameList, NewNameList};

use crate::arguments::CopyArguments;

/// Byte that ends a name in a list of names to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    /// The end of a line.
    Line,
    /// A NUL.
    Nul,
}

impl Separator {
    /// Name of the option that takes a list with this separator.
    fn option(self) -> &'static str {
        match self {
            Self::Line => "--files-from",
            Self::Nul => "--files-from0",
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Line => b'\n',
            Self::Nul => 0,
        }
    }
}

/// The names that are copied below the only source, if a list of them is given; the source then
/// stands for its contents.
///
/// # Errors
/// A name that cannot be one below a source, with file and line; a list that cannot be read, or does
/// not go with other arguments.
pub(crate) fn chosen(arguments: &CopyArguments, sources: &mut [Location]) -> anyhow::Result<Option<NameList>> {
    let (path, separator) = match (&arguments.files_from, &arguments.files_from0) {
        (Some(path), _) => (path, Separator::Line),
        (None, Some(path)) => (path, Separator::Nul),
        (None, None) => return Ok(None),
    };
    let option = separator.option();
    let [source] = sources else { bail!("{option} lists names below one source: name one directory") };
    ensure!(
        !arguments.delete,
        "{option} and --delete: what is not in the list would count as gone; mirror the whole tree, or choose by --include and \
         --exclude"
    );
    ensure!(
        !arguments.moves,
        "{option} and --move: a name that an earlier run has moved would count as a failed item; choose by --include and --exclude"
    );
    ensure!(
        path != Path::new("-") || !arguments.choosing.rules.reads_stdin(),
        "{option} - and rules from standard input: only one of them can be there; name a file"
    );
    *source = source.clone().contents();
    read_list(path, separator).map(Some)
}

/// Reads the list of names to be copied from a file, or from standard input (`-`).
fn read_list(path: &Path, separator: Separator) -> anyhow::Result<NameList> {
    let place = || format!("{} {}", separator.option(), path.display());
    let list = if path == Path::new("-") {
        read_names(io::stdin().lock(), path, separator)?
    } else {
        let file = File::open(path).with_context(|| format!("{}: cannot be read", place()))?;
        read_names(BufReader::with_capacity(1 << 20, file), path, separator)?
    };
    ensure!(!list.is_empty(), "{}: has no name, so that there is nothing to copy", place());
    Ok(list)
}

/// Reads and checks the names of a list; `path` is its name for errors.
fn read_names(mut file: impl BufRead, path: &Path, separator: Separator) -> anyhow::Result<NameList> {
    let mut list = NewNameList::default();
    let (mut text, mut number) = (Vec::new(), 0_u64);
    loop {
        text.clear();
        number += 1;
        let read = (&mut file).take(2 * MAX_PATH as u64).read_until(separator.byte(), &mut text);
        if read.with_context(|| format!("{} {}: cannot be read", separator.option(), path.display()))? == 0 {
            return Ok(list.finish()?);
        }
        let is_whole = text.len() < 2 * MAX_PATH || text.last() == Some(&separator.byte());
        if text.last() == Some(&separator.byte()) {
            text.pop();
        }
        let shown = match separator {
            Separator::Line => format!("{}:{number}", path.display()),
            Separator::Nul => format!("{}, name {number}", path.display()),
        };
        let name = if is_whole { below_source(&text) } else { Err(too_long(&text)) };
        let name = name.with_context(|| shown)?;
        list.add(&name)?;
    }
}

/// The path below the source that a name of a list stands for.
fn below_source(text: &[u8]) -> anyhow::Result<Vec<u8>> {
    let shown = || text.escape_ascii();
    if text.is_empty() {
        bail!("a name is empty; leave the line out");
    }
    if text[0] == b'/' {
        bail!("{}: names are relative to the source; leave the slash at the start out", shown());
    }
    if text.contains(&0) {
        bail!("there is a NUL in a name; a list of names that end in NULs is one for --files-from0");
    }
    // `find .` writes ./x, and a directory may have a slash at its end.
    let components: Vec<&[u8]> =
        text.split(|byte| *byte == b'/').filter(|component| !matches!(*component, b"" | b".")).collect();
    if components.contains(&b"..".as_slice()) {
        bail!("{}: a name with `..` could lead out of the source; name what is below the source", shown());
    }
    if components.is_empty() {
        bail!("{}: is the source itself; leave --files-from out to copy all of it", shown());
    }
    let name = components.join(&b'/');
    if name.len() > MAX_PATH || !components.iter().all(|component| is_component(component)) {
        return Err(too_long(text));
    }
    Ok(name)
}

/// Error for a name that is longer than any path.
fn too_long(text: &[u8]) -> anyhow::Error {
    anyhow!("{}…: is longer than any name or path", text[..text.len().min(60)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], separator: Separator) -> Result<Vec<String>, String> {
        let list = read_names(text, Path::new("list"), separator).map_err(|error| format!("{error:#}"))?;
        let (mut names, mut all) = (list.names(), Vec::new());
        while let Some(name) = names.next().unwrap() {
            all.push(String::from_utf8(name).unwrap());
        }
        Ok(all)
    }

    #[test]
    fn names_are_as_they_are() {
        let names = read(b"b\n# a\n; c\n x \n./d/e/\nd//./f\n*.o\na\\n\r", Separator::Line);
        assert_eq!(names.unwrap(), [" x ", "# a", "*.o", "; c", "a\\n\r", "b", "d/e", "d/f"]);
        assert_eq!(read(b"b\nc\0a\0", Separator::Nul).unwrap(), ["a", "b\nc"]);
    }

    #[test]
    fn a_name_outside_is_refused_with_its_place() {
        let long = "x/".repeat(3000);
        for (text, refusal) in [
            ("a\n\nb\n", "list:2: a name is empty"),
            ("a\n/etc/passwd", "list:2: /etc/passwd: names are relative"),
            ("../x\n", "list:1: ../x: a name with `..`"),
            ("a/../b\n", "list:1: a/../b: a name with `..`"),
            ("a/..", "list:1: a/..: a name with `..`"),
            ("./\n", "list:1: ./: is the source itself"),
            ("a\nb\0c\n", "list:2: there is a NUL in a name"),
            (&"x".repeat(256), "is longer than any name or path"),
            (&long, "is longer than any name or path"),
            (&format!("a{}x", "/".repeat(8189)), "list:1: a/////"),
        ] {
            let error = read(text.as_bytes(), Separator::Line).unwrap_err();
            assert!(error.contains(refusal), "{error}");
        }
        assert!(read(b"a\0..\0", Separator::Nul).unwrap_err().starts_with("list, name 2: ..:"));
    }
}
