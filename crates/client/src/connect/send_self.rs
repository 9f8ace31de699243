//! `--send-self`: puts this very program, or its build for the far side's processor, into a cache
//! directory there.
//!
//! One POSIX shell script does it over the user's ssh command, in one round:
//!
//! ```text
//! script → machine SYSTEM ARCHITECTURE          (and ends if there is no build for it here)
//! script → have PATH | differs PATH | stuck PATH | unsafe DIRECTORY | exposed DIRECTORY |
//!          foreign DIRECTORY | no-digest | want
//! here   → the program's bytes, then the end of input        (only after `want`)
//! script → put PATH | stuck PATH | full DIRECTORY | broken
//! ```
//!
//! The file is named by its digest, written under another name and linked into place, so that
//! nothing is ever overwritten and no unfinished program is ever run. An existing file is used only
//! if it has the digest, and if it and its directory belong to the user and are writable by no one
//! else. Only root and the user may be able to replace a directory of the path: each one from the
//! root down belongs to one of them and is writable by no other, unless it is sticky or lies
//! beneath one that no other may search, as `icdc_trust` has it for settings. The shell then
//! changes to the directory, and checks and starts `./NAME`: no path is resolved again. Each answer
//! is a line with a prefix, which distinguishes it from the output of start-up files.
//!
//! A later run needs no extra round trip: by [`Cache::or_sent`] the far side's shell starts the
//! program in the cache with the right digest, in the login that is needed anyway. Each further
//! login of a run makes the same checks ([`Cache::start`]).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_units::{Span, hexadecimal};

use super::builds::Places;
use super::error::{ConnectError, quoted};
use super::foreign_text;
use super::patient::{PatientReader, PatientWriter};
use super::preamble::CACHE_SAYS;
use super::remote_shell::RemoteShell;

/// Maximum number of bytes of output of shell start-up files that is skipped.
const MAX_NOISE: u64 = 4 << 20;
/// Maximum length of an answer in bytes: a word and a path.
const LONGEST_ANSWER: usize = 4096 + 32;
/// Time limit of the whole exchange: 100 MB at 1 Mbit/s.
const TIMEOUT: Span = Span::from_secs(900);

/// Path of the program that is sent: this process's own file.
const PROGRAM: &str = "/proc/self/exe";

/// A program file of this host that may be sent to a far side, and the kind of machine on which it
/// runs.
struct Offer {
    /// System and processor of the machine, as `uname -sm` prints them there.
    machine: String,
    /// File of the program, which has this `digest`.
    file: File,
    /// SHA-256 of the program, as hexadecimal digits.
    digest: String,
}

/// Opens and digests the programs that may be sent: `program`, which runs on machines like this
/// one, and the builds for others in `places`.
fn offers(program: &Path, places: &Places) -> io::Result<Vec<Offer>> {
    let here = local_machine();
    let others = places.others(&here).into_iter().map(|build| (build.machine, build.path, Ok(build.file)));
    let all = [(here.clone(), program.to_owned(), File::open(program))].into_iter().chain(others);
    let offer = |(machine, path, file): (String, PathBuf, io::Result<File>)| {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut file = file.map_err(named)?;
        let digest = sha256(&mut file).map_err(named)?;
        Ok(Offer { machine, file, digest })
    };
    all.map(offer).collect()
}

/// The far side's cache directory, as this end expects it: the programs that may lie there, one for
/// each kind of machine.
pub(super) struct Cache {
    offers: Vec<Offer>,
}

impl Cache {
    /// Cache of this program and its builds for other machines.
    ///
    /// # Errors
    /// One of the programs cannot be read.
    pub(super) fn of_this_program() -> io::Result<Self> {
        Ok(Self { offers: offers(Path::new(PROGRAM), &Places::of_this_program())? })
    }

