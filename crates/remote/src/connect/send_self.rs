//! `--send-self`: puts this very program into a cache directory of the far side.
//!
//! One POSIX shell script does it over the user's ssh command, in one round:
//!
//! ```text
//! script → machine SYSTEM ARCHITECTURE                      (and ends if it is another than here)
//! script → have PATH | differs PATH | no-digest | want
//! here   → the program's bytes, then the end of input        (only after `want`)
//! script → put PATH | broken
//! ```
//!
//! The file is named by its digest, written aside and linked into place, so that nothing is ever
//! overwritten and no unfinished program is ever run. A file that is there already is used only if
//! it has the digest. Each answer stands on a line of its own behind a mark, so that the noise of
//! start-up files is told apart.
//!
//! A later run does not ask first: [`or_sent`] has the far side's shell start the program that it
//! finds in the cache with the right digest, in the one login that is needed anyway.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_units::Span;

use super::error::ConnectError;
use super::patient::{PatientReader, PatientWriter};
use super::remote_shell::RemoteShell;

/// Begins every line of the script's answers.
const MARK: &str = "ICDC-SEND-SELF ";
/// Output of shell start-up files that is skipped.
const MAX_NOISE: u64 = 4 << 20;
/// How long it may take: 100 MB at 1 Mbit/s.
const PATIENCE: Span = Span::from_secs(900);

/// The program that is brought along.
const PROGRAM: &str = "/proc/self/exe";

