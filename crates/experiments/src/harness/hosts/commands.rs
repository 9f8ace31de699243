//! Commands on the hosts of a lab.

use std::process::Command;

use icdc_lab::Lab;

use crate::harness::bench::Bench;
use crate::harness::measurement::rights::Rights;

/// IPv4 address of host b.
pub(crate) const FAR: &str = "10.26.33.2";
/// IPv4 address of host a.
pub(crate) const NEAR: &str = "10.26.33.1";

/// A command on a host, by `icdc lab exec`, with these privileges, which its children inherit.
pub(crate) fn on_host(bench: &Bench<'_>, lab: &Lab, host: &str, rights: Rights) -> Command {
    let mut command = Command::new(bench.program);
    command.args(["lab", "exec", "--name", &lab.record.name, host, "--"]).args(rights.prefix());
    command
}