    /// Shell command that starts the far end from the cache if the program that would be sent is
    /// there, and otherwise runs `command`, which is one program with its arguments.
    pub(super) fn or_sent(&self, command: &str) -> String {
        let mut lines = finding(&self.offers);
        lines.push(r#"back=$(pwd)"#.to_owned());
        // A program that cannot run there (a home shared with another machine, or mounted noexec)
        // must not take precedence over one that can.
        lines.push(
            r#"if test -n "$want" && safe && has "./$name" && runs "./$name" 2>/dev/null; then say "have $real/$name"; exec "./$name" far-end; fi"#
                .to_owned(),
        );
        lines.push(r#"cd -- "$back""#.to_owned());
        lines.push(r#"exec "$@""#.to_owned());
        format!("sh -c '{}' sh {command}", lines.join("; "))
    }

    /// Shell command that starts the far end from the cache, where the program was found before; it
    /// checks it again.
    pub(super) fn start(&self) -> String {
        let mut lines = finding(&self.offers);
        lines.push(r#"if test -n "$want" && safe && has "./$name"; then exec "./$name" far-end; fi"#.to_owned());
        lines.push(
            r#"echo "the program, or a directory that leads to it, has been changed since it was checked" >&2"#
                .to_owned(),
        );
        lines.push("exit 1".to_owned());
        format!("sh -c '{}'", lines.join("; "))
    }
}

/// A program in a far side's cache directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Absolute path of the program on the far side.
    pub(super) path: String,
    /// Shell command that starts the program once it has been checked again.
    pub(super) command: Arc<str>,
}

/// Sends this program, or its build for the far side's machine, to the cache directory there,
/// unless it is there already.
pub(super) fn put(shell: &RemoteShell, stop: &StopSignal) -> Result<Sent, ConnectError> {
    let put = put_program(shell, Path::new(PROGRAM), &Places::of_this_program(), stop);
    if stop.is_requested() { Err(ConnectError::Interrupted) } else { put }
}

/// Does what [`put`] does, with `program` for machines like this one and the builds in `places` for
/// others.
fn put_program(shell: &RemoteShell, program: &Path, places: &Places, stop: &StopSignal) -> Result<Sent, ConnectError> {
    let fail = |reason: String| ConnectError::SendSelf { host: shell.host().to_owned(), reason };
    let cache = offers(program, places).map(|offers| Cache { offers });
    let cache = cache.map_err(|error| fail(error.to_string()))?;
    let offers = &cache.offers;
    let mut process = shell.run(&script(offers))?;
    let stdout = process.stdout.take().expect("standard output is piped");
    let cannot_wait = |error| fail(format!("poll: {error}"));
    let deadline = clock::now() + TIMEOUT;
    let patient = PatientReader::new(&stdout, stop, deadline).map_err(cannot_wait)?;
    let mut answers = BufReader::new(patient.take(MAX_NOISE));
    let mut noise = String::new();
    let mut ask = || next_answer(&mut answers, &mut noise);

    let (outcome, offer) = match ask() {
        Some(Answer::Machine(theirs)) => match offers.iter().find(|offer| offer.machine == theirs) {
            Some(offer) => (ask(), offer),
            None => {
                let none = places.none_for(&theirs);
                let here = local_machine();
                return Err(fail(format!("it is a {theirs} and this is a {here}; {none}; install icdc there")));
            }
        },
        other => (other, &offers[0]),
    };
    let outcome = match outcome {
        Some(Answer::Want) => {
            let stdin = process.stdin.take().expect("standard input is piped");
            // If the far side breaks off, its own output says more than the broken pipe.
            let sent =
                PatientWriter::new(&stdin, stop, deadline).and_then(|mut patient| send(&offer.file, &mut patient));
            drop(stdin);
            match (ask(), sent) {
                (None, Err(error)) => {
                    return Err(fail(format!("sending: {error}; it said: {}", process.last_stderr())));
                }
                (answer, _) => answer,
            }
        }
        other => other,
    };
    match outcome {
        Some(Answer::Have(path) | Answer::Put(path)) => Ok(Sent { path, command: cache.start().into() }),
        Some(Answer::Machine(_) | Answer::Want) | None => {
            let status = process.wait(Span::from_secs(5)).map_or_else(String::new, |status| format!(" ({status})"));
            let words = process.last_stderr();
            let said = quoted(if words.is_empty() { &noise } else { &words });
            Err(fail(format!("the shell there did not do as it was told{status}{said}")))
        }
        Some(obstacle) => Err(fail(obstacle.explain(|| process.last_stderr()))),
    }
}

/// Answer of the script that puts the program into the far side's cache.
#[derive(Debug)]
enum Answer {
    /// Kind of the far side's machine, as `uname -sm` prints it.
    Machine(String),
    /// The program is already in the cache, at this path.
    Have(String),
    /// The file at this path has another digest, or others may write to it.
    Differs(String),
    /// This cache directory is a link, another user's, or one that others may write to.
    Unsafe(String),
    /// Others may write to this directory above the cache directory.
    Exposed(String),
    /// This directory above the cache directory belongs to another user.
    Foreign(String),
    /// The far side has no program that computes a SHA-256 digest.
    NoDigest,
    /// The script waits for the program to be sent.
    Want,
    /// The program was put at this path.
    Put(String),
    /// The program at this path does not run.
    Stuck(String),
    /// The program could not be written to this directory.
    Full(String),
    /// The program arrived damaged.
    Broken,
}

impl Answer {
    /// Text of the cause and the remedy if the program is not put there, or not run; `words` is
    /// the shell's output.
    fn explain(&self, words: impl FnOnce() -> String) -> String {
        match self {
            Self::Differs(path) => {
                format!("{path} is not what its name says, or others may write to it; look at it and remove it")
            }
            Self::Unsafe(directory) => format!(
                "{directory} must be a directory of your own, no link, that nobody else may write to; look at it and \
                 remove it, or take the right from others: chmod go-w"
            ),
            Self::Exposed(directory) => format!(
                "others may write to {directory}, which leads to the cache directory, and could exchange the program; \
                 take the right from them there (chmod go-w {directory}), or set XDG_CACHE_HOME there to a directory of \
                 your own"
            ),
            Self::Foreign(directory) => format!(
                "{directory}, which leads to the cache directory, is another user's, who could exchange the program; \
                 set XDG_CACHE_HOME there to a directory of your own"
            ),
            Self::NoDigest => "it has neither sha256sum nor shasum to check the program with".to_owned(),
            Self::Stuck(path) => format!(
                "{path} is there but does not run: {}; set XDG_CACHE_HOME there to a place from which programs may \
                 run, or install icdc there",
                words()
            ),
            Self::Full(directory) => format!(
                "{directory} does not take it: {}; make room there, or set XDG_CACHE_HOME there to another place",
                words()
            ),
            Self::Broken => "the program arrived damaged; try again".to_owned(),
            Self::Machine(_) | Self::Have(_) | Self::Want | Self::Put(_) => words(),
        }
    }
}

/// Reads the script's next answer; `None` if there is none. `noise` becomes the last other line
/// before it.
fn next_answer(from: &mut impl BufRead, noise: &mut String) -> Option<Answer> {
    loop {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        let Some(answer) = line.trim_end().strip_prefix(CACHE_SAYS).filter(|answer| answer.len() <= LONGEST_ANSWER)
        else {
            if !line.trim().is_empty() {
                *noise = foreign_text::reason(&line);
            }
            continue;
        };
        let (word, rest) = answer.split_once(' ').unwrap_or((answer, ""));
        let rest = rest.to_owned();
        return match word {
            "machine" => Some(Answer::Machine(rest)),
            "have" => Some(Answer::Have(rest)),
            "differs" => Some(Answer::Differs(rest)),
            "unsafe" => Some(Answer::Unsafe(rest)),
            "exposed" => Some(Answer::Exposed(rest)),
            "foreign" => Some(Answer::Foreign(rest)),
            "no-digest" => Some(Answer::NoDigest),
            "want" => Some(Answer::Want),
            "put" => Some(Answer::Put(rest)),
            "stuck" => Some(Answer::Stuck(rest)),
            "full" => Some(Answer::Full(rest)),
            "broken" => Some(Answer::Broken),
            _ => None,
        };
    }
}

/// Shell script that puts the program into the cache, as one argument without single quotes,
/// newlines or `!`, so that any login shell passes it on unchanged. `set -C` makes the redirection
/// create a new file or fail.
fn script(offers: &[Offer]) -> String {
    let mut lines = finding(offers);
    lines.extend([
        r#"say "machine $(uname -sm)""#.to_owned(),
        r#"if test -n "$want"; then :; else exit 0; fi"#.to_owned(),
    ]);
    let further = [
        "umask 077",
        r#"if command -v sha256sum >/dev/null || command -v shasum >/dev/null; then :; else say no-digest; exit 0; fi"#,
        // Nothing is made beneath a directory that another user could replace meanwhile.
        r#"base=$dir; until test -d "${base:-/}"; do base=${base%/*}; done"#,
        r#"if resolve "${base:-/}" && way "$real"; then :; else say "$why"; exit 0; fi"#,
        r#"mkdir -p "$dir" || exit 1"#,
        r#"if safe; then :; else say "$why"; exit 0; fi"#,
        r#"file="$real/$name""#,
        r#"there() { if runs "./$name"; then say "$1 $file"; else say "stuck $file"; fi; }"#,
        r#"if has "./$name"; then there have; exit 0; fi"#,
        r#"if test -e "./$name" || test -h "./$name"; then say "differs $file"; exit 0; fi"#,
        r#"part="./$name.$$""#,
        r#"trap "rm -f $part" EXIT"#,
        r#"trap "exit 1" HUP INT TERM"#,
        r#"set -C"#,
        r#": >"$part" || exit 1"#,
        "say want",
        r#"if cat >>"$part"; then :; else say "full $dir"; exit 0; fi"#,
        r#"if has "$part"; then :; else say broken; exit 0; fi"#,
        r#"chmod 700 "$part""#,
        r#"ln "$part" "./$name" 2>/dev/null"#,
        r#"if has "./$name"; then there put; else say "differs $file"; fi"#,
    ];
    lines.extend(further.map(str::to_owned));
    format!("sh -c '{}'", lines.join("; "))
}

/// Lines of the script that find the program for that machine in the cache; `want` is empty if
/// there is none. After `safe` the shell is in the cache directory, whose path without links is
/// `real`; if `safe` fails, `why` is the answer.
fn finding(offers: &[Offer]) -> Vec<String> {
    let choice = |Offer { machine, digest, .. }: &Offer| {
        let name = format!("icdc-{}-{}", env!("CARGO_PKG_VERSION"), &digest[..16]);
        format!(r#""{machine}") want={digest}; name={name};; "#)
    };
    let choices: String = offers.iter().map(choice).collect();
    let fixed = [
        // Names are not taken for patterns, nor `cd` to another place.
        "set -fu; unset CDPATH",
        r#"say() { printf "\n"; printf "%s\n" "ICDC-SEND-SELF $1"; }"#,
        r#"sum() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi <"$1" 2>/dev/null | cut -c1-64; }"#,
        // The sixth and the ninth character tell whether group and others may write.
        r#"mine() { case "$(ls -ld "$2")" in $1????-??-*) test -O "$2" ;; *) false ;; esac; }"#,
        r#"has() { mine - "$1" 2>/dev/null && test "$(sum "$1")" = "$want"; }"#,
        r#"runs() { "$1" --version </dev/null >/dev/null; }"#,
        r#"case "${XDG_CACHE_HOME:-}" in /*) dir=$XDG_CACHE_HOME/icdc ;; *) dir=${HOME:-}/.cache/icdc ;; esac"#,
        r#"case "$dir" in /*) ;; *) dir=$(pwd)/$dir ;; esac"#,
        r#"why="unsafe $dir""#,
        r#"resolve() { real=$(cd -P -- "$1" && pwd -P); }"#,
        // In a user namespace those outside have one id in common; root is among them.
        r#"me=$(id -u); root=0; case "$(echo $(cat /proc/self/uid_map 2>/dev/null))" in ""|"0 0 4294967295") ;; *) root=$(cat /proc/sys/kernel/overflowuid) ;; esac"#,
        // Each directory from the root down to this one. Sticky ones end in `t`; one that others
        // may not search closes what is beneath.
        concat!(
            r#"way() { at=; rest=${1%/}/; closed=; while :; do set -- $(ls -ldn "${at:-/}"); "#,
            r#"case "${1:-} ${3:-}" in "d"*" 0"|"d"*" $me"|"d"*" $root") ;; *) why="foreign ${at:-/}"; return 1 ;; esac; "#,
            r#"case "$closed$1" in closed*|?????-??-*|?????????[tT]*) ;; *) why="exposed ${at:-/}"; return 1 ;; esac; "#,
            r#"case "$1" in ??????[-S]??[-T]*) closed=closed ;; esac; "#,
            r#"rest=${rest#*/}; if test -z "$rest"; then return 0; fi; at=$at/${rest%%/*}; done; }"#,
        ),
        r#"safe() { if test -h "$dir"; then false; else resolve "$dir" && way "${real%/*}" && cd -P -- "$real" && mine d .; fi 2>/dev/null; }"#,
    ];
    let chosen = format!(r#"case "$(uname -sm)" in {choices}*) want=; name=none;; esac"#);
    fixed.into_iter().map(str::to_owned).chain([chosen]).collect()
}

/// SHA-256 of a file, as hexadecimal digits; the file is then at its start again.
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
    Ok(hexadecimal(context.finish().as_ref()))
}

/// Writes the whole file to the script's input.
fn send(mut file: &File, to: &mut impl Write) -> io::Result<()> {
    io::copy(&mut file, to)?;
    to.flush()
}

/// Output of `uname -sm` on this host.
fn local_machine() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.machine().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    struct FarSide {
        directory: tempfile::TempDir,
    }

    impl FarSide {
        fn new() -> Self {
            let far = Self { directory: tempfile::tempdir().unwrap() };
            let padding = "#".repeat(300_000);
            std::fs::write(far.program(), format!("#!/bin/sh\necho sent\n{padding}\n")).unwrap();
            far
        }

        fn program(&self) -> PathBuf {
            self.directory.path().join("program")
        }

        /// A shell whose home is in the directory, that greets first and has `uname` replaced if
        /// asked to.
        fn put(&self, extra: &str) -> Result<String, ConnectError> {
            Ok(self.put_whole(extra)?.path)
        }

        fn put_whole(&self, extra: &str) -> Result<Sent, ConnectError> {
            let home = self.directory.path().join("a home");
            let command = format!(
                r#"env -u XDG_CACHE_HOME HOME="{}" sh -c 'shift; echo hello; {extra} eval "$1"' sh"#,
                home.display()
            );
            let shell = RemoteShell::new(&command, "host", std::sync::Arc::new(|_| {}), &StopSignal::new()).unwrap();
            put_program(&shell, &self.program(), &Places::default(), &StopSignal::new())
        }

        /// The last line of what is started, if what says "instead" is the other choice.
        fn start_or_sent(&self) -> String {
            let cache = Cache { offers: offers(&self.program(), &Places::default()).unwrap() };
            self.shell(&cache.or_sent("echo instead"), "")
        }

        /// The last line that a command prints where `first` comes first in the PATH.
        fn shell(&self, command: &str, first: &str) -> String {
            let path = format!("{first}:{}", std::env::var("PATH").unwrap());
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", command]).env_remove("XDG_CACHE_HOME").env("PATH", path);
            shell.env("HOME", self.directory.path().join("a home"));
            let output = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            output.lines().next_back().unwrap_or_default().to_owned()
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

    /// Expects that the program is neither put into the cache nor, if it is there, started from it.
    fn refuses(far: &FarSide, directory: &Path) {
        let error = far.put("").unwrap_err().to_string();
        assert!(error.contains(directory.to_str().unwrap()) && error.contains("of your own"), "{error}");
        assert_eq!(far.start_or_sent(), "instead", "what is in {} is not run", directory.display());
    }

    #[test]
    fn nothing_is_put_into_or_run_from_a_directory_that_others_may_change() {
        let far = FarSide::new();
        let path = PathBuf::from(far.put("").unwrap());
        let directory = path.parent().unwrap();
        assert_eq!(far.start_or_sent(), "sent");
        let mode = |mode| std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode)).unwrap();
        for others_may_write in [0o720, 0o702, 0o777] {
            mode(others_may_write);
            refuses(&far, directory);
        }
        mode(0o755);
        assert_eq!(far.start_or_sent(), "sent", "others may read");
        let elsewhere = far.directory.path().join("elsewhere");
        std::fs::rename(directory, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory).unwrap();
        refuses(&far, directory);
    }

    /// Expects that the program is neither taken for the one that was put there nor started.
    fn refuses_file(far: &FarSide, path: &Path) {
        let error = far.put("").unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("others may write"), "{error}");
        assert_eq!(far.start_or_sent(), "instead");
    }

    #[test]
    fn nothing_is_run_that_others_may_change() {
        let far = FarSide::new();
        let path = PathBuf::from(far.put("").unwrap());
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for others_may_write in [0o720, 0o702, 0o777] {
            mode(others_may_write);
            refuses_file(&far, &path);
        }
        mode(0o755);
        assert_eq!(far.start_or_sent(), "sent", "others may read");
        let elsewhere = far.directory.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        refuses_file(&far, &path);
    }

    #[test]
    fn nothing_of_another_user_is_run() {
        let far = FarSide::new();
        let path = PathBuf::from(far.put("").unwrap());
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give files away");
            return;
        }
        refuses_file(&far, &path);
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        assert_eq!(far.start_or_sent(), "sent");
        let directory = path.parent().unwrap();
        std::os::unix::fs::chown(directory, Some(12_345), None).unwrap();
        refuses(&far, directory);
    }

    /// Expects that neither end trusts the program because of `directory`, and that `words` are
    /// said.
    fn refuses_way(far: &FarSide, directory: &Path, words: &str) {
        let error = far.put("").unwrap_err().to_string();
        assert!(error.contains(directory.to_str().unwrap()), "{error}");
        assert!(error.contains(words) && error.contains("exchange the program"), "{error}");
        assert_eq!(far.start_or_sent(), "instead");
    }

    #[test]
    fn no_directory_that_leads_to_the_program_may_be_exchanged_by_others() {
        let far = FarSide::new();
        let sent = far.put_whole("").unwrap();
        let home = far.directory.path().join("a home");
        let cache = home.join(".cache");
        let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(far.directory.path(), 0o755);
        for directory in [&home, &cache] {
            for others_may_write in [0o777, 0o775] {
                mode(directory, others_may_write);
                refuses_way(&far, directory, "others may write to");
                assert_ne!(far.shell(&sent.command, ""), "sent", "nor is it started again");
            }
            mode(directory, 0o1777);
            assert_eq!(far.start_or_sent(), "sent", "none but its owner takes a directory out of a sticky one");
            mode(directory, 0o755);
        }
        assert_eq!(far.shell(&sent.command, ""), "sent");
        mode(&home, 0o777);
        for nobody_may_search in [0o700, 0o744, 0o1766] {
            mode(far.directory.path(), nobody_may_search);
            assert_eq!(far.start_or_sent(), "sent", "others do not get there");
        }
        mode(far.directory.path(), 0o711);
        assert_eq!(far.start_or_sent(), "instead");
        mode(&home, 0o755);
        // By a link, it is the directories beneath that count.
        let elsewhere = far.directory.path().join("elsewhere");
        std::fs::rename(&cache, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &cache).unwrap();
        assert_eq!(far.start_or_sent(), "sent");
        mode(&elsewhere, 0o777);
        refuses_way(&far, &elsewhere, "others may write to");
        mode(&elsewhere, 0o755);
        if std::os::unix::fs::chown(&home, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give directories away");
            return;
        }
        std::fs::remove_file(&cache).unwrap();
        std::fs::rename(&elsewhere, &cache).unwrap();
        refuses_way(&far, &home, "another user's");
    }

    #[test]
    fn nothing_is_made_where_others_could_exchange_it() {
        let far = FarSide::new();
        let home = far.directory.path().join("a home");
        std::fs::create_dir(&home).unwrap();
        let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(far.directory.path(), 0o755);
        mode(&home, 0o777);
        refuses_way(&far, &home, "others may write to");
        assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
    }

    #[test]
    fn the_program_that_was_checked_is_the_one_that_runs() {
        let far = FarSide::new();
        let path = PathBuf::from(far.put("").unwrap());
        let directory = path.parent().unwrap();
        // Once the digest is known another directory takes the place of the one that holds it.
        let exchanged = far.directory.path().join("exchanged");
        let bin = far.directory.path().join("bin");
        std::fs::create_dir(&exchanged).unwrap();
        std::fs::create_dir(&bin).unwrap();
        let executable = |path: &Path, text: &str| {
            std::fs::write(path, text).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        executable(&exchanged.join(path.file_name().unwrap()), "#!/bin/sh\necho stranger\n");
        let (cache, away) = (directory.display(), far.directory.path().join("away"));
        let swap = format!("mv '{cache}' '{}'; mv '{}' '{cache}'", away.display(), exchanged.display());
        let real = ["/usr/bin/sha256sum", "/bin/sha256sum"].into_iter().find(|path| Path::new(path).exists()).unwrap();
        executable(&bin.join("sha256sum"), &format!("#!/bin/sh\n{real}\n{swap}\n"));
        let cache = Cache { offers: offers(&far.program(), &Places::default()).unwrap() };
        let started = far.shell(&cache.or_sent("echo instead"), bin.to_str().unwrap());
        assert!(away.exists(), "it was exchanged");
        assert_eq!(started, "sent");
    }

    #[test]
    fn another_machine_is_refused_before_anything_is_sent() {
        let far = FarSide::new();
        let bin = far.directory.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("uname"), "#!/bin/sh\necho Linux vax\n").unwrap();
        std::fs::set_permissions(bin.join("uname"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = far.put(&format!("PATH=\"{}:$PATH\";", bin.display())).unwrap_err().to_string();
        assert!(error.contains("Linux vax") && error.contains("no build of icdc for it"), "{error}");
        assert!(!far.directory.path().join("a home/.cache").exists());
    }

    #[test]
    fn a_full_or_forbidden_cache_is_an_error() {
        let far = FarSide::new();
        // No file may be larger than 100 blocks of 512 bytes: writing fails as on a full disk.
        let error = far.put("trap \"\" XFSZ; ulimit -f 100;").unwrap_err().to_string();
        let cache = far.directory.path().join("a home/.cache");
        assert!(error.contains(cache.to_str().unwrap()) && error.contains("make room"), "{error}");
        assert_eq!(std::fs::read_dir(cache.join("icdc")).unwrap().count(), 0, "nothing is left");
        std::fs::remove_dir_all(&cache).unwrap();
        std::fs::write(&cache, "in the way").unwrap();
        let error = far.put("").unwrap_err().to_string();
        assert!(error.contains("host") && error.contains("mkdir"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_run_there_is_an_error_in_its_own_words() {
        let far = FarSide::new();
        std::fs::write(far.program(), "#!/bin/sh\necho 'no such library' >&2\nexit 127\n").unwrap();
        for _ in 0..2 {
            let error = far.put("").unwrap_err().to_string();
            assert!(error.contains("a home/.cache/icdc/icdc-") && error.contains("no such library"), "{error}");
            assert!(error.contains("XDG_CACHE_HOME"), "{error}");
            assert_eq!(far.start_or_sent(), "instead");
        }
    }
}
