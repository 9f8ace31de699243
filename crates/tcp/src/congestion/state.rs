//! What congestion control may be chosen here, and why not.

use icdc_cc::Algorithm;

#[cfg(feature = "ebpf")]
use super::ebpf::holder;
use super::holder::Holder;
use super::names::{ours, registered};
use super::obstacle::{Obstacle, obstacle};
#[cfg(not(feature = "ebpf"))]
use super::without::holder;

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What users write.
    pub name: String,
    /// What the kernel calls it.
    pub kernel_name: String,
    /// One line on it; empty for those of the kernel.
    pub summary: &'static str,
    /// Whether it can be had.
    pub state: Availability,
    /// Any user may choose it, now that it is there.
    pub for_anyone: bool,
}

/// Whether an algorithm can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The kernel has it, built in or as a module.
    BuiltIn,
    /// It is one of ours, and loaded.
    Loaded(Holder),
    /// It is one of ours, and would be loaded when asked for.
    Loadable,
    /// It is one of ours and cannot be loaded.
    Unavailable(Obstacle),
}

/// The kernel's algorithms and ours.
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

fn state(algorithm: &'static Algorithm) -> Availability {
    if registered(algorithm) {
        return Availability::Loaded(holder(algorithm));
    }
    obstacle(algorithm).map_or(Availability::Loadable, Availability::Unavailable)
}
