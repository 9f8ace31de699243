//! `icdc keygen`: makes identities and remembers daemons.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use icdc_trust::{HostKey, Identity, KnownHosts, Paths, PublicKey};

use crate::arguments::KeygenArguments;
use crate::console::Console;
use crate::values::DaemonAddress;

/// Runs `icdc keygen`.
pub(crate) fn run(arguments: KeygenArguments, console: &Console) -> anyhow::Result<()> {
    if let Some(file) = &arguments.show {
        return show(file, console);
    }
    match &arguments.trust {
        Some(daemon) => {
            let file = file_or_default(arguments.known_hosts, "--known-hosts", |paths| paths.known_hosts)?;
            remember(daemon, &arguments.key.join(" "), &file, console)
        }
        None => {
            let file = file_or_default(arguments.identity, "--identity", |paths| paths.identity)?;
            make(&file, &arguments.comment.unwrap_or_else(user_at_host), console)
        }
    }
}

/// The file that an option names, or else the user's default; an error if neither HOME nor
/// XDG_CONFIG_HOME tells where that is.
pub(crate) fn file_or_default(
    given: Option<PathBuf>,
    option: &str,
    default: impl FnOnce(Paths) -> PathBuf,
) -> anyhow::Result<PathBuf> {
    let default = || Paths::from_environment().map(default);
    given.or_else(default).with_context(|| {
        format!("neither HOME nor XDG_CONFIG_HOME is an absolute path; set HOME, or name the file with {option} FILE")
    })
}

/// Makes a key pair in two new files and prints the public key; nothing is overwritten.
fn make(file: &Path, comment: &str, console: &Console) -> anyhow::Result<()> {
    let mut public_file = file.as_os_str().to_owned();
    public_file.push(".pub");
    let public_file = PathBuf::from(public_file);
    // Checked first, so that no private key is left behind without its public one.
    if fs::symlink_metadata(&public_file).is_ok() {
        bail!(
            "{} exists and is not overwritten; move it away, or name another file with --identity",
            public_file.display()
        );
    }
    let identity = Identity::generate();
    identity.save(file)?;
    let public = identity.public();
    let line = format!("{public} {comment}");
    let line = line.trim_end();
    write_new(&public_file, line).with_context(|| format!("{}: write", public_file.display()))?;

    let (private_shown, public_shown) = (file.display(), public_file.display());
    console.result(&format!(
        "{line}\n\n\
         fingerprint  {}\n\
         private key  {private_shown} (stays here)\n\
         public key   {public_shown} (the first line above)\n\n\
         To be let in by a daemon, have this line put into the file authorized_keys of `icdc serve`\n\
         (~/.config/icdc/authorized_keys there, /etc/icdc/authorized_keys for the service), with the directory\n\
         and the rights that you are given; without user= where an ordinary user runs the daemon:\n\
         root=/srv/data,rights=rw,user=NAME {line}\n\n\
         If this is the identity of a daemon, its users run:\n\
         icdc keygen --trust HOST '{public}'",
        public.fingerprint()
    ));
    console.flush();
    Ok(())
}

/// Prints the public key of a file in both forms, and both fingerprints.
fn show(file: &Path, console: &Console) -> anyhow::Result<()> {
    let key = Identity::public_of(file)?;
    console.result(&format!(
        "{key}\n{}\n\n\
         fingerprint             {}\n\
         shown by ssh-keygen -l  {}",
        key.ssh_line(),
        key.fingerprint(),
        key.ssh_fingerprint()
    ));
    console.flush();
    Ok(())
}

/// Writes a line durably to a new file; an error if the file exists.
fn write_new(file: &Path, line: &str) -> io::Result<()> {
    let mut out = OpenOptions::new().write(true).create_new(true).open(file)?;
    writeln!(out, "{line}")?;
    out.sync_all()
}

/// Adds a daemon's public key to the file of known hosts; an error if another key is known for that
/// host.
fn remember(daemon: &DaemonAddress, key: &str, file: &Path, console: &Console) -> anyhow::Result<()> {
    let (key, _) = PublicKey::parse_line(key)?;
    let DaemonAddress { host, port } = daemon;
    let mut known = KnownHosts::load(file)?;
    let told = match known.check(host, *port, &key) {
        HostKey::Known => "was known already",
        HostKey::Unknown => {
            known.append(host, *port, &key)?;
            "is remembered"
        }
        HostKey::Changed { line } => bail!(
            "{host} port {port} is known by another key in {}:{line}; if the daemon's key has really changed, remove that line and try again",
            file.display()
        ),
    };
    console.result(&format!("{host} port {port} {told} in {}: {}", file.display(), key.fingerprint()));
    console.flush();
    Ok(())
}

/// Default comment of a key, `USER@HOST`, by which people tell keys apart; unknown parts are left
/// out.
fn user_at_host() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let comment = format!("{}@{}", user.trim(), host.trim());
    comment.trim_matches('@').chars().filter(|letter| !letter.is_control()).collect()
}
