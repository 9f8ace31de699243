//! The programs that people use to copy files over a network, as far as they are installed, and
//! what each needs at the far end.
//!
//! | program | far end | how it is called |
//! |---|---|---|
//! | `scp`, `rsync` | sshd | as they are; ssh's own window limits them on a long path, so they get a smaller file |
//! | `rsync` | its daemon, in clear | as it is |
//! | `bbcp` | sshd | 16 connections, windows of 8 MB |
//! | `qcp` | sshd | told 1 Gbit/s and 300 ms |
//! | `escp` | sshd | as it is |
//! | `globus-url-copy` | `globus-gridftp-server`, in clear | 16 connections, windows of 8 MB |
//! | `xrdcp` | `xrootd`, in clear | 15 connections |
//! | `rclone` | `rclone serve webdav`, in clear | 16 at once |
//!
//! The ssh server has throw-away keys and listens in the lab only; nothing of the user's or the
//! machine's configuration is used.

use std::fs;
use std::path::{Path, PathBuf};

use icdc_lab::program;

use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::FAR;
use crate::harness::processes::programs::installed;
use crate::harness::processes::scratch::Scratch;

/// Kind of data that a comparison copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// A single file.
    File,
    /// A directory with many small ones.
    Tree,
}

/// The command line of a far end, and the port on which it listens.
type FarEndCommand = (fn(&CommandPaths) -> Vec<String>, u16);

/// Another program that copies, with its command line and that of its far end.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Programs of which all must be installed.
    programs: &'static [&'static str],
    /// Whether the program reaches only a few Mbit/s, so that it gets a smaller file.
    pub(crate) is_slow: bool,
    /// Command that starts its own far end; `None` if that is the ssh server.
    own_server: Option<FarEndCommand>,
    copy: fn(&CommandPaths, Load, &str) -> Vec<String>,
}

/// Paths that the command lines of copying programs need: destination, ssh and its server, and
/// their configurations.
pub(crate) struct CommandPaths {
    /// Destination directory on host b.
    pub(crate) destination: String,
    /// A program that is called as ssh.
    pub(crate) ssh: String,
    sshd: Option<PathBuf>,
    sshd_config: String,
    ssh_config: String,
    rsync_config: String,
}

/// Directory that sshd requires.
const SSHD_DIRECTORY: &str = "/run/sshd";
/// TCP port of the ssh server in the lab.
const SSH_PORT: u16 = 2222;
/// TCP port of rsync's daemon in the lab.
const RSYNC_PORT: u16 = 8730;
/// TCP port of the GridFTP server in the lab.
const GRIDFTP_PORT: u16 = 2811;
/// TCP port of the XRootD server in the lab.
const XROOTD_PORT: u16 = 1094;
/// TCP port of rclone's WebDAV server in the lab.
const WEBDAV_PORT: u16 = 8080;

