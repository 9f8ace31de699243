//! Lookups by the programs `getent` and `id`.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

/// User id and primary group id of a user name; `None` if there is no such name.
pub(crate) fn user_of_name(name: &CStr) -> io::Result<Option<(u32, u32)>> {
    let answer = answer_of("getent", &[b"passwd", b"--", name.to_bytes()])?;
    Ok(answer.and_then(|line| user_entry(&line, name.to_bytes())))
}

/// Group id of a group name; `None` if there is no such name.
pub(crate) fn group_of_name(name: &CStr) -> io::Result<Option<u32>> {
    let answer = answer_of("getent", &[b"group", b"--", name.to_bytes()])?;
    Ok(answer.and_then(|line| number(fields_of(&line, name.to_bytes())?.nth(1)?)))
}

/// Name of the entry with this id in a database, `passwd` or `group`; `None` if there is none.
pub(crate) fn name_of(database: &str, id: u32) -> io::Result<Option<Vec<u8>>> {
    let answer = answer_of("getent", &[database.as_bytes(), b"--", id.to_string().as_bytes()])?;
    Ok(answer.and_then(|line| {
        let mut fields = line.split(|byte| *byte == b'\n').next()?.split(|byte| *byte == b':');
        let name = fields.next()?.to_vec();
        // A name of digits is looked up as one.
        (number(fields.nth(1)?)? == id).then_some(name)
    }))
}

/// Ids of all groups of a user; `None` where the program is missing or does not know the user.
pub(crate) fn groups_of(name: &CStr) -> io::Result<Option<Vec<u32>>> {
    let answer = answer_of("id", &[b"-G", b"--", name.to_bytes()])?;
    Ok(answer.and_then(|line| line.split(u8::is_ascii_whitespace).filter(|id| !id.is_empty()).map(number).collect()))
}

/// Runs a program with these arguments and returns its standard output; `None` if it is not
/// installed or exits with an error.
fn answer_of(program: &str, words: &[&[u8]]) -> io::Result<Option<Vec<u8>>> {
    let words = words.iter().map(|word| OsStr::from_bytes(word));
    match Command::new(program).args(words).stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(output) => Ok(output.status.success().then_some(output.stdout)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// User id and primary group id in `line`, a line of passwd; `None` if it is not the entry of
/// `name`.
pub(crate) fn user_entry(line: &[u8], name: &[u8]) -> Option<(u32, u32)> {
    let mut fields = fields_of(line, name)?;
    Some((number(fields.nth(1)?)?, number(fields.next()?)?))
}

/// Fields of a passwd or group line behind the name; `None` if the line is that of another name, as
/// when the program took a name of digits for an id.
fn fields_of<'a>(line: &'a [u8], name: &[u8]) -> Option<impl Iterator<Item = &'a [u8]>> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let rest = line.strip_prefix(name)?.strip_prefix(b":")?;
    Some(rest.split(|byte| *byte == b':'))
}

/// Parses a user or group id in decimal digits; `None` if the text is none.
fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
