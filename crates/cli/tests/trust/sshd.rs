//! An sshd of the test's own, with throw-away keys.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::daemon::free_port;
use crate::support::network::Pair;
use crate::support::process::eventually;
use crate::support::{HERE, Site, has_program, is_root, skip, succeed};

/// See the module's description. Ends when dropped.
pub(crate) struct Sshd {
    server: Child,
    /// What to give to `--ssh`.
    pub(crate) command: String,
}

impl Sshd {
    /// On this host, with further lines of its configuration.
    pub(crate) fn start(site: &Site, lines: &str) -> Option<Self> {
        Self::start_on(site, lines, HERE, free_port(), |command| command)
    }

    /// At port 22 of the far one of two hosts that can have firewalls.
    pub(crate) fn beyond_firewalls(site: &Site) -> Option<(Pair, Self)> {
        let hosts = Pair::new()?;
        if !has_program("nft") {
            skip("a firewall needs nftables");
            return None;
        }
        let sshd = Self::start_on(site, "", hosts.far.address(), 22, |command| hosts.far.run(&command))?;
        Some((hosts, sshd))
    }

    /// At this address and port; `on` makes the server run where that is.
    pub(crate) fn start_on(
        site: &Site,
        lines: &str,
        address: &str,
        port: u16,
        on: impl Fn(Command) -> Command,
    ) -> Option<Self> {
        let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists());
        let Some(sshd) = sshd.filter(|_| has_program("ssh") && has_program("ssh-keygen")) else {
            skip("OpenSSH's server or client is not installed");
            return None;
        };
        let directory = site.directory("sshd");
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        let shown = directory.display();
        for name in ["host", "user"] {
            succeed(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(name)));
        }
        let server = format!(
            "Port {port}\nListenAddress {address}\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/user.pub\nPidFile none\n\
             UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
             PrintMotd no\nPrintLastLog no\n{lines}"
        );
        fs::write(directory.join("sshd_config"), server).unwrap();
        let host_key = fs::read_to_string(directory.join("host.pub")).unwrap();
        fs::write(directory.join("known_hosts"), format!("far {host_key}")).unwrap();
        let client = format!(
            "Host far\n HostName {address}\n Port {port}\n HostKeyAlias far\n UserKnownHostsFile {shown}/known_hosts\n\
             GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n IdentityFile {shown}/user\n IdentitiesOnly yes\n\
             BatchMode yes\n"
        );
        fs::write(directory.join("ssh_config"), client).unwrap();
        if is_root() {
            // Where sshd keeps its unprivileged child; packages make it when the service starts.
            let _ = fs::create_dir_all("/run/sshd");
        }
        let mut server = Command::new(sshd);
        server.args(["-D", "-e", "-f"]).arg(directory.join("sshd_config"));
        let server =
            on(server).stdin(Stdio::null()).stderr(fs::File::create(directory.join("log")).unwrap()).spawn().unwrap();
        let running = Self { server, command: format!("ssh -F {shown}/ssh_config") };
        let log = || fs::read_to_string(directory.join("log")).unwrap();
        assert!(eventually(|| log().contains("Server listening")), "{}", log());
        Some(running)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