/// All other copying programs that icdc is compared with, installed or not.
static PEERS: [Peer; 9] = [
    Peer {
        name: "scp",
        programs: &["scp", "sshd"],
        is_slow: true,
        own_server: None,
        copy: |paths, _, source| arguments(&["scp", "-q", "-r", "-p", "-F", &paths.ssh_config, source, &paths.far()]),
    },
    Peer {
        name: "rsync by ssh",
        programs: &["rsync", "sshd"],
        is_slow: true,
        own_server: None,
        copy: |paths, _, source| arguments(&["rsync", "-a", "-e", &paths.ssh, source, &paths.far()]),
    },
    Peer {
        name: "rsync by its daemon",
        programs: &["rsync"],
        is_slow: false,
        own_server: Some((
            |paths| arguments(&["rsync", "--daemon", "--no-detach", "--config", &paths.rsync_config]),
            RSYNC_PORT,
        )),
        copy: |_, _, source| arguments(&["rsync", "-a", source, &format!("rsync://{FAR}:{RSYNC_PORT}/in/")]),
    },
    Peer {
        name: "bbcp",
        programs: &["bbcp", "sshd"],
        is_slow: false,
        own_server: None,
        copy: |paths, load, source| {
            let far_end = format!("{} %I -l %U %H bbcp", paths.ssh);
            let all = ["bbcp", "-r", "-f", "-s", "16", "-w", "8m", "-S", &far_end, source, &paths.far()];
            all.iter()
                .filter(|argument| load == Load::Tree || **argument != "-r")
                .map(|&argument| argument.to_owned())
                .collect()
        },
    },
    Peer {
        name: "qcp",
        programs: &["qcp", "sshd"],
        is_slow: false,
        own_server: None,
        copy: |paths, load, source| {
            let all = [
                "qcp",
                "-r",
                "--ssh",
                &paths.ssh,
                "--tx",
                "125M",
                "--rx",
                "125M",
                "--rtt",
                "300",
                source,
                &paths.far(),
            ];
            all.iter()
                .filter(|argument| load == Load::Tree || **argument != "-r")
                .map(|&argument| argument.to_owned())
                .collect()
        },
    },
    Peer {
        name: "EScp",
        programs: &["escp", "sshd"],
        is_slow: false,
        own_server: None,
        copy: |paths, _, source| arguments(&["escp", "-q", "-r", "-S", &paths.ssh, source, &paths.far()]),
    },
    Peer {
        name: "GridFTP",
        programs: &["globus-url-copy", "globus-gridftp-server"],
        is_slow: false,
        own_server: Some((
            |_| {
                arguments(&["globus-gridftp-server", "-aa", "-anonymous-user", "root", "-p", &GRIDFTP_PORT.to_string()])
            },
            GRIDFTP_PORT,
        )),
        copy: |paths, load, source| {
            let (source, far) =
                (format!("file://{source}"), format!("ftp://{FAR}:{GRIDFTP_PORT}{}/", paths.destination));
            match load {
                Load::File => arguments(&["globus-url-copy", "-fast", "-p", "16", "-tcp-bs", "8M", &source, &far]),
                Load::Tree => {
                    let source = format!("{source}/");
                    arguments(&["globus-url-copy", "-fast", "-pp", "-cc", "16", "-cd", "-r", &source, &far])
                }
            }
        },
    },
    Peer {
        name: "xrdcp",
        programs: &["xrdcp", "xrootd"],
        is_slow: false,
        own_server: Some((
            |paths| arguments(&["xrootd", "-R", "nobody", "-p", &XROOTD_PORT.to_string(), &paths.destination]),
            XROOTD_PORT,
        )),
        copy: |paths, _, source| {
            let far = format!("root://{FAR}:{XROOTD_PORT}/{}/", paths.destination);
            arguments(&["xrdcp", "-s", "-r", "-S", "15", source, &far])
        },
    },
    Peer {
        name: "rclone by WebDAV",
        programs: &["rclone"],
        is_slow: false,
        own_server: Some((
            |paths| {
                arguments(&["rclone", "serve", "webdav", "--addr", &format!("{FAR}:{WEBDAV_PORT}"), &paths.destination])
            },
            WEBDAV_PORT,
        )),
        copy: |_, _, source| {
            let far = format!("http://{FAR}:{WEBDAV_PORT}");
            arguments(&["rclone", "copy", "--transfers", "16", "--webdav-url", &far, source, ":webdav:"])
        },
    },
];

