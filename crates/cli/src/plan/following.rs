//! Options of following the sources.

use anyhow::{anyhow, ensure};
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_transfer::sender::FollowOptions;

use crate::applies::Hosts;
use crate::arguments::FollowingArguments;

/// Options of a copy that follows its sources; `None` for one that does not.
pub(super) fn options(arguments: &FollowingArguments, hosts: Hosts) -> anyhow::Result<Option<FollowOptions>> {
    if !arguments.follow {
        return Ok(None);
    }
    ensure!(!hosts.between_two, "--follow follows directories of this host: run icdc on the one that has the sources");
    let options = FollowOptions {
        settle: arguments.settle,
        scan_interval: arguments.scan_interval,
        idle: arguments.idle,
        until: arguments.until.map(|left| clock::now() + left),
        marker: arguments.marker.as_ref().map(|pattern| pattern.as_bytes().to_vec()),
        finish: StopSignal::new(),
    };
    options.marker().map_err(|reason| anyhow!("--final {reason}"))?;
    Ok(Some(options))
}
