//! Integers at equal steps of time: ten minutes at 1 ms are 600,000 of them.

use icdc_units::Span;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::packed;

/// A series of integers, one for each of the steps of time that follow one another from `start`.
///
/// Serialized for the page as `start_seconds`, `step_seconds`, `scale`, `count` and `packed`
/// (see [`crate::packed`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Uniform {
    start: Span,
    step: Span,
    scale: f64,
    values: Vec<i64>,
}

impl Uniform {
    /// Series of values in the plot's unit. Value `k` stands for the `step` that begins at
    /// `start + k * step` after the start of the run. A step of zero becomes a nanosecond.
    #[must_use]
    pub fn new(start: Span, step: Span, values: Vec<i64>) -> Self {
        Self { start, step: step.max(Span::from_nanos(1)), scale: 1.0, values }
    }

    /// Series of the bytes that passed in each step, to be shown as rates in bit/s.
    #[must_use]
    pub fn rates(start: Span, step: Span, bytes: Vec<i64>) -> Self {
        let series = Self::new(start, step, bytes);
        let steps_per_second = 1e9 / series.step.as_nanos() as f64;
        series.scaled(8.0 * steps_per_second)
    }

    /// This series with another scale: each of its integers is `scale` of the plot's unit. A scale
    /// that is not finite counts as 0.
    #[must_use]
    pub fn scaled(self, scale: f64) -> Self {
        Self { scale: if scale.is_finite() { scale } else { 0.0 }, ..self }
    }

    /// Beginning of the first step, since the start of the run.
    #[must_use]
    pub fn start(&self) -> Span {
        self.start
    }

    /// Length of each step; never zero.
    #[must_use]
    pub fn step(&self) -> Span {
        self.step
    }

    /// Worth of the integer 1 in the plot's unit.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The values as integers, to be multiplied by the scale.
    #[must_use]
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// End of the last step, since the start of the run.
    #[must_use]
    pub fn end(&self) -> Span {
        Span::from_nanos(self.start.as_nanos().saturating_add(self.nanos(self.values.len())))
    }

    /// The value of this index in the plot's unit, as an exact decimal number where the scale
    /// allows that.
    pub(crate) fn value(&self, index: usize) -> f64 {
        // Division by a whole number is exact where multiplication by its reciprocal is not.
        let inverse = 1.0 / self.scale;
        match self.values[index] as f64 {
            value
                if self.scale < 1.0 && inverse.round() != 0.0 && (inverse - inverse.round()).abs() < 1e-6 * inverse =>
            {
                value / inverse.round()
            }
            value => value * self.scale,
        }
    }

    /// Length of this number of steps, in nanoseconds.
    pub(crate) fn nanos(&self, steps: usize) -> u64 {
        self.step.as_nanos().saturating_mul(steps as u64)
    }
}

impl Serialize for Uniform {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Uniform", 5)?;
        fields.serialize_field("start_seconds", &self.start.as_secs_f64())?;
        fields.serialize_field("step_seconds", &self.step.as_secs_f64())?;
        fields.serialize_field("scale", &self.scale)?;
        fields.serialize_field("count", &self.values.len())?;
        fields.serialize_field("packed", &packed::encode(&self.values))?;
        fields.end()
    }
}