impl Peer {
    /// The peers whose programs are all installed.
    pub(crate) fn installed() -> Vec<&'static Self> {
        PEERS.iter().filter(|peer| peer.programs.iter().all(|program| installed(program).is_some())).collect()
    }

    /// The program of this name, if it is installed.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        Self::installed().into_iter().find(|peer| peer.name == name)
    }

    /// Names of the programs that are not installed.
    pub(crate) fn missing() -> Vec<&'static str> {
        let found = Self::installed();
        PEERS.iter().map(|peer| peer.name).filter(|name| found.iter().all(|peer| peer.name != *name)).collect()
    }

    /// The command line, program included, that copies `source` to the destination directory
    /// on host b. It is to be run in host a; `load` tells whether `source` is a file or a
    /// directory.
    pub(crate) fn copy(&self, paths: &CommandPaths, load: Load, source: &Path) -> Vec<String> {
        (self.copy)(paths, load, &source.display().to_string())
    }

    /// Command line that starts the program's far end on host b, and the port on which that
    /// listens.
    pub(crate) fn serve(&self, paths: &CommandPaths) -> Option<(Vec<String>, u16)> {
        match self.own_server {
            Some((arguments, port)) => Some((arguments(paths), port)),
            None => paths.sshd(),
        }
    }
}

/// The directory that sshd requires; removed when dropped if it was made here.
pub(crate) struct SshdDirectory(bool);

impl SshdDirectory {
    /// Makes the directory, unless it exists.
    pub(crate) fn new() -> Self {
        Self(fs::create_dir(SSHD_DIRECTORY).is_ok())
    }
}

impl Drop for SshdDirectory {
    fn drop(&mut self) {
        if self.0 {
            // Another sshd may use it by now.
            let _ = fs::remove_dir(SSHD_DIRECTORY);
        }
    }
}

impl CommandPaths {
    /// Writes keys and configurations. `destination` is the directory on host b.
    pub(crate) fn new(scratch: &Scratch, destination: &Path) -> Result<Self, ExperimentError> {
        let path = |name: &str| scratch.path(name).display().to_string();
        let (host_key, user_key) = (path("ssh-host-key"), path("ssh-user-key"));
        let sshd = installed("sshd");
        if sshd.is_some() {
            for key in [&host_key, &user_key] {
                program::run("ssh-keygen", "openssh-client", &["-q", "-t", "ed25519", "-N", "", "-f", key], "")?;
            }
        }
        let sshd_config = format!(
            "ListenAddress {FAR}:{SSH_PORT}\nHostKey {host_key}\nAuthorizedKeysFile {user_key}.pub\n\
             PermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\nSubsystem sftp internal-sftp\n"
        );
        let ssh_config = format!(
            "Host *\nPort {SSH_PORT}\nUser root\nIdentityFile {user_key}\nIdentitiesOnly yes\nStrictHostKeyChecking accept-new\n\
             UserKnownHostsFile {}\nLogLevel ERROR\n",
            path("ssh-known-hosts")
        );
        let destination = destination.display().to_string();
        let rsync_config = format!(
            "address = {FAR}\nport = {RSYNC_PORT}\nuse chroot = no\nuid = root\ngid = root\nread only = no\nlog file = {}\n\
             [in]\npath = {destination}\n",
            path("rsync-log")
        );
        let ssh_config = scratch.text("ssh-config", &ssh_config)?.display().to_string();
        Ok(Self {
            destination,
            ssh: scratch.script("ssh", &format!("exec ssh -F '{ssh_config}' \"$@\""))?.display().to_string(),
            sshd,
            sshd_config: scratch.text("sshd-config", &sshd_config)?.display().to_string(),
            ssh_config,
            rsync_config: scratch.text("rsync-config", &rsync_config)?.display().to_string(),
        })
    }

    /// The command line that starts the ssh server, if there is one, and its port.
    pub(crate) fn sshd(&self) -> Option<(Vec<String>, u16)> {
        let sshd = self.sshd.as_ref()?.display().to_string();
        Some((arguments(&[&sshd, "-D", "-e", "-f", &self.sshd_config]), SSH_PORT))
    }

    /// The destination directory on host b as `HOST:PATH`.
    pub(crate) fn far(&self) -> String {
        format!("{FAR}:{}/", self.destination)
    }
}

/// A command line of owned strings.
fn arguments(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}
