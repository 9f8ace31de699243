//! The output of a far side before a link begins: a far end's greeting, behind the output of the
//! shell's start-up files, of which only the lines below are interpreted.
//!
//! | line | who prints it |
//! |---|---|
//! | `ICDC-LOGGED-IN` | ssh itself, once the login is let in |
//! | `ICDC-FOUND PATH` | the shell command that looks for the program |
//! | `ICDC-SEND-SELF have PATH` | the shell command that takes the program from the cache directory |
//! | `ICDC-VERSIONS …` | the far end: the versions of the protocol that it speaks |
//! | `ICDC-FAR-END LOWEST` | the far end; the link begins behind it |

use std::io::{self, Read};

use icdc_protocol::Versions;

use super::foreign_text;

/// Prefix of the marker line of a started far end. The lowest version of the protocol that it
/// speaks follows; the line before it lists all ([`Versions::line`]).
const MARKER: &str = "ICDC-FAR-END";
/// Maximum number of bytes of output of shell start-up files that is skipped before the marker.
pub(super) const MAX_NOISE: usize = 4 << 20;
/// Maximum length of a line that is interpreted, in bytes.
const LONGEST_LINE: usize = 4096;
/// Prefix of the line that names the place of a program that is not on the far side's PATH.
const FOUND: &str = "ICDC-FOUND ";
/// Prefix of every line that the script of the cache directory prints.
pub(super) const CACHE_SAYS: &str = "ICDC-SEND-SELF ";
/// The line that ssh's LocalCommand prints once a login without questions has succeeded.
pub(super) const LOGGED_IN: &str = "ICDC-LOGGED-IN";

/// Path of the program that was started, as the far side's shell reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The program is installed at this path.
    Installed(String),
    /// The program is at this path in the cache directory of `--send-self`.
    InCache(String),
}

/// Path of the program in the cache directory that was started, if the line reports one.
fn cached(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix(CACHE_SAYS)?.strip_prefix("have ")
}

/// First lines that a started far end prints, which speaks `versions`. The empty line ends an
/// unfinished one of a shell's start-up files.
pub fn greeting(versions: Versions) -> String {
    format!("\n{}{MARKER} {}\n", versions.line(), versions.lowest())
}

/// Reason why the marker line was not found.
#[derive(Debug)]
pub(super) enum NoMarker {
    /// The output ended after this number of bytes.
    Ended(usize),
    /// More than [`MAX_NOISE`] bytes came before the marker line.
    Noise,
    /// Reading the output failed.
    Failed(io::Error),
}

/// Output of the far side that was read before the marker line: the lines below that are
/// interpreted, and noise.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Preamble {
    /// Number of bytes that start-up files printed.
    noise: usize,
    /// Beginning of the first line that they printed.
    first: String,
    /// Last line that they printed.
    pub(super) last: String,
    /// The program that was started, if the far side's shell chose it.
    pub(super) found: Option<Found>,
    /// Protocol versions of the far end, by its line before the marker.
    versions: Option<Versions>,
}

impl Preamble {
    /// Notice for the user if anything was skipped; `None` otherwise.
    pub(super) fn notice(&self, host: &str) -> Option<String> {
        let Self { noise, first, .. } = self;
        let text = || {
            format!(
                "{host}: its shell's start-up files print {noise} bytes for commands, too (\"{first}\"), which are skipped"
            )
        };
        (*noise > 0).then(text)
    }

    /// Takes a line of output: one of those that are interpreted, or noise of start-up files.
    fn add(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if let Some(path) = cached(&text) {
            self.found = Some(Found::InCache(path.to_owned()));
        } else if let Some(path) = text.trim_end().strip_prefix(FOUND) {
            self.found = Some(Found::Installed(path.to_owned()));
        } else if let Some(versions) = Versions::parse_line(line) {
            self.versions = Some(versions);
        } else if !text.trim().is_empty() {
            self.noise += line.len() + 1;
            if self.first.is_empty() {
                self.first = foreign_text::sample(&text);
            }
            self.last = foreign_text::reason(&text);
        }
    }
}

