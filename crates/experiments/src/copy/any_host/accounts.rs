//! Accounts that copy: an unprivileged user or root, with a home of its own at either end.
//!
//! Both ends have an `/etc/passwd` of their own, in a mount namespace, so that OpenSSH finds the
//! homes that `HOME` names, independent of this machine's accounts.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use icdc_lab::program;

use crate::harness::error::ExperimentError;
use crate::harness::processes::scratch::Scratch;

/// Number of the ordinary user, and of its group.
const USER_ID: u32 = 1000;
/// Value of `PATH` for the programs of an account.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// File of known paths in a home (XDG's default).
const KNOWN_PATHS: &str = ".local/state/icdc/paths.json";

/// The account that copies, at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// An ordinary user, number 1000, with no privilege.
    User,
    /// Root, user number 0.
    Root,
}

/// One of the two ends of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Near,
    Far,
}

impl Account {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Root => "root",
        }
    }

    /// Number of the user, and of its group.
    fn id(self) -> u32 {
        match self {
            Self::User => USER_ID,
            Self::Root => 0,
        }
    }
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// The homes of an account, and the programs that run something as this account.
pub(super) struct Accounts<'a> {
    scratch: &'a Scratch,
    account: Account,
}

impl<'a> Accounts<'a> {
    /// Writes the scripts of both ends, and makes the account's homes, empty.
    pub(super) fn new(scratch: &'a Scratch, account: Account) -> Result<Self, ExperimentError> {
        let accounts = Self { scratch, account };
        for end in [End::Near, End::Far] {
            accounts.write_scripts(end)?;
            accounts.empty_home(end)?;
        }
        Ok(accounts)
    }

    /// Whether the account's programs have all privileges.
    pub(super) fn is_root(&self) -> bool {
        self.account == Account::Root
    }

    /// The account's home directory at one end.
    pub(super) fn home(&self, end: End) -> PathBuf {
        self.scratch.path(&format!("home-{}-{}", self.account.name(), end.name()))
    }

    /// A program that runs its arguments as this account, in its home and with nothing of this
    /// process' environment.
    pub(super) fn runner(&self, end: End) -> PathBuf {
        self.scratch.path(&format!("as-{}-{}", self.account.name(), end.name()))
    }

    /// A program that runs its arguments as root where the accounts are those of this end.
    pub(super) fn among(&self, end: End) -> PathBuf {
        self.scratch.path(&format!("among-{}-{}", self.account.name(), end.name()))
    }

    /// Writes to the scratch directory the two scripts of an end, [`Self::runner`] and
    /// [`Self::among`], and the passwd and group files that they mount.
    fn write_scripts(&self, end: End) -> Result<(), ExperimentError> {
        let (name, id) = (self.account.name(), self.account.id());
        let home = self.home(end).display().to_string();
        let home_of = |account: Account| if account == self.account { home.as_str() } else { "/nonexistent" };
        let passwd = format!(
            "root:x:0:0::{}:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\nuser:x:{USER_ID}:{USER_ID}::{}:/bin/sh\n",
            home_of(Account::Root),
            home_of(Account::User)
        );
        let passwd = self.scratch.text(&format!("passwd-{name}-{}", end.name()), &passwd)?;
        let group = format!("root:x:0:\nnogroup:x:65534:\nuser:x:{USER_ID}:\n");
        let group = self.scratch.text(&format!("group-{name}-{}", end.name()), &group)?;
        let mount = format!(
            "exec unshare --mount --propagation private sh -c 'mount --bind {} /etc/passwd && mount --bind {} /etc/group && exec \"$@\"' sh",
            passwd.display(),
            group.display()
        );
        self.scratch.script(&format!("among-{name}-{}", end.name()), &format!("{mount} \"$@\""))?;
        let become_it =
            if id == 0 { String::new() } else { format!("setpriv --reuid {id} --regid {id} --clear-groups") };
        let environment = format!("env -i HOME={home} USER={name} LOGNAME={name} PATH={PATH}");
        self.scratch.script(
            &format!("as-{name}-{}", end.name()),
            &format!("cd {home} && {mount} {become_it} {environment} \"$@\""),
        )?;
        Ok(())
    }

    /// Empties the account's home directory at one end.
    pub(super) fn empty_home(&self, end: End) -> Result<(), ExperimentError> {
        let home = self.home(end);
        self.scratch.empty(&home.file_name().unwrap_or_default().to_string_lossy())?;
        self.give(&home)
    }

    /// Whether an earlier copy of this account has stored a known path.
    pub(super) fn knows_a_path(&self) -> bool {
        self.home(End::Near).join(KNOWN_PATHS).exists()
    }

    /// Makes an empty directory in the scratch that only this account may use.
    pub(super) fn empty(&self, name: &str) -> Result<PathBuf, ExperimentError> {
        let path = self.scratch.empty(name)?;
        self.give(&path)?;
        Ok(path)
    }

    /// Makes the account the owner of a directory, and the only one that may use it.
    fn give(&self, path: &Path) -> Result<(), ExperimentError> {
        let given = || -> io::Result<()> {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
            chown(path, Some(self.account.id()), Some(self.account.id()))
        };
        given().map_err(|error| ExperimentError::io(format!("give {} to its account", path.display()), error))
    }

    /// Lets the near end log in at the far one with a key, as `ssh-keygen` and `ssh-copy-id` would,
    /// and know the hosts of these addresses. Nothing else is configured but `ssh_config`.
    pub(super) fn allow_login(
        &self,
        keys: &SshKeys,
        addresses: &[&str],
        ssh_config: &str,
    ) -> Result<(), ExperimentError> {
        let [near, far] = [End::Near, End::Far].map(|end| self.home(end).join(".ssh"));
        let known: String = addresses.iter().map(|address| format!("{address} {}\n", keys.host_public)).collect();
        for (directory, name, text) in [
            (&near, "id_ed25519", keys.user_private.as_str()),
            (&near, "known_hosts", &known),
            (&near, "config", ssh_config),
            (&far, "authorized_keys", &format!("{}\n", keys.user_public)),
        ] {
            let path = directory.join(name);
            let written = || -> io::Result<()> {
                fs::create_dir_all(directory)?;
                fs::write(&path, text)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
                chown(&path, Some(self.account.id()), Some(self.account.id()))
            };
            written().map_err(|error| ExperimentError::io(format!("write {}", path.display()), error))?;
            self.give(directory)?;
        }
        Ok(())
    }
}

/// The ssh servers' key, and the key by which the copying account logs in at the far end; made for
/// the scenario.
pub(super) struct SshKeys {
    /// File with the private key of all ssh servers.
    pub(super) host: PathBuf,
    host_public: String,
    user_private: String,
    user_public: String,
}

impl SshKeys {
    /// Makes the keys by `ssh-keygen`, as files in the scratch directory.
    pub(super) fn make(scratch: &Scratch) -> Result<Self, ExperimentError> {
        let read = |path: PathBuf| {
            fs::read_to_string(&path).map_err(|error| ExperimentError::io(format!("read {}", path.display()), error))
        };
        for name in ["host-key", "user-key"] {
            let file = scratch.path(name).display().to_string();
            program::run(
                "ssh-keygen",
                "openssh-client",
                &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &file],
                "",
            )?;
        }
        let public = |name: &str| Ok::<_, ExperimentError>(read(scratch.path(name))?.trim().to_owned());
        Ok(Self {
            host: scratch.path("host-key"),
            host_public: public("host-key.pub")?,
            user_private: read(scratch.path("user-key"))?,
            user_public: public("user-key.pub")?,
        })
    }
}
