//! Names of algorithms: icdc's own, and the kernel's.

use icdc_cc::Algorithm;

use crate::available_congestion;

/// All congestion control algorithms that icdc brings and can load, without those of the kernel.
pub fn ours() -> impl Iterator<Item = &'static Algorithm> {
    // The others are the kernel's own, which the simulator has under the same name.
    icdc_cc::all().iter().filter(|algorithm| algorithm.kernel_name() != algorithm.name)
}

/// icdc's algorithm with this name, also with the kernel's prefix `icdc_`; `None` if it has none.
#[must_use]
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ours().find(|algorithm| algorithm.name == name || algorithm.kernel_name() == name)
}

/// Whether the algorithm is registered in the kernel at present.
pub(super) fn registered(algorithm: &Algorithm) -> bool {
    is_available(&algorithm.kernel_name())
}

/// Whether the kernel has the algorithm `kernel_name` at present.
pub(super) fn is_available(kernel_name: &str) -> bool {
    available_congestion().iter().any(|name| name == kernel_name)
}
