//! Quantities that cannot be mixed up: [`Rate`], [`ByteCount`], [`Span`] and [`Time`]; and
//! [`Ratio`], an exact factor of any of them.
//!
//! Every quantity of a public interface of icdc has one of these types. Whether bits or bytes, SI
//! or binary prefixes are meant is decided in two places only: [`parse`](std::str::FromStr) and
//! [`Display`](std::fmt::Display). Inside, a quantity is one `u64` in the finest unit (bit/s, byte,
//! nanosecond); products and quotients are formed in 128 bits and saturate at the ends of the
//! range, so that no input from outside can make them overflow or panic. This crate has no
//! neighbours below.
//!
//! | operation | result | rounding |
//! |---|---|---|
//! | `Rate * Span` | `ByteCount` | down: never more than the rate allows |
//! | `ByteCount / Span` | `Rate` | down |
//! | `ByteCount / Rate` | `Span` | up: never sooner than the rate allows |
//! | `Time - Time` | `Span` | exact, zero if the second is later |
//! | `Time + Span`, `Time - Span` | `Time` | exact |
//! | `Rate`, `ByteCount`, `Span` or `u64` `* Ratio` | the same quantity | down |
//!
//! Division by zero gives the greatest value (`0 / 0` is zero). `{}` prints four significant digits
//! for people, `{:#}` prints exactly; both can be parsed again. Digests and numbers of transfers
//! are printed by [`hexadecimal`].
//!
//! ```
//! use icdc_units::{ByteCount, Rate, Span};
//!
//! let bottleneck: Rate = "10gbit".parse()?;
//! let round_trip: Span = "300ms".parse()?;
//! let in_flight = bottleneck * round_trip;
//! assert_eq!(in_flight, ByteCount::new(375_000_000));
//! assert_eq!(in_flight.to_string(), "375MB");
//! assert_eq!(in_flight / bottleneck, round_trip);
//! # Ok::<(), icdc_units::ParseQuantityError>(())
//! ```

#![forbid(unsafe_code)]

mod arithmetic;
mod byte_count;
mod hexadecimal;
mod notation;
mod prefix;
mod rate;
mod ratio;
mod time;

pub use byte_count::{ByteCount, Counted};
pub use hexadecimal::{hexadecimal, of_hexadecimal};
pub use notation::ParseQuantityError;
pub use prefix::{ParsePrefixError, Prefix};
pub use rate::Rate;
pub use ratio::Ratio;
pub use time::{Span, Time};
