//! Median and range of several values.

/// Median, least and greatest of some values; not a number if there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Spread {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (Some(&least), Some(&greatest)) = (values.first(), values.last()) else {
            return Self { median: f64::NAN, least: f64::NAN, greatest: f64::NAN };
        };
        let median = values[values.len() / 2].midpoint(values[(values.len() - 1) / 2]);
        Self { median, least, greatest }
    }

    /// Text in Mbit/s, with the range where there is one.
    pub(crate) fn megabits(&self) -> String {
        self.in_units_of(1e6)
    }

    /// Text in per cent, with the range where there is one.
    pub(crate) fn percent(&self) -> String {
        self.in_units_of(0.01)
    }

    /// Text with one decimal place; infinite values read `otherwise`.
    pub(crate) fn tenths(&self, otherwise: &str) -> String {
        self.shown(|value| if value.is_finite() { format!("{value:.1}") } else { otherwise.to_owned() })
    }

    /// The spread as text with two decimal places.
    pub(crate) fn hundredths(&self) -> String {
        self.shown(|value| format!("{value:.2}"))
    }

    /// The spread as text with three decimal places.
    pub(crate) fn thousandths(&self) -> String {
        self.shown(|value| format!("{value:.3}"))
    }

    /// The spread as text with whole numbers.
    pub(crate) fn whole(&self) -> String {
        self.in_units_of(1.0)
    }

    /// Text with whole multiples of `unit`, with the range where there is one.
    fn in_units_of(&self, unit: f64) -> String {
        self.shown(|value| format!("{:.0}", value / unit))
    }

    /// Text with the median, and the range where least and greatest differ as `rounded`.
    fn shown(&self, rounded: impl Fn(f64) -> String) -> String {
        let (median, least, greatest) = (rounded(self.median), rounded(self.least), rounded(self.greatest));
        if least == greatest { median } else { format!("{median} ({least} to {greatest})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0].into_iter());
        assert_eq!(spread, Spread { median: 2.5, least: 1.0, greatest: 4.0 });
        assert_eq!(Spread::of([2e6, 2e6].into_iter()).megabits(), "2");
        assert_eq!(Spread::of([1e6, 3e6].into_iter()).megabits(), "2 (1 to 3)");
        assert_eq!(Spread::of([0.25, 0.25, 0.5].into_iter()).percent(), "25 (25 to 50)");
        assert_eq!(Spread::of([2.0, 3.5, f64::INFINITY].into_iter()).tenths("never"), "3.5 (2.0 to never)");
    }
}
