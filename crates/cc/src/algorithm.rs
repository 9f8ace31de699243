//! The algorithms by name, with their parameters.

use std::ffi::CStr;

use thiserror::Error;

use crate::native::sys;
use crate::packed::{EbpfObject, Packed};

/// A congestion control algorithm: its native build for the simulator, and its eBPF objects unless
/// the kernel has it.
pub struct Algorithm {
    /// The name that users give, such as `highspeed`.
    pub name: &'static str,
    /// Description in one line, for lists.
    pub summary: &'static str,
    pub(crate) native: &'static sys::Algorithm,
    ebpf: Ebpf,
}

/// Whether an algorithm has to be loaded into the kernel, and its eBPF objects.
enum Ebpf {
    /// Every kernel of interest has it.
    InKernel,
    /// Empty if this build could not make them.
    Objects { plain: Packed, traced: Packed },
}

/// A number by which an algorithm can be tuned before it is loaded or simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the parameter in the C file.
    pub name: &'static str,
    /// Description of the parameter, with its unit.
    pub help: &'static str,
    /// Default value.
    pub initial: i64,
    /// Lowest value allowed.
    pub lowest: i64,
    /// Highest value allowed.
    pub highest: i64,
}

/// Reason for which a parameter cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParameterError {
    /// The algorithm has no parameter of this name.
    #[error("{algorithm} has no parameter {name}; it has: {known}")]
    Unknown {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// The name given for a parameter.
        name: String,
        /// Names of the known parameters.
        known: String,
    },
    /// The value is out of the parameter's range.
    #[error("{name} = {value} is out of range: {algorithm} takes {lowest} to {highest}")]
    OutOfRange {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Name of the parameter.
        name: &'static str,
        /// The value given.
        value: i64,
        /// Lowest value allowed.
        lowest: i64,
        /// Highest value allowed.
        highest: i64,
    },
}

/// Reason, for users, for which this build has no eBPF objects.
const WITHOUT_EBPF: &str = match option_env!("ICDC_CC_WITHOUT_EBPF") {
    Some(reason) => reason,
    None => "this build has no eBPF objects",
};

/// Every algorithm of this crate, in the order in which lists show them.
#[must_use]
pub fn all() -> &'static [Algorithm] {
    &ALL
}

/// The algorithm of this name, also with the kernel's prefix `icdc_`; `None` if there is none.
#[must_use]
pub fn find(name: &str) -> Option<&'static Algorithm> {
    let name = name.strip_prefix("icdc_").unwrap_or(name);
    ALL.iter().find(|algorithm| algorithm.name == name)
}

macro_rules! in_kernel {
    ($name:literal, $native:ident, $summary:literal) => {
        Algorithm {
            name: $name,
            summary: $summary,
            // SAFETY: a constant of the C file, never written.
            native: unsafe { &sys::$native },
            ebpf: Ebpf::InKernel,
        }
    };
}

macro_rules! loadable {
    ($name:literal, $native:ident, $summary:literal) => {
        Algorithm {
            name: $name,
            summary: $summary,
            // SAFETY: a constant of the C file, never written.
            native: unsafe { &sys::$native },
            ebpf: Ebpf::Objects {
                plain: Packed(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o.zlib"))),
                traced: Packed(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".traced.bpf.o.zlib"))),
            },
        }
    };
}

/// The algorithms that [`all`] returns.
static ALL: [Algorithm; 9] = [
    loadable!("icdc", icdc_algorithm_icdc, "icdc: paces just under what the path has free, learnt from short trains"),
    in_kernel!("reno", icdc_algorithm_reno, "the kernel's Reno (RFC 5681)"),
    in_kernel!("cubic", icdc_algorithm_cubic, "the kernel's CUBIC with HyStart (RFC 9438)"),
    in_kernel!("bbr", icdc_algorithm_bbr, "the kernel's BBR, version 1: paces at the rate that the path delivers"),
    loadable!("bic", icdc_algorithm_bic, "BIC: binary search for the window of the last loss, then probing"),
    loadable!("htcp", icdc_algorithm_htcp, "H-TCP: the longer since the last loss, the faster"),
    loadable!("highspeed", icdc_algorithm_highspeed, "HighSpeed TCP (RFC 3649): larger steps the larger the window"),
    loadable!("scalable", icdc_algorithm_scalable, "Scalable TCP: back from a loss in 14 round trips at any window"),
    loadable!("ghstcp", icdc_algorithm_ghstcp, "gHSTCP: HighSpeed TCP, but Reno while round-trip times rise"),
];

