//! The algorithms by name, with their parameters.

use std::ffi::CStr;

use thiserror::Error;

use crate::native::sys;

/// One algorithm.
pub struct Algorithm {
    /// The name that users give, such as `highspeed`.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    pub(crate) native: &'static sys::Algorithm,
}

/// A value of an algorithm that can be set before it is loaded or simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// As in the C file.
    pub name: &'static str,
    /// What it is, with its unit.
    pub help: &'static str,
    /// Value when nothing is said.
    pub initial: i64,
    /// Lowest value allowed.
    pub lowest: i64,
    /// Highest value allowed.
    pub highest: i64,
}

/// Why a parameter cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParameterError {
    /// The algorithm does not have it.
    #[error("{algorithm} has no parameter {name}; it has: {known}")]
    Unknown {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Outside of what the algorithm can do with.
    #[error("{name} = {value} is out of range: {algorithm} takes {lowest} to {highest}")]
    OutOfRange {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Name of the parameter.
        name: &'static str,
        /// What was asked for.
        value: i64,
        /// Lowest value allowed.
        lowest: i64,
        /// Highest value allowed.
        highest: i64,
    },
}

/// Every algorithm, in the order of lists.
#[must_use]
pub fn all() -> &'static [Algorithm] {
    &ALL
}

/// The algorithm of this name, also with the kernel's prefix `icdc_`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Algorithm> {
    let name = name.strip_prefix("icdc_").unwrap_or(name);
    ALL.iter().find(|algorithm| algorithm.name == name)
}

// SAFETY: constants of the C files, never written.
static ALL: [Algorithm; 1] =
    [Algorithm { name: "reno", summary: "the kernel's Reno (RFC 5681)", native: unsafe { &sys::icdc_algorithm_reno } }];

impl Algorithm {
    /// Its parameters, in the order of the C file.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        self.native.parameters().iter().map(sys::Parameter::describe).collect()
    }

    /// The value of every parameter when these are set.
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
