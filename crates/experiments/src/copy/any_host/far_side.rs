//! The program that starts the far end: a stand-in for ssh that costs no round trip, or OpenSSH
//! with its server's default settings, also behind a firewall that passes port 22 only, and through
//! a jump host.
//!
//! ```text
//!   a ══ path ══ b                      stand-in, ssh, port 22
//!   a ══ path ══ b ─ cable ─ far        jump host: b forwards nothing, both pass port 22 only
//! ```

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use icdc_lab::{Host, Lab, LabError, program};
use icdc_packet::clock;
use icdc_units::Span;

use crate::copy::any_host::accounts::{Accounts, End, SshKeys};
use crate::copy::peers::SshdDirectory;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::{FAR, on_host};
use crate::harness::hosts::plain_host::PlainHost;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::programs::installed;
use crate::harness::processes::scratch::Scratch;
use crate::harness::processes::server::Server;
use crate::relay::plain_hosts::configure;

/// Access of the near end to the far one: the program that starts it, and the ports that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// A stand-in for ssh, whose commands run at the far end at once; all ports are open.
    StandIn,
    /// OpenSSH's server, with all ports open.
    Ssh,
    /// OpenSSH; only port 22 is open.
    Port22,
    /// OpenSSH by a jump host; only port 22 of both hosts is open.
    JumpHost,
}

const SSH_PORT: u16 = 22;
/// Address of the far host behind the jump host.
const BEHIND: &str = "10.26.34.2";
/// Address of the jump host (host b) on the cable to the far host.
const JUMP: &str = "10.26.34.1";
/// Time limit for a server to listen.
const TIMEOUT: Span = Span::from_secs(10);
/// Interval of the attempts to connect to a server.
const STEP: Span = Span::from_millis(20);

/// Firewall that only passes connections to port 22.
const FIREWALL: &str = "table inet icdc_lab {\n\
    chain input { type filter hook input priority 0; policy accept; iifname \"eth0\" tcp dport != 22 drop; iifname \"eth0\" meta l4proto != tcp drop; }\n\
    chain forward { type filter hook forward priority 0; policy drop; }\n\
}\n";

/// Waits for commands in FIFOs and runs them, each by a shell, as sshd does. It keeps `requests`
/// open itself: otherwise reading would end with the first request. The caller may be of another
/// account.
const FAR_LOOP: &str = "cd \"$1\" && mkfifo -m 666 requests && exec 3<>requests && echo ready && \
    while read -r call <&3; do ( exec 3<&-; command=$(cat \"$call/command\"); \
    sh -c \"$command\" <\"$call/in\" >\"$call/out\" 2>\"$call/errors\"; echo $? >\"$call/status\" ) & done";

/// Stand-in for ssh: passes a command to [`FAR_LOOP`], and its input and output. The two ends may
/// be of different accounts.
const NEAR_CALL: &str = "shift\n\
    umask 0\n\
    call=$(mktemp -d CALLS/call-XXXXXX) && chmod 777 \"$call\" && mkfifo \"$call/in\" \"$call/out\" \"$call/errors\" \"$call/status\" || exit 255\n\
    printf '%s' \"$*\" >\"$call/command\"\n\
    echo \"$call\" >CALLS/requests\n\
    exec 3<&0\n\
    cat <&3 >\"$call/in\" & input=$!\n\
    cat \"$call/out\" & output=$!\n\
    cat \"$call/errors\" >&2 & errors=$!\n\
    read -r status <\"$call/status\"\n\
    wait $output $errors\n\
    kill $input 2>/dev/null\n\
    exit \"$status\"";

/// Processes at the far side for one copy; ended when dropped.
pub(super) struct FarSide {
    /// Name of the host in the copy's target.
    pub(super) host: &'static str,
    /// The program for `--ssh`, if not OpenSSH's.
    pub(super) shell: Option<PathBuf>,
    _servers: Vec<Server>,
    _behind: Option<PlainHost>,
    _sshd_directory: Option<SshdDirectory>,
}

impl FarSide {
    /// Far side that is reached by the ssh servers, the last of them `behind` the first or not.
    fn by_sshd(
        host: &'static str,
        (servers, directory): (Vec<Server>, SshdDirectory),
        behind: Option<PlainHost>,
    ) -> Self {
        Self { host, shell: None, _servers: servers, _behind: behind, _sshd_directory: Some(directory) }
    }