impl Algorithm {
    /// Name in the kernel: `icdc_NAME` for an algorithm that icdc loads, else its own name.
    #[must_use]
    pub fn kernel_name(&self) -> String {
        match self.ebpf {
            Ebpf::InKernel => self.name.to_owned(),
            Ebpf::Objects { .. } => format!("icdc_{}", self.name),
        }
    }

    /// Checks whether this build has the algorithm's eBPF object.
    ///
    /// # Errors
    /// The reason for which there is none, as a sentence for users.
    pub fn has_object(&self) -> Result<(), &'static str> {
        self.objects().map(|_| ())
    }

    /// The algorithm's eBPF object: one `struct tcp_congestion_ops` in section `.struct_ops`,
    /// parameters in `.rodata`.
    ///
    /// # Errors
    /// As [`has_object`](Self::has_object).
    pub fn object(&self) -> Result<EbpfObject, &'static str> {
        self.objects().map(|(plain, _)| plain.unpack())
    }

    /// The algorithm's eBPF object for tracing: named `icdct_NAME` in the kernel, with a
    /// [`TraceRecord`](crate::TraceRecord) of each operation in the ring buffer `icdc_trace`.
    ///
    /// # Errors
    /// As [`has_object`](Self::has_object).
    pub fn traced_object(&self) -> Result<EbpfObject, &'static str> {
        self.objects().map(|(_, traced)| traced.unpack())
    }

    /// The plain object and the traced one; an error, as a sentence, if there are none.
    fn objects(&self) -> Result<(Packed, Packed), &'static str> {
        match self.ebpf {
            Ebpf::InKernel => Err("the kernel has it; there is nothing to load"),
            Ebpf::Objects { plain, traced } if plain.is_empty() || traced.is_empty() => Err(WITHOUT_EBPF),
            Ebpf::Objects { plain, traced } => Ok((plain, traced)),
        }
    }

    /// The algorithm's parameters, in the order of the C file.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        self.native.parameters().iter().map(|parameter| parameter.describe()).collect()
    }

    /// Values of all parameters, in the order of [`parameters`](Self::parameters): those of
    /// `settings` by name, the others their defaults.
    ///
    /// # Errors
    /// Unknown names and values out of range.
    pub fn values(&self, settings: &[(&str, i64)]) -> Result<Vec<i64>, ParameterError> {
        let parameters = self.parameters();
        let mut values: Vec<_> = parameters.iter().map(|parameter| parameter.initial).collect();
        for &(name, value) in settings {
            let Some(index) = parameters.iter().position(|parameter| parameter.name == name) else {
                let known = parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none".to_owned() } else { known };
                return Err(ParameterError::Unknown { algorithm: self.name, name: name.to_owned(), known });
            };
            let Parameter { name, lowest, highest, .. } = parameters[index];
            if !(lowest..=highest).contains(&value) {
                return Err(ParameterError::OutOfRange { algorithm: self.name, name, value, lowest, highest });
            }
            values[index] = value;
        }
        Ok(values)
    }
}

impl sys::Parameter {
    /// The parameter in Rust's types.
    fn describe(&self) -> Parameter {
        // SAFETY: string literals of the C files.
        let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_str().expect("the C files are ASCII");
        Parameter {
            name: text(self.name),
            help: text(self.help),
            initial: self.initial,
            lowest: self.lowest,
            highest: self.highest,
        }
    }
}
