//! Kernel features available to this process that make transfers faster.

use std::path::Path;

use icdc_disk::{EngineKind, open_engine};
use icdc_tcp::congestion::{self, Availability, Obstacle};

/// The program as a package installs it.
const PACKAGED: &str = "/usr/bin/icdc";
/// The package's command that gives capabilities to the members of the group `icdc` only.
const OF_PACKAGE: &str = "/usr/libexec/icdc/capabilities";

/// Optional kernel features, which are used where they are available.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Availability of disk I/O by io_uring.
    pub io_uring: Ability,
    /// Availability of congestion control by eBPF.
    pub ebpf: Ability,
}

/// Availability of a feature, with the obstacle if it is not available.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ability {
    /// Obstacle; `None` if the feature is available.
    pub obstacle: Option<String>,
    /// A command that removes the obstacle; `None` if none is known.
    pub remedy: Option<String>,
}

impl Abilities {
    /// Probes the running kernel for io_uring and eBPF, as far as this process may use them.
    /// A failed probe gives the feature as unavailable, with the error as the obstacle.
    #[must_use]
    pub fn find() -> Self {
        Self { io_uring: io_uring(), ebpf: ebpf() }
    }
}

/// Checks whether this process can make an io_uring.
fn io_uring() -> Ability {
    match open_engine(1, EngineKind::Uring) {
        Ok(_) => Ability::default(),
        Err(error) => Ability { obstacle: Some(error.to_string()), remedy: None },
    }
}

/// Checks whether this process can load congestion control by eBPF; with the command that removes
/// the obstacle, where one is known.
fn ebpf() -> Ability {
    let obstacle = congestion::list().into_iter().find_map(|one| match one.state {
        Availability::Unavailable(obstacle) => Some(obstacle),
        Availability::BuiltIn | Availability::Loaded(_) | Availability::Loadable => None,
    });
    let remedy = obstacle.as_ref().and_then(|obstacle| match obstacle {
        Obstacle::Interpreted => Some("sysctl -w net.core.bpf_jit_enable=1".to_owned()),
        Obstacle::Capability(_) => {
            let program = std::env::current_exe().ok()?;
            Some(match program.as_path() == Path::new(PACKAGED) && Path::new(OF_PACKAGE).exists() {
                true => format!("{OF_PACKAGE} on"),
                false => format!("setcap cap_bpf,cap_perfmon,cap_net_admin+ep {}", program.display()),
            })
        }
        _ => None,
    });
    Ability { obstacle: obstacle.map(|obstacle| obstacle.to_string()), remedy }
}