    /// Starts the ssh server or its stand-in, with firewall and jump host as `access` says, and
    /// lets the near account log in.
    pub(super) fn start(
        bench: &Bench<'_>,
        lab: &Lab,
        access: Access,
        (near, far): (&Accounts<'_>, &Accounts<'_>),
        (keys, scratch): (&SshKeys, &Scratch),
    ) -> Result<Self, ExperimentError> {
        if access == Access::StandIn {
            return Self::stand_in(bench, lab, (near, far), scratch);
        }
        // A copy by ssh has the same account at both ends.
        let accounts = near;
        let sshd_directory = SshdDirectory::new();
        let server = |name: &str, address: &str| {
            let sshd = installed("sshd").ok_or(LabError::Missing { program: "sshd", package: "openssh-server" })?;
            // Only the host key differs from the defaults; the machine's own server is not touched.
            let text = format!("HostKey {}\nListenAddress {address}:{SSH_PORT}\nPidFile none\n", keys.host.display());
            let config = scratch.text(name, &text)?.display().to_string();
            let sshd = sshd.display().to_string();
            Ok::<_, ExperimentError>([
                accounts.among(End::Far).display().to_string(),
                sshd,
                "-D".to_owned(),
                "-e".to_owned(),
                "-f".to_owned(),
                config,
            ])
        };
        let log = |name: &str| scratch.path(&format!("{name}-log"));
        let first = server("sshd-b", FAR)?;
        let mut servers = vec![Server::start(on_host(bench, lab, "b", Rights::All).args(&first), &log("sshd-b"))?];
        lab.on(Host::B, || await_listener(FAR))?;
        if matches!(access, Access::Port22 | Access::JumpHost) {
            lab.on(Host::B, raise_firewall)?;
        }
        if access != Access::JumpHost {
            accounts.allow_login(keys, &[FAR], "")?;
            return Ok(Self::by_sshd(FAR, (servers, sshd_directory), None));
        }
        let behind = Self::behind(lab)?;
        let second = server("sshd-behind", BEHIND)?;
        servers.push(behind.inside(|| {
            let started = Server::start(Command::new(&second[0]).args(&second[1..]), &log("sshd-behind"))?;
            await_listener(BEHIND)?;
            raise_firewall()?;
            Ok(started)
        })?);
        accounts.allow_login(keys, &[FAR, BEHIND], &format!("Host {BEHIND}\n    ProxyJump {FAR}\n"))?;
        Ok(Self::by_sshd(BEHIND, (servers, sshd_directory), Some(behind)))
    }

    /// Starts the stand-in for ssh: a loop at host b that runs the commands of a script at host a.
    fn stand_in(
        bench: &Bench<'_>,
        lab: &Lab,
        (near, far): (&Accounts<'_>, &Accounts<'_>),
        scratch: &Scratch,
    ) -> Result<Self, ExperimentError> {
        let owner = if near.is_root() { far } else { near };
        let calls = owner.empty("calls")?;
        let mut command = on_host(bench, lab, "b", Rights::All);
        command.arg(far.runner(End::Far)).args(["sh", "-c", FAR_LOOP, "sh"]).arg(&calls);
        let mut server = Server::start(&mut command, &scratch.path("calls-log"))?;
        server.await_output("ready")?;
        let call = NEAR_CALL.replace("CALLS", &calls.display().to_string());
        Ok(Self {
            host: FAR,
            shell: Some(scratch.script("stand-in", &call)?),
            _servers: vec![server],
            _behind: None,
            _sshd_directory: None,
        })
    }

    /// The host behind host b, which forwards nothing to it. It is a stock host, too.
    fn behind(lab: &Lab) -> Result<PlainHost, ExperimentError> {
        let behind = PlainHost::new(lab.record.wire_processors.clone())?;
        let place = behind.path().display().to_string();
        let cable = format!(
            "link add name onward type veth peer name eth0 netns {place}\naddress add {JUMP}/24 dev onward\nlink set onward up\n"
        );
        lab.on(Host::B, || program::ip(&["-batch", "-"], &cable))?;
        // Packets that do not come from the jump host are not answered.
        let route = format!("route add {BEHIND}/32 via {FAR}\n");
        lab.on(Host::A, || program::ip(&["-batch", "-"], &route))?;
        let sizes = |(least, initial, largest): (u64, u64, u64)| format!("{least} {initial} {largest}");
        let buffers = lab.record.settings.largest_buffers().unwrap_or_default();
        let receive = sizes((4096, 131_072, buffers.0.as_u64()));
        let send = sizes((4096, 16_384, buffers.1.as_u64()));
        behind.inside(|| {
            configure(
                &format!("link set lo up\nlink set eth0 up\naddress add {BEHIND}/24 dev eth0\n"),
                &[("tcp_rmem", &receive), ("tcp_wmem", &send), ("tcp_congestion_control", "cubic")],
            )
        })?;
        Ok(behind)
    }
}

/// Lets only TCP connections to port 22 through to the host on which this runs ([`FIREWALL`]).
fn raise_firewall() -> Result<(), ExperimentError> {
    Ok(program::run("nft", "nftables", &["-f", "-"], FIREWALL)?)
}

/// Waits until a program listens on the ssh port of this host.
fn await_listener(address: &str) -> Result<(), ExperimentError> {
    let address: Ipv4Addr = address.parse().expect("it is an address");
    let until = clock::now() + TIMEOUT;
    while let Err(error) = TcpStream::connect((address, SSH_PORT)) {
        if clock::now() > until {
            return Err(ExperimentError::io(format!("reach sshd at {address}"), error));
        }
        clock::sleep_until(clock::now() + STEP);
    }
    Ok(())
}
