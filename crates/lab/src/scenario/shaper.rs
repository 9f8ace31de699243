//! What keeps the TCP traffic from host a to host b to a rate.

use std::process::Command;

use icdc_units::{ByteCount, Rate};

use super::control::Rights;
use super::wire_pacer::WirePacer;
use super::{Bench, copying};
use crate::namespaces::Host;
use crate::{Lab, LabError, program};

/// Bytes that a token bucket lets pass at once: those of a millisecond at 500 Mbit/s, as a kernel with a thousand ticks a second needs
/// them (tc-tbf(8)).
const BUCKET: ByteCount = ByteCount::new(62_500);
/// What may wait in host a: more than the windows of a connection over 200 ms at 500 Mbit/s ever hold.
const WAITING: ByteCount = ByteCount::new(40_000_000);
/// What an Ethernet takes beside the frame that the kernel counts.
const OVERHEAD: &str = "24";

/// See the module's description.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Shaper {
    /// Nothing.
    #[default]
    Nothing,
    /// A token bucket before the device, of so much on the wire.
    TokenBucket(Rate),
    /// A policy of so much payload for each connection, with bursts of so many segments if that is said.
    Policy(Rate, Option<u32>),
    /// The wire pacer, with one class of so much on the wire.
    Wire(Rate),
    /// The same by the timer.
    Timer(Rate),
}

/// Whose traffic it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// The device by which it leaves.
    pub(super) device: &'static str,
    /// The address to which it goes.
    pub(super) to: &'static str,
}

impl Target {
    /// All that goes to host b.
    pub(super) const HOST_B: Self = Self { device: "eth0", to: copying::FAR };
}

/// As long as it works.
#[derive(Default)]
pub(super) struct Shaping {
    _policy: Option<InForce>,
    _pacer: Option<WirePacer>,
}

/// A policy that goes when dropped.
pub(super) struct InForce {
    remove: Command,
}

impl InForce {
    /// A policy for the addresses `to`, by icdc as `icdc` starts it.
    pub(super) fn put(icdc: impl Fn() -> Command, to: &str, words: &[&str]) -> Result<Self, LabError> {
        let policy = |action: &str| {
            let mut command = icdc();
            command.args(["pace", "policy", action, "--to", to]);
            command
        };
        let output = policy("add").args(words).output();
        let output = output.map_err(|error| LabError::io("run icdc pace policy", error))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(LabError::Program { program: "icdc pace policy add".to_owned(), words });
        }
        Ok(Self { remove: policy("remove") })
    }
}

impl Drop for InForce {
    fn drop(&mut self) {
        // One that stays is told by `icdc pace policy list`.
        let _ = self.remove.output();
    }
}

impl Shaper {
    /// Lets it work from now on; what it needs of a lab goes with the lab.
    pub(super) fn start(self, bench: &Bench<'_>, lab: &Lab, target: Target) -> Result<Shaping, LabError> {
        let Target { device, to } = target;
        match self {
            Self::Nothing => Ok(Shaping::default()),
            Self::TokenBucket(rate) => {
                let [rate, bucket, limit] = [
                    format!("{}bit", rate.as_bits_per_second()),
                    BUCKET.as_u64().to_string(),
                    WAITING.as_u64().to_string(),
                ];
                let words = ["qdisc", "add", "dev", device, "root", "tbf", "rate", &rate, "overhead", OVERHEAD];
                let words = [&words[..], &["burst", &bucket, "limit", &limit]].concat();
                lab.on(Host::A, || program::run("tc", "iproute2", &words, ""))?;
                Ok(Shaping::default())
            }
            Self::Policy(rate, burst) => {
                let icdc = || {
                    let mut command = copying::on_host(bench, lab, "a", Rights::All);
                    command.arg(bench.program);
                    command
                };
                let (rate, burst) = (format!("{rate:#}"), burst.map(|segments| segments.to_string()));
                let mut words = vec!["--rate", &rate];
                words.extend(burst.iter().flat_map(|segments| ["--burst", segments]));
                Ok(Shaping { _policy: Some(InForce::put(icdc, to, &words)?), ..Shaping::default() })
            }
            Self::Wire(rate) | Self::Timer(rate) => {
                let mode = if matches!(self, Self::Wire(_)) { "gap" } else { "timer" };
                let queue = WAITING;
                let class = format!(
                    "[[class]]\nname = \"flow\"\nrate = \"{rate:#}\"\nqueue = \"{queue:#}\"\nfilter = [{{ to = \"{to}\" }}]\n"
                );
                let pacer = WirePacer::start(bench, lab, device, &class, &["--mode", mode])?;
                Ok(Shaping { _pacer: Some(pacer), ..Shaping::default() })
            }
        }
    }
}
