//! Relays on a row of labs: one on the host next to the near plain host, and one at the far end of each lab.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use super::Bench;
use super::control::Rights;
use super::copying::on_host;
use super::plain_hosts::Row;
use super::server::Server;
use crate::LabError;

/// Where relays take each other's connections.
const PEER_PORT: u16 = 2634;

/// They run; ended when dropped.
pub(super) struct Relays {
    /// From the near end to the far one.
    relays: Vec<Relay>,
    /// To whom clients connect.
    pub(super) door: SocketAddrV4,
}

struct Relay {
    _server: Server,
    status: PathBuf,
}

/// What there is of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain<'a> {
    /// Congestion control of the legs between them.
    pub(super) cc: &'a str,
    /// Connections that are kept open from relay to relay.
    pub(super) warm: u32,
}

/// What a relay tells of the leg to the next one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Leg {
    /// As the kernel calls it.
    pub(super) congestion: String,
    pub(super) retransmissions: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    connections: Vec<Connection>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Connection {
    far: Option<Leg>,
}

impl Relays {
    /// Starts them for connections to a port of the far host. Each has the next one to go to, the last one the destination.
    pub(super) fn start(bench: &Bench<'_>, row: &Row, chain: Chain<'_>, port: u16) -> Result<Self, LabError> {
        let count = row.labs.len() + 1;
        let door = SocketAddrV4::new(row.relay_place(0).2, port);
        let mut relays = Vec::new();
        // The last one first: whoever keeps connections warm finds the next one there.
        for number in (0..count).rev() {
            let (lab, host, address) = row.relay_place(number);
            let status = lab.directory().join(format!("relay-{number}.sock"));
            let mut command = on_host(bench, lab, host, Rights::All);
            command.arg(bench.program).args(["relay", "--cc", chain.cc, "--status-socket"]).arg(&status);
            command.env("RUST_LOG", "info");
            if number == 0 {
                command.args(["--forward", &format!("{door}={}:{port}", row.far_address())]);
            } else {
                command.args(["--peer", &format!("{address}:{PEER_PORT}"), "--allow", "from=10.26.0.0/16"]);
            }
            if number + 1 < count {
                let next = row.relay_place(number + 1).2;
                command.args(["--route", &format!("default={next}:{PEER_PORT}")]);
                command.args(["--warm", &chain.warm.to_string()]);
            }
            let mut server = Server::start(&mut command, &lab.directory().join(format!("relay-{number}.log")))?;
            server.await_word("ready")?;
            relays.insert(0, Relay { _server: server, status });
        }
        Ok(Self { relays, door })
    }

    /// What each relay but the last tells of the leg by which the one open connection goes on.
    pub(super) fn legs(&self, bench: &Bench<'_>) -> Vec<Leg> {
        let between = &self.relays[..self.relays.len() - 1];
        between.iter().map(|relay| leg(bench, relay).unwrap_or_default()).collect()
    }
}

fn leg(bench: &Bench<'_>, relay: &Relay) -> Option<Leg> {
    let mut command = Command::new(bench.program);
    let output = command.args(["relay", "status", "--json", "--status-socket"]).arg(&relay.status).output().ok()?;
    let status: Status = serde_json::from_slice(&output.stdout).ok()?;
    status.connections.into_iter().find_map(|connection| connection.far)
}
