//! List of congestion control algorithms, with their availability on this host.

use icdc_cc::Algorithm;

#[cfg(feature = "ebpf")]
use super::ebpf::holder;
use super::holder::Holder;
use super::names::{ours, registered};
use super::obstacle::{Obstacle, obstacle};
#[cfg(not(feature = "ebpf"))]
use super::without::holder;

/// A congestion control algorithm, of the kernel or of icdc, in the list for users, with its
/// availability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Name for users.
    pub name: String,
    /// Name in the kernel.
    pub kernel_name: String,
    /// One-line description; empty for the kernel's algorithms.
    pub summary: &'static str,
    /// Availability on this host.
    pub state: Availability,
    /// Whether any user may choose it at present.
    pub for_anyone: bool,
}

/// Availability of an algorithm on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The kernel has the algorithm, built in or as a module.
    BuiltIn,
    /// One of icdc's algorithms, which is loaded; what keeps it loaded.
    Loaded(Holder),
    /// One of icdc's algorithms, which is loaded when it is chosen.
    Loadable,
    /// One of icdc's algorithms, which cannot be loaded; the obstacle.
    Unavailable(Obstacle),
}

/// Lists the kernel's congestion control algorithms and icdc's.
#[must_use]
pub fn list() -> Vec<Listed> {
    let allowed = crate::allowed_congestion();
    let ours: Vec<Listed> = ours()
        .map(|algorithm| Listed {
            name: algorithm.name.to_owned(),
            kernel_name: algorithm.kernel_name(),
            summary: algorithm.summary,
            state: state(algorithm),
            for_anyone: allowed.contains(&algorithm.kernel_name()),
        })
        .collect();
    let is_ours = |name: &String| ours.iter().any(|one| one.kernel_name == *name);
    let of_kernel = crate::available_congestion().into_iter().filter(|name| !is_ours(name)).map(|name| Listed {
        kernel_name: name.clone(),
        summary: "",
        state: Availability::BuiltIn,
        for_anyone: allowed.contains(&name),
        name,
    });
    of_kernel.chain(ours.clone()).collect()
}

/// Availability of one of icdc's algorithms on this host.
fn state(algorithm: &'static Algorithm) -> Availability {
    if registered(algorithm) {
        return Availability::Loaded(holder(algorithm));
    }
    obstacle(algorithm).map_or(Availability::Loadable, Availability::Unavailable)
}
