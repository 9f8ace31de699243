//! Notation of quantities: a decimal number and a unit.
//!
//! Numbers are read and rounded as decimal fractions in integers, so that `1.2GB/s` is exactly
//! 9.6 Gbit/s. Only digits and one point are accepted: no sign, exponent or group separators.

use std::fmt;

use thiserror::Error;

/// A text that is not a quantity; the message lists what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseQuantityError {
    /// The text does not begin with a number.
    #[error("\"{text}\" is not a {quantity}: write a number and a unit ({units}), for example {example}")]
    NotANumber {
        /// The text.
        text: String,
        /// Expected quantity.
        quantity: &'static str,
        /// Accepted units.
        units: &'static str,
        /// A text that would do.
        example: &'static str,
    },
    /// The number has no unit and the quantity needs one.
    #[error("\"{text}\" has no unit: append one of {units}, for example {example}")]
    MissingUnit {
        /// The text.
        text: String,
        /// Accepted units.
        units: &'static str,
        /// A text that would do.
        example: &'static str,
    },
    /// The unit is none of the accepted ones.
    #[error("\"{text}\" has the unknown unit \"{unit}\": a {quantity} is given in {units}, for example {example}")]
    UnknownUnit {
        /// The text.
        text: String,
        /// The part of the text that was taken for a unit.
        unit: String,
        /// Expected quantity.
        quantity: &'static str,
        /// Accepted units.
        units: &'static str,
        /// A text that would do.
        example: &'static str,
    },
    /// The quantity does not fit into 64 bits of its finest unit.
    #[error("\"{text}\" is too large for a {quantity}: units are {units}")]
    TooLarge {
        /// The text.
        text: String,
        /// Expected quantity.
        quantity: &'static str,
        /// Accepted units.
        units: &'static str,
    },
}

/// Words about a quantity for the messages about texts that cannot be parsed: its name, its units,
/// an example.
pub(crate) struct Notation {
    pub(crate) quantity: &'static str,
    pub(crate) units: &'static str,
    pub(crate) example: &'static str,
}

/// Number of digits behind the point that are read; the largest unit has 10^15 finest units, so
/// that others cannot matter.
const MAX_FRACTION_DIGITS: usize = 18;

impl Notation {
    /// Parses a number and a unit, and returns the quantity in its finest unit; `scale_of` returns
    /// the worth of a unit in finest units, `None` for an unknown one.
    pub(crate) fn parse(&self, text: &str, scale_of: impl Fn(&str) -> Option<u64>) -> Result<u64, ParseQuantityError> {
        let &Self { quantity, units, example } = self;
        let not_a_number = || ParseQuantityError::NotANumber { text: text.to_owned(), quantity, units, example };
        let too_large = || ParseQuantityError::TooLarge { text: text.to_owned(), quantity, units };

        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..end], trimmed[end..].trim_start());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(not_a_number());
        }
        let scale = scale_of(unit).ok_or_else(|| match unit {
            "" => ParseQuantityError::MissingUnit { text: text.to_owned(), units, example },
            _ => ParseQuantityError::UnknownUnit {
                text: text.to_owned(),
                unit: unit.to_owned(),
                quantity,
                units,
                example,
            },
        })?;

        let whole = digits(whole).and_then(|whole| whole.checked_mul(u128::from(scale))).ok_or_else(too_large)?;
        let fraction = &fraction[..fraction.len().min(MAX_FRACTION_DIGITS)];
        let tenths = 10_u128.pow(fraction.len() as u32);
        let part = digits(fraction).expect("18 digits times a 64-bit scale fit 128 bits") * u128::from(scale);
        let rounded = (part + tenths / 2) / tenths;
        whole.checked_add(rounded).and_then(|value| u64::try_from(value).ok()).ok_or_else(too_large)
    }
}

/// The number that decimal digits stand for (no digits: zero); `None` if it exceeds 128 bits.
fn digits(text: &str) -> Option<u128> {
    text.bytes().try_fold(0_u128, |value, digit| value.checked_mul(10)?.checked_add(u128::from(digit - b'0')))
}

/// A unit and its worth in the finest unit of its quantity.
pub(crate) struct Scale {
    name: &'static str,
    units: u64,
}

impl Scale {
    /// A unit of this name that is worth this many finest units.
    pub(crate) const fn new(name: &'static str, units: u64) -> Self {
        Self { name, units }
    }

    /// Worth of this unit in finest units.
    pub(crate) const fn units(&self) -> u64 {
        self.units
    }

    /// Worth in finest units of the unit called `name`, in any case of letters; `None` if `scales`
    /// has no such unit.
    pub(crate) fn find(scales: &[Self], name: &str) -> Option<u64> {
        scales.iter().find(|scale| scale.name.eq_ignore_ascii_case(name)).map(Self::units)
    }

    /// Prints `value` in one of `scales` (ascending): exactly if the formatter is alternate, else
    /// with four significant digits.
    pub(crate) fn write(value: u64, scales: &[Self], out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if out.alternate() { Self::exact(value, scales) } else { Self::rounded(value, scales) };
        out.pad(&text)
    }

    /// `value` in the largest of `scales` (ascending) of which it is a whole multiple.
    fn exact(value: u64, scales: &[Self]) -> String {
        let scale = scales.iter().rev().find(|scale| value != 0 && value.is_multiple_of(scale.units));
        let scale = scale.unwrap_or(&scales[0]);
        format!("{}{}", value / scale.units, scale.name)
    }

    /// Text of `value` in the largest of `scales` (ascending) that it reaches, with four
    /// significant digits.
    pub(crate) fn rounded(value: u64, scales: &[Self]) -> String {
        let fitting = scales.iter().rposition(|scale| scale.units <= value).unwrap_or(0);
        match scales.get(fitting + 1) {
            // 999.96 in this unit is 1 in the next.
            Some(next) if rounds_up_to(value, &scales[fitting], next) => format!("1{}", next.name),
            _ => format!("{}{}", four_digits(value, scales[fitting].units), scales[fitting].name),
        }
    }
}

/// Whether `value`, rounded to four significant digits in the unit `scale`, is 1 of the unit
/// `next`.
fn rounds_up_to(value: u64, scale: &Scale, next: &Scale) -> bool {
    four_digits(value, scale.units) == (next.units / scale.units).to_string()
}

/// `value / units` in decimal with four significant digits (all digits of the whole part), rounded
/// half up, without trailing zeros.
fn four_digits(value: u64, units: u64) -> String {
    let mut decimals = match value / units {
        0..10 => 3,
        10..100 => 2,
        100..1000 => 1,
        _ => 0,
    };
    // A unit of n finest units has no more decimals than n has zeros.
    while decimals > 0 && 10_u64.pow(decimals) > units {
        decimals -= 1;
    }
    let tenths = 10_u128.pow(decimals);
    let scaled = (u128::from(value) * tenths + u128::from(units) / 2) / u128::from(units);
    let (whole, part) = (scaled / tenths, scaled % tenths);
    if part == 0 {
        return whole.to_string();
    }
    let part = format!("{part:0width$}", width = decimals as usize);
    format!("{whole}.{}", part.trim_end_matches('0'))
}
