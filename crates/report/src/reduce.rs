//! Makes series shorter without hiding what matters in them.

use icdc_units::Span;

use crate::Uniform;

/// Means of a series of `(time in seconds, mean value)` over windows of `window` seconds.
///
/// Each point gives the mean since the point before it (the first since time 0); so does each
/// result. The last window may be shorter; less than half a window is left out unless it is all
/// there is. Returns the points unchanged if `window` is not positive.
#[must_use]
pub fn window_means(points: &[(f64, f64)], window: f64) -> Vec<(f64, f64)> {
    let Some(&(end, _)) = points.last().filter(|_| window > 0.0) else {
        return points.to_vec();
    };
    let mut means = Vec::new();
    let (mut opened, mut integral, mut before) = (0.0, 0.0, 0.0);
    let mut number = 1.0;
    for &(at, value) in points.iter().filter(|(at, value)| at.is_finite() && value.is_finite()) {
        while number * window <= at {
            let border = number * window;
            integral += value * (border - before);
            means.push((border, integral / window));
            (opened, integral, before) = (border, 0.0, border);
            number += 1.0;
        }
        integral += value * (at - before);
        before = at;
    }
    // A mean over much less than a window would stand out for no reason.
    if end - opened >= window / 2.0 || (means.is_empty() && end > opened) {
        means.push((end, integral / (end - opened)));
    }
    means
}

/// Means over a `window` that slides by `slide`, both rounded to whole steps of `series`.
///
/// Each result stands for a step of length `slide` and is the mean over the `window` that ends with
/// it. Only whole windows count: a series that is shorter has no mean. The results are exact: sums
/// with the scale of a mean.
#[must_use]
pub fn sliding_means(series: &Uniform, window: Span, slide: Span) -> Uniform {
    let step = series.step().as_nanos();
    let steps = |span: Span| usize::try_from((span.as_nanos() + step / 2) / step).unwrap_or(usize::MAX).max(1);
    let window = steps(window);
    let slide = steps(slide).min(window);
    let whole = moving_sums(series.values(), window).skip(window - 1).step_by(slide);
    let sums = whole.map(|sum| sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64).collect();
    let start = series.start().as_nanos().saturating_add(series.nanos(window - slide));
    Uniform::new(Span::from_nanos(start), Span::from_nanos(series.nanos(slide)), sums)
        .scaled(series.scale() / window as f64)
}

/// Moving sums: at each value, the sum of the `window` values that end with it, with zeros before
/// the first one.
pub fn moving_sums<T: Copy + Into<i128>>(values: &[T], window: usize) -> impl Iterator<Item = i128> {
    let mut sum = 0;
    values.iter().enumerate().map(move |(index, &value)| {
        sum += value.into();
        if let Some(gone) = index.checked_sub(window) {
            sum -= values[gone].into();
        }
        sum
    })
}

/// Reduces a line, as (position, value), to at most `2 * columns` points with the same outline: the
/// least and the greatest of each column.
#[must_use]
pub fn envelope(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    if points.len() <= 2 * columns || columns == 0 {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(2 * columns);
    for column in 0..columns {
        let part = &points[column * points.len() / columns..(column + 1) * points.len() / columns];
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(&low), Some(&high)) = (part.iter().min_by(by_value), part.iter().max_by(by_value)) else {
            continue;
        };
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        kept.push(first);
        if second != first {
            kept.push(second);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn window_means_keep_the_integral() {
        let points: Vec<_> = (1..=35).map(|n| (f64::from(n) * 0.1, f64::from(n % 7))).collect();
        let means = window_means(&points, 1.0);
        assert_eq!(means.iter().map(|(at, _)| (at * 10.0).round()).collect::<Vec<_>>(), [10.0, 20.0, 30.0, 35.0]);
        let integral = |points: &[(f64, f64)]| {
            points.iter().fold((0.0, 0.0), |(sum, before), (at, value)| (sum + value * (at - before), *at)).0
        };
        assert!((integral(&points) - integral(&means)).abs() < 1e-9);
    }

    #[test]
    fn a_gap_is_spread_over_the_windows_that_it_spans() {
        assert_eq!(window_means(&[(2.5, 4.0)], 1.0), [(1.0, 4.0), (2.0, 4.0), (2.5, 4.0)]);
        assert_eq!(window_means(&[(1.0, 4.0), (1.4, 0.0)], 1.0), [(1.0, 4.0)]);
        assert_eq!(window_means(&[(0.25, 4.0)], 1.0), [(0.25, 4.0)]);
        assert_eq!(window_means(&[], 1.0), []);
    }

    proptest! {
        #[test]
        fn a_sliding_mean_is_the_mean_of_its_window(
            values in prop::collection::vec(-1000_i64..1_000_000, 0..300),
            window in 1_usize..50,
            slide in 1_usize..60,
        ) {
            let ms = |steps: usize| Span::from_millis(steps as u64);
            let series = Uniform::new(ms(7), ms(1), values.clone()).scaled(8000.0);
            let means = sliding_means(&series, ms(window), ms(slide));
            let slide = slide.min(window);
            let expected: Vec<f64> = values
                .windows(window)
                .step_by(slide)
                .map(|part| part.iter().sum::<i64>() as f64 * 8000.0 / window as f64)
                .collect();
            prop_assert_eq!(means.values().len(), expected.len());
            for (index, expected) in expected.iter().enumerate() {
                prop_assert!((means.value(index) - expected).abs() <= expected.abs() * 1e-9);
                let end = means.start().as_nanos() + means.nanos(index + 1);
                prop_assert_eq!(end, ms(7 + window + index * slide).as_nanos());
            }
        }
    }

    #[test]
    fn moving_sums_forget_what_is_past() {
        assert_eq!(moving_sums(&[1_u32, 2, 3, 4, 5], 3).collect::<Vec<_>>(), [1, 3, 6, 9, 12]);
        assert_eq!(moving_sums(&[u64::MAX; 3], 2).last(), Some(2 * i128::from(u64::MAX)));
        assert_eq!(moving_sums::<u32>(&[], 3).next(), None);
    }

    #[test]
    fn an_envelope_keeps_every_peak() {
        let mut points: Vec<_> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[31_337].1 = 9.0;
        points[77_777].1 = -9.0;
        let kept = envelope(&points, 500);
        assert!(kept.len() <= 1000);
        assert!(kept.contains(&(31_337.0, 9.0)) && kept.contains(&(77_777.0, -9.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    }
}