/// Skips the output of shell start-up files up to the marker line; returns the far end's versions.
/// Reads byte by byte: the bytes behind the line belong to the link.
pub(super) fn find_marker(
    output: &mut impl Read,
    preamble: &mut Preamble,
    mut logged_in: impl FnMut(),
) -> Result<Versions, NoMarker> {
    let mut line = Vec::new();
    let mut byte = [0];
    for skipped in 0..MAX_NOISE {
        match output.read(&mut byte) {
            Ok(0) => {
                preamble.add(&line);
                return Err(NoMarker::Ended(skipped));
            }
            Ok(_) if byte[0] != b'\n' => {
                if line.len() == LONGEST_LINE {
                    preamble.add(&line);
                    line.clear();
                }
                line.push(byte[0]);
            }
            Ok(_) => {
                if let Some(marked) = marker_version(&line) {
                    // A far end without the line of versions speaks only this one.
                    let range = preamble.versions.filter(|range| range.lowest() == marked.lowest());
                    return Ok(range.unwrap_or(marked));
                }
                if line == LOGGED_IN.as_bytes() {
                    logged_in();
                } else {
                    preamble.add(&line);
                }
                line.clear();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A socket reports this if its peer closed without reading all.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(NoMarker::Ended(skipped)),
            Err(error) => return Err(NoMarker::Failed(error)),
        }
    }
    Err(NoMarker::Noise)
}

/// Lowest protocol version of a far end, if the line is its marker; `None` otherwise.
fn marker_version(line: &[u8]) -> Option<Versions> {
    let number = std::str::from_utf8(line).ok()?.strip_prefix(MARKER)?.strip_prefix(' ')?.trim_end().parse().ok()?;
    Versions::new(number, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(lowest: u32, highest: u32) -> Versions {
        Versions::new(lowest, highest).unwrap()
    }

    #[test]
    fn the_marker_is_found_behind_noise_and_nothing_more_is_read() {
        let text = b"Welcome!\nno newline here\nICDC-FAR-END 1\nrest".to_vec();
        let mut reader = text.as_slice();
        let mut preamble = Preamble::default();
        let version = find_marker(&mut reader, &mut preamble, || {}).unwrap();
        assert_eq!((version, reader), (versions(1, 1), &b"rest"[..]));
        let notice = preamble.notice("far").unwrap();
        assert!(
            notice.contains("far: ") && notice.contains(" 25 bytes ") && notice.contains("\"Welcome!\""),
            "{notice}"
        );
        let mut preamble = Preamble::default();
        let version = find_marker(&mut b"\nICDC-FAR-END 77\r\n".as_slice(), &mut preamble, || {}).unwrap();
        assert_eq!((version, preamble.notice("far")), (versions(77, 77), None));
    }

    #[test]
    fn a_far_end_tells_its_versions_before_the_marker() {
        for (range, marker) in [(versions(2, 2), "\nICDC-FAR-END 2\n"), (versions(2, 4), "\nICDC-FAR-END 2\n")] {
            let text = greeting(range);
            assert!(text.ends_with(marker), "an end that knows one number reads it: {text}");
            let mut preamble = Preamble::default();
            assert_eq!(find_marker(&mut text.as_bytes(), &mut preamble, || {}).unwrap(), range);
            assert_eq!(preamble.notice("far"), None);
        }
        let contradicting = b"ICDC-VERSIONS 3-9\nICDC-FAR-END 2\n".as_slice();
        let found = find_marker(&mut { contradicting }, &mut Preamble::default(), || {}).unwrap();
        assert_eq!(found, versions(2, 2));
    }

    #[test]
    fn that_ssh_is_logged_in_is_heard_before_the_far_end_speaks() {
        let mut times = 0;
        let text = b"ICDC-LOGGED-IN\n\nICDC-FAR-END 1\n".to_vec();
        let mut preamble = Preamble::default();
        find_marker(&mut text.as_slice(), &mut preamble, || times += 1).unwrap();
        assert_eq!((times, preamble), (1, Preamble::default()));
    }

    #[test]
    fn much_noise_is_borne() {
        let text = [vec![b'x'; 1 << 20], b"\nICDC-FAR-END 1\n".to_vec()].concat();
        assert_eq!(find_marker(&mut text.as_slice(), &mut Preamble::default(), || {}).unwrap(), versions(1, 1));
    }

    #[test]
    fn without_a_marker_it_ends() {
        let find = |mut output: &mut dyn Read| find_marker(&mut output, &mut Preamble::default(), || {});
        assert!(matches!(find(&mut b"ICDC-FAR-END one\n".as_slice()), Err(NoMarker::Ended(17))));
        assert!(matches!(find(&mut io::repeat(b'x')), Err(NoMarker::Noise)));
        assert!(matches!(find(&mut io::repeat(b'\n')), Err(NoMarker::Noise)));
    }
}
