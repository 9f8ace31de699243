//! Relays on a row of labs: one on the host next to the near plain host, and one at the far end of
//! each lab.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::on_host;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::server::Server;
use crate::relay::plain_hosts::Row;

/// TCP port of connections between relays.
const PEER_PORT: u16 = 2634;

/// The running relays; ended when dropped.
pub(crate) struct Relays {
    /// The relays, from the near end to the far one.
    relays: Vec<Relay>,
    /// Address to which clients connect.
    pub(crate) door: SocketAddrV4,
}

/// A running relay, and the path of its status socket.
struct Relay {
    _server: Server,
    status: PathBuf,
}

/// Settings of a chain of relays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain<'a> {
    /// Congestion control of the legs between the relays.
    pub(crate) cc: &'a str,
    /// Connections that are kept open from relay to relay.
    pub(crate) warm: u32,
}

/// A connection to the next relay, as `icdc relay status` shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RelayLeg {
    /// Kernel name of the leg's congestion control.
    pub(crate) congestion: String,
    pub(crate) retransmissions: u64,
}

/// Output of `icdc relay status --json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    connections: Vec<Connection>,
}

/// A connection in a relay's status, with its leg to the next relay.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Connection {
    far: Option<RelayLeg>,
}

impl Relays {
    /// Starts relays for connections to a port of the far host. Each connects to the next one, the
    /// last one to the destination.
    pub(crate) fn start(bench: &Bench<'_>, row: &Row, chain: Chain<'_>, port: u16) -> Result<Self, ExperimentError> {
        let count = row.labs.len() + 1;
        let door = SocketAddrV4::new(row.relay_place(0).2, port);
        let mut relays = Vec::new();
        // The last one first: a relay that keeps connections open finds the next one running.
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
            server.await_output("ready")?;
            relays.insert(0, Relay { _server: server, status });
        }
        Ok(Self { relays, door })
    }

    /// The outgoing leg of the one open connection, as each relay but the last reports it.
    pub(crate) fn legs(&self, bench: &Bench<'_>) -> Vec<RelayLeg> {
        let between = &self.relays[..self.relays.len() - 1];
        between.iter().map(|relay| leg(bench, relay).unwrap_or_default()).collect()
    }
}

/// Queries a relay for the leg of its connection to the next relay; `None` if it does not answer or
/// has no connection.
fn leg(bench: &Bench<'_>, relay: &Relay) -> Option<RelayLeg> {
    let mut command = Command::new(bench.program);
    let output = command.args(["relay", "status", "--json", "--status-socket"]).arg(&relay.status).output().ok()?;
    let status: Status = serde_json::from_slice(&output.stdout).ok()?;
    status.connections.into_iter().find_map(|connection| connection.far)
}