/// A command that starts the far end from the cache if this very program is there, and otherwise
/// does `command`, which is one program with its arguments.
pub(super) fn or_sent(command: &str) -> io::Result<String> {
    let digest = sha256(&mut File::open(PROGRAM)?)?;
    let mut lines = finding(&digest);
    // One that cannot run there (another machine shares the home, no programs may run from it) must
    // not hide a program that can.
    lines.push(r#"runs() { test -O "$1" && "$1" --version </dev/null >/dev/null 2>&1; }"#.to_owned());
    lines.push(r#"if has "$file" && runs "$file"; then say "have $file"; exec "$file" far-end; fi"#.to_owned());
    lines.push(r#"exec "$@""#.to_owned());
    Ok(format!("sh -c '{}' sh {command}", lines.join("; ")))
}

/// What [`or_sent`] tells in a line of output: the program that it starts.
pub(super) fn program_found(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix(MARK)?.strip_prefix("have ")
}

/// Where the program came to lie on the far side, as an absolute path.
pub(super) fn put(shell: &RemoteShell, stop: &StopSignal) -> Result<String, ConnectError> {
    let put = put_program(shell, Path::new(PROGRAM), stop);
    if stop.is_requested() { Err(ConnectError::Interrupted) } else { put }
}

fn put_program(shell: &RemoteShell, program: &Path, stop: &StopSignal) -> Result<String, ConnectError> {
    let fail = |reason: String| ConnectError::SendSelf { host: shell.host().to_owned(), reason };
    let mut file = File::open(program).map_err(|error| fail(format!("open {}: {error}", program.display())))?;
    let digest = sha256(&mut file).map_err(|error| fail(format!("read {}: {error}", program.display())))?;
    let machine = local_machine();
    let mut process = shell.run(&script(&machine, &digest))?;
    let stdout = process.stdout.take().expect("standard output is piped");
    let cannot_wait = |error| fail(format!("poll: {error}"));
    let deadline = clock::now() + PATIENCE;
    let patient = PatientReader::new(&stdout, stop, deadline).map_err(cannot_wait)?;
    let mut answers = BufReader::new(patient.take(MAX_NOISE));
    let mut ask = || next_answer(&mut answers);

    let outcome = match ask() {
        Some(Answer::Machine(theirs)) if theirs == machine => ask(),
        Some(Answer::Machine(theirs)) => {
            let reason = format!("it is a {theirs} and this is a {machine}; install icdc for it there");
            return Err(fail(reason));
        }
        other => other,
    };
    let outcome = match outcome {
        Some(Answer::Want) => {
            let stdin = process.stdin.take().expect("standard input is piped");
            // If the far side breaks off, its own words say more than the broken pipe.
            let sent = PatientWriter::new(&stdin, stop, deadline).and_then(|mut patient| send(&mut file, &mut patient));
            drop(stdin);
            match (ask(), sent) {
                (None, Err(error)) => {
                    return Err(fail(format!("sending: {error}; it said: {}", process.last_words())));
                }
                (answer, _) => answer,
            }
        }
        other => other,
    };
    match outcome {
        Some(Answer::Have(path) | Answer::Put(path)) => Ok(path),
        Some(Answer::Differs(path)) => {
            Err(fail(format!("{path} is there and is not what its name says; look at it and remove it")))
        }
        Some(Answer::NoDigest) => Err(fail("it has neither sha256sum nor shasum to check the program with".to_owned())),
        Some(Answer::Broken) => {
            Err(fail("the program arrived damaged, or there is no room for it; try again".to_owned()))
        }
        Some(Answer::Machine(_) | Answer::Want) | None => {
            let status = process.wait(Span::from_secs(5)).map_or_else(String::new, |status| format!(" ({status})"));
            Err(fail(format!("the shell there did not do as it was told{status}: {}", process.last_words())))
        }
    }
}

#[derive(Debug)]
enum Answer {
    Machine(String),
    Have(String),
    Differs(String),
    NoDigest,
    Want,
    Put(String),
    Broken,
}

fn next_answer(from: &mut impl BufRead) -> Option<Answer> {
    loop {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        let Some(answer) = line.trim_end().strip_prefix(MARK) else {
            continue;
        };
        let (word, rest) = answer.split_once(' ').unwrap_or((answer, ""));
        let rest = rest.to_owned();
        return match word {
            "machine" => Some(Answer::Machine(rest)),
            "have" => Some(Answer::Have(rest)),
            "differs" => Some(Answer::Differs(rest)),
            "no-digest" => Some(Answer::NoDigest),
            "want" => Some(Answer::Want),
            "put" => Some(Answer::Put(rest)),
            "broken" => Some(Answer::Broken),
            _ => None,
        };
    }
}

/// The script as one word without single quotes, newlines or `!`, so that any login shell passes it
/// on unchanged. `set -C` makes the redirection create a new file or fail.
fn script(machine: &str, digest: &str) -> String {
    let mut lines = finding(digest);
    lines.extend([
        r#"say "machine $(uname -sm)""#.to_owned(),
        format!(r#"if test "$(uname -sm)" = "{machine}"; then :; else exit 0; fi"#),
    ]);
    let further = [
        "umask 077",
        r#"if command -v sha256sum >/dev/null || command -v shasum >/dev/null; then :; else say no-digest; exit 0; fi"#,
        r#"if has "$file"; then say "have $file"; exit 0; fi"#,
        r#"if test -e "$file" || test -h "$file"; then say "differs $file"; exit 0; fi"#,
        r#"mkdir -p "$dir" || exit 1"#,
        r#"part="$file.$$""#,
        r#"trap "rm -f \"\$part\"" EXIT"#,
        r#"trap "exit 1" HUP INT TERM"#,
        r#"set -C"#,
        r#": >"$part" || exit 1"#,
        "say want",
        r#"cat >>"$part""#,
        r#"if has "$part"; then :; else say broken; exit 0; fi"#,
        r#"chmod 700 "$part""#,
        r#"ln "$part" "$file" 2>/dev/null"#,
        r#"if has "$file"; then say "put $file"; else say "differs $file"; fi"#,
    ];
    lines.extend(further.map(str::to_owned));
    format!("sh -c '{}'", lines.join("; "))
}

/// The lines by which the program is found in the cache.
fn finding(digest: &str) -> Vec<String> {
    let name = format!("icdc-{}-{}", env!("CARGO_PKG_VERSION"), &digest[..16]);
    vec![
        r#"say() { printf "\n"; printf "%s\n" "ICDC-SEND-SELF $1"; }"#.to_owned(),
        r#"sum() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi <"$1" 2>/dev/null | cut -c1-64; }"#
            .to_owned(),
        r#"has() { test -f "$1" && test "$(sum "$1")" = "$want"; }"#.to_owned(),
        "set -u".to_owned(),
        format!("want={digest}"),
        r#"dir="${XDG_CACHE_HOME:-${HOME:-}/.cache}/icdc""#.to_owned(),
        format!(r#"file="$dir/{name}""#),
    ]
}

fn sha256(file: &mut File) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => context.update(&buffer[..count]),
        }
    }
    io::Seek::rewind(file)?;
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn send(file: &mut File, to: &mut impl Write) -> io::Result<()> {
    io::copy(file, to)?;
    to.flush()
}

/// What `uname -sm` prints here.
fn local_machine() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.machine().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct FarSide {
        directory: tempfile::TempDir,
    }

    impl FarSide {
        fn new() -> Self {
            let far = Self { directory: tempfile::tempdir().unwrap() };
            std::fs::write(far.program(), vec![0x7f; 300_000]).unwrap();
            far
        }

        fn program(&self) -> std::path::PathBuf {
            self.directory.path().join("program")
        }

        /// A shell whose home is in the directory, that greets first and has `uname` replaced if
        /// asked to.
        fn put(&self, extra: &str) -> Result<String, ConnectError> {
            let home = self.directory.path().join("a home");
            let command = format!(
                r#"env -u XDG_CACHE_HOME HOME="{}" sh -c 'shift; echo hello; {extra} eval "$1"' sh"#,
                home.display()
            );
            let shell = RemoteShell::new(&command, "host", std::sync::Arc::new(|_| {}), &StopSignal::new()).unwrap();
            put_program(&shell, &self.program(), &StopSignal::new())
        }
    }

    #[test]
    fn the_program_arrives_once_and_is_found_again() {
        let far = FarSide::new();
        let path = far.put("").unwrap();
        assert!(path.contains("/a home/.cache/icdc/icdc-"), "{path}");
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(far.program()).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let directory = Path::new(&path).parent().unwrap();
        assert_eq!(std::fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(far.put("").unwrap(), path);
    }

    #[test]
    fn a_file_of_another_digest_is_refused_and_left_alone() {
        let far = FarSide::new();
        let path = far.put("").unwrap();
        std::fs::write(&path, "something else").unwrap();
        let error = far.put("").unwrap_err().to_string();
        assert!(error.contains(&path) && error.contains("remove it"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"something else");
    }

    #[test]
    fn another_machine_is_refused_before_anything_is_sent() {
        let far = FarSide::new();
        let bin = far.directory.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("uname"), "#!/bin/sh\necho Linux vax\n").unwrap();
        std::fs::set_permissions(bin.join("uname"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = far.put(&format!("PATH=\"{}:$PATH\";", bin.display())).unwrap_err().to_string();
        assert!(error.contains("Linux vax"), "{error}");
        assert!(!far.directory.path().join("a home/.cache").exists());
    }

    #[test]
    fn a_full_or_forbidden_cache_is_an_error() {
        let far = FarSide::new();
        std::fs::create_dir(far.directory.path().join("a home")).unwrap();
        std::fs::write(far.directory.path().join("a home/.cache"), "in the way").unwrap();
        let error = far.put("").unwrap_err().to_string();
        assert!(error.contains("host") && error.contains("mkdir"), "{error}");
    }
}
