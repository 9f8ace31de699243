//! Shapers that limit the TCP traffic from host a to host b.

use std::process::Command;

use icdc_lab::{Host, Lab, program};
use icdc_units::{ByteCount, Rate};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands;
use crate::harness::measurement::rights::Rights;
use crate::harness::traffic::wire_pacer::{self, WirePacer};

/// Bytes that a token bucket lets pass at once: those of a millisecond at 500 Mbit/s, as a kernel
/// with a thousand ticks a second needs them (tc-tbf(8)).
const BUCKET: ByteCount = ByteCount::new(62_500);
/// Queue in host a: more than the windows of a connection over 200 ms at 500 Mbit/s ever hold.
pub(crate) const WAITING: ByteCount = ByteCount::new(40_000_000);
/// Bytes on an Ethernet beside the frame that the kernel counts.
const OVERHEAD: &str = "24";

/// Method by which a host's traffic is paced or shaped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Shaper {
    /// The traffic is not shaped.
    #[default]
    Nothing,
    /// A token bucket before the device, with this rate on the wire.
    TokenBucket(Rate),
    /// A policy with this payload rate for each connection, and with this burst limit in segments
    /// if there is one.
    Policy(Rate, Option<u32>),
    /// The wire pacer, with one class of this rate on the wire.
    Wire(Rate),
    /// The wire pacer in timer mode, with one class of this rate on the wire.
    Timer(Rate),
}

/// The traffic to which a shaper applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Device by which the traffic leaves.
    pub(crate) device: &'static str,
    /// Address to which the traffic goes.
    pub(crate) to: &'static str,
}

impl Target {
    /// Traffic of host a to host b.
    pub(crate) const HOST_B: Self = Self { device: "eth0", to: commands::FAR };
}

/// A running shaper; ended when dropped.
#[derive(Default)]
pub(crate) struct Shaping {
    _policy: Option<PolicyInForce>,
    _pacer: Option<WirePacer>,
}

/// A pacing policy (`icdc pace policy`) that has been added, and is removed when this is dropped.
pub(crate) struct PolicyInForce {
    remove: Command,
}

impl PolicyInForce {
    /// Adds a policy for connections to the addresses `to`, with these options (`arguments`).
    /// `icdc` makes the command that starts the program.
    pub(crate) fn put(icdc: impl Fn() -> Command, to: &str, arguments: &[&str]) -> Result<Self, ExperimentError> {
        let policy = |action: &str| {
            let mut command = icdc();
            command.args(["pace", "policy", action, "--to", to]);
            command
        };
        let output = policy("add").args(arguments).output();
        let output = output.map_err(|error| ExperimentError::io("run icdc pace policy", error))?;
        if !output.status.success() {
            return Err(ExperimentError::program(
                "icdc pace policy add",
                String::from_utf8_lossy(&output.stderr).trim(),
            ));
        }
        Ok(Self { remove: policy("remove") })
    }
}

impl Drop for PolicyInForce {
    fn drop(&mut self) {
        // A policy that could not be removed is shown by `icdc pace policy list`.
        let _ = self.remove.output();
    }
}

impl Shaper {
    /// Starts the shaper; what it changes in a lab is removed with the lab.
    pub(crate) fn start(self, bench: &Bench<'_>, lab: &Lab, target: Target) -> Result<Shaping, ExperimentError> {
        let Target { device, to } = target;
        match self {
            Self::Nothing => Ok(Shaping::default()),
            Self::TokenBucket(rate) => {
                let [rate, bucket, limit] = [
                    format!("{}bit", rate.as_bits_per_second()),
                    BUCKET.as_u64().to_string(),
                    WAITING.as_u64().to_string(),
                ];
                let arguments = ["qdisc", "add", "dev", device, "root", "tbf", "rate", &rate, "overhead", OVERHEAD];
                let arguments = [&arguments[..], &["burst", &bucket, "limit", &limit]].concat();
                lab.on(Host::A, || program::run("tc", "iproute2", &arguments, ""))?;
                Ok(Shaping::default())
            }
            Self::Policy(rate, burst) => {
                let icdc = || {
                    let mut command = commands::on_host(bench, lab, "a", Rights::All);
                    command.arg(bench.program);
                    command
                };
                let (rate, burst) = (format!("{rate:#}"), burst.map(|segments| segments.to_string()));
                let mut arguments = vec!["--rate", &rate];
                arguments.extend(burst.iter().flat_map(|segments| ["--burst", segments]));
                Ok(Shaping { _policy: Some(PolicyInForce::put(icdc, to, &arguments)?), ..Shaping::default() })
            }
            Self::Wire(rate) | Self::Timer(rate) => {
                let mode = if matches!(self, Self::Wire(_)) { "gap" } else { "timer" };
                let filter = format!("to = \"{to}\", protocol = \"tcp\"");
                let class = wire_pacer::class("flow", rate, WAITING, &filter);
                let pacer = WirePacer::start(bench, lab, device, &class, &["--mode", mode])?;
                Ok(Shaping { _pacer: Some(pacer), ..Shaping::default() })
            }
        }
    }
}
