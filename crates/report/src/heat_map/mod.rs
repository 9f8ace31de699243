//! Heat maps: a value for each pair of two categories, as a coloured cell with the value in it.
//!
//! Each is drawn at its natural size, several beside each other where there is room; one that is
//! wider than the page scrolls. `colour` says what a place on the scale looks like.

mod colour;

use std::fmt::Write;

use serde::Serialize;

use crate::Unit;
use crate::escape::escaped;
use colour::Colour;

/// A heat map of the report: a value for each pair of a row and a column, drawn as a coloured cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeatMap {
    /// Title of the map: what it shows.
    pub title: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Categories of the rows, from top to bottom.
    pub rows: Categories,
    /// Categories of the columns, from left to right.
    pub columns: Categories,
    /// Row by row; `None`, what is not finite, and what is missing at a row's end: no value.
    pub values: Vec<Vec<Option<f64>>>,
    /// Scale by which values become colours.
    pub scale: ColourScale,
    /// Values of the darkest and of the lightest colour, so that maps compare; what lies beyond has
    /// the colour of the end. `None`: the least and the greatest value of this map.
    pub range: Option<(f64, f64)>,
}

/// Labels of the rows or columns of a heat map, and the name of the quantity in which they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Categories {
    /// Name of the quantity in which the categories differ.
    pub name: String,
    /// Labels of the categories, one each.
    pub labels: Vec<String>,
}

/// Scale by which values become colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColourScale {
    /// Linear scale: equal differences look equal.
    #[default]
    Linear,
    /// Equal ratios look equal; what is not above zero has the darkest colour.
    Logarithmic,
}

impl Categories {
    /// Categories that differ in the quantity `name`, with their labels.
    pub fn new<Label: Into<String>>(name: &str, labels: impl IntoIterator<Item = Label>) -> Self {
        Self { name: name.into(), labels: labels.into_iter().map(Into::into).collect() }
    }
}

impl HeatMap {
    /// A map on a linear scale between its least and its greatest value.
    #[must_use]
    pub fn new(title: &str, unit: Unit, rows: Categories, columns: Categories, values: Vec<Vec<Option<f64>>>) -> Self {
        Self { title: title.into(), unit, rows, columns, values, scale: ColourScale::Linear, range: None }
    }

    /// This map with the darkest and the lightest colour at these two values.
    #[must_use]
    pub fn between(self, darkest: f64, lightest: f64) -> Self {
        Self { range: Some((darkest, lightest)), ..self }
    }

    /// This map on a logarithmic scale.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self { scale: ColourScale::Logarithmic, ..self }
    }

    /// The value of a cell; `None` if it is missing or not finite.
    pub(crate) fn value(&self, row: usize, column: usize) -> Option<f64> {
        self.values.get(row)?.get(column).copied().flatten().filter(|value| value.is_finite())
    }

    /// Values that get the darkest and the lightest colour; `None` if no value can be shown on the
    /// scale.
    fn ends(&self) -> Option<(f64, f64)> {
        let has_place = |value: &f64| value.is_finite() && (self.scale == ColourScale::Linear || *value > 0.0);
        if let Some((low, high)) = self.range.filter(|(low, high)| has_place(low) && has_place(high) && low < high) {
            return Some((low, high));
        }
        let values = self.values.iter().flatten().flatten().copied().filter(has_place);
        values.map(|value| (value, value)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Position of a value between the scale's ends, from 0 to 1.
    fn share(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        let share = match self.scale {
            ColourScale::Linear => (value - low) / (high - low),
            ColourScale::Logarithmic if value <= 0.0 => 0.0,
            ColourScale::Logarithmic => (value / low).ln() / (high / low).ln(),
        };
        // All values are equal: there is no little and no much.
        if share.is_nan() { 0.5 } else { share.clamp(0.0, 1.0) }
    }

    /// The value at the middle of the scale.
    fn middle(&self, (low, high): (f64, f64)) -> f64 {
        match self.scale {
            ColourScale::Linear => low.midpoint(high),
            ColourScale::Logarithmic => (low * high).sqrt(),
        }
    }
}

/// Appends the drawings of all heat maps of a report to the page.
pub(crate) fn draw_all(page: &mut String, maps: &[HeatMap]) {
    if maps.is_empty() {
        return;
    }
    page.push_str("<div class=maps>\n");
    for map in maps {
        draw(page, map);
    }
    page.push_str("</div>\n");
}

/// Estimated width of a letter, in user units, which are pixels unless the page is narrower.
const LETTER: f64 = 6.8;
/// Height of a row, in user units.
const ROW: f64 = 30.0;
/// Least width of a column, in user units.
const LEAST_COLUMN: f64 = 46.0;
/// Height of the columns' name and labels above the cells, in user units.
const HEAD: f64 = 42.0;
/// Height of the drawn scale and its labels, in pixels.
const FOOT: f64 = 40.0;
/// Number of steps of the drawn scale.
const STEPS: usize = 32;
/// Padding and border of a figure, both sides, as in the style sheet.
const FRAME: f64 = 30.0;
/// Least share of its natural width to which a map is shrunk on a narrow page; below that it
/// scrolls.
const LEAST_SHARE: f64 = 0.8;

/// Appends the drawing of one heat map to the page.
fn draw(page: &mut String, map: &HeatMap) {
    let columns = map.columns.labels.len();
    let width_of = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0) as f64 * LETTER + 10.0;
    let length = |text: &String| text.chars().count();
    let left = width_of(&mut map.rows.labels.iter().chain([&map.rows.name]).map(length));
    let cells = map.values.iter().flatten().flatten().map(|value| short(*value, map.unit).chars().count());
    let column = width_of(&mut map.columns.labels.iter().map(length).chain(cells)).max(LEAST_COLUMN);
    let width = left + column * columns as f64 + 1.0;
    let foot = HEAD + ROW * map.rows.labels.len() as f64;
    let (title, ends) = (escaped(&map.title), map.ends());

    let _ = write!(
        page,
        "<figure class=map style=\"width:{:.0}px\"><figcaption><b>{title}</b> <i>{}</i></figcaption>\
         <svg viewBox=\"0 0 {width:.1} {:.1}\" style=\"min-width:{:.0}px\" role=img aria-label=\"{title}\">\
         <text class=axis x={:.1} y=14>{}</text><text x=0 y=34>{}</text>",
        width + FRAME,
        map.unit.symbol(),
        foot + FOOT,
        width * LEAST_SHARE,
        left + column * columns as f64 / 2.0,
        escaped(&map.columns.name),
        escaped(&map.rows.name),
    );
    for (index, label) in map.columns.labels.iter().enumerate() {
        let x = left + (index as f64 + 0.5) * column;
        let _ = write!(page, "<text class=axis x={x:.1} y=34>{}</text>", escaped(label));
    }
    for (row, label) in map.rows.labels.iter().enumerate() {
        let y = HEAD + row as f64 * ROW;
        let _ = write!(page, "<text x=0 y={:.1}>{}</text>", y + ROW / 2.0 + 4.0, escaped(label));
        for index in 0..columns {
            cell(page, map, ends, (row, index), (left + index as f64 * column, y, column));
        }
    }
    if let Some(ends) = ends {
        legend(page, map, ends, (left, foot + 10.0, column * columns as f64));
    }
    page.push_str("</svg></figure>\n");
}

/// Appends one cell of a map, with a text that shows when it is pointed at.
fn cell(
    page: &mut String,
    map: &HeatMap,
    ends: Option<(f64, f64)>,
    (row, column): (usize, usize),
    (x, y, width): (f64, f64, f64),
) {
    let place = format!("x={x:.1} y={y:.1} width={:.1} height={:.1}", width - 2.0, ROW - 2.0);
    let (x, y) = (x + width / 2.0 - 1.0, y + ROW / 2.0 + 3.5);
    let Some(value) = map.value(row, column) else {
        let _ = write!(page, "<rect class=absent {place} /><text class=axis x={x:.1} y={y:.1}>–</text>");
        return;
    };
    let colour = Colour::of(ends.map_or(0.0, |ends| map.share(value, ends)));
    let words = if colour.is_dark() { "on-dark" } else { "on-light" };
    let (row, column) = (&map.rows.labels[row], &map.columns.labels[column]);
    let _ = write!(
        page,
        "<g><title>{} {}, {} {}: {}{}</title><rect {place} fill={} />\
         <text class={words} x={x:.1} y={y:.1}>{}</text></g>",
        escaped(&map.rows.name),
        escaped(row),
        escaped(&map.columns.name),
        escaped(column),
        short(value, map.unit),
        map.unit.symbol(),
        colour.hex(),
        short(value, map.unit),
    );
}

/// Appends the drawn scale from its darkest to its lightest colour, with the values at its ends and
/// its middle.
fn legend(page: &mut String, map: &HeatMap, ends: (f64, f64), (left, top, width): (f64, f64, f64)) {
    let step = (width - 2.0) / STEPS as f64;
    for index in 0..STEPS {
        let colour = Colour::of((index as f64 + 0.5) / STEPS as f64);
        // A little wider than a step, so that no gap shows between them.
        let (x, width) = (left + index as f64 * step, step + 0.5);
        let _ = write!(page, "<rect x={x:.1} y={top:.1} width={width:.1} height=8 fill={} />", colour.hex());
    }
    for (share, anchor, value) in [(0.0, "start", ends.0), (0.5, "middle", map.middle(ends)), (1.0, "end", ends.1)] {
        let (x, y) = (left + share * (width - 2.0), top + 22.0);
        let _ = write!(page, "<text text-anchor={anchor} x={x:.1} y={y:.1}>{}</text>", short(value, map.unit));
    }
}

/// Text of a value for a cell: two digits or all before the point, and a prefix.
fn short(value: f64, unit: Unit) -> String {
    let (factor, prefix) = unit.short_prefix(value.abs());
    let scaled = value / factor;
    let size = scaled.abs();
    let number = match size {
        _ if size >= 9.95 || size == 0.0 => format!("{scaled:.0}"),
        _ if size >= 0.995 => format!("{scaled:.1}"),
        _ if size >= 0.000_995 => format!("{scaled:.*}", (1.0 - size.log10()).floor() as usize + 1),
        _ => format!("{scaled:.1e}"),
    };
    if prefix.is_empty() { number } else { format!("{number} {prefix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: Vec<Vec<Option<f64>>>) -> HeatMap {
        let rows = Categories::new("round trip", ["10ms", "<b>"]);
        HeatMap::new("Goodput & \"loss\"", Unit::BitsPerSecond, rows, Categories::new("loss", ["0", "1e-6"]), values)
    }

    fn drawn(map: &HeatMap) -> String {
        let mut page = String::new();
        draw_all(&mut page, std::slice::from_ref(map));
        page
    }

    #[test]
    fn cells_tell_their_values_and_where_there_is_none() {
        let svg = drawn(&map(vec![vec![Some(940e6), Some(f64::NAN)], vec![Some(1.5e3)]]));
        assert!(svg.contains(">940 M</text>") && svg.contains(">1.5 k</text>"), "{svg}");
        assert_eq!(svg.matches("class=absent").count(), 2, "{svg}");
        assert!(svg.contains("<title>round trip 10ms, loss 0: 940 Mbit/s</title>"), "{svg}");
        assert!(svg.contains("Goodput &amp; &quot;loss&quot;") && !svg.contains("<b></"), "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_map_of_nothing_is_drawn_without_a_scale() {
        let svg = drawn(&map(vec![]));
        assert_eq!((svg.matches("class=absent").count(), svg.matches("fill=").count()), (4, 0), "{svg}");
        assert_eq!(map(vec![vec![Some(0.0)]]).logarithmic().ends(), None);
    }

    #[test]
    fn scales_place_values_by_difference_or_by_ratio() {
        let linear = map(vec![vec![Some(1.0), Some(5.0)], vec![Some(9.0), None]]);
        let ends = linear.ends().unwrap();
        assert_eq!([1.0, 5.0, 9.0].map(|value| linear.share(value, ends)), [0.0, 0.5, 1.0]);
        assert_eq!(linear.middle(ends), 5.0);
        let ratios = linear.logarithmic();
        assert_eq!([1.0, 3.0, 9.0, 0.0].map(|value| ratios.share(value, ends)), [0.0, 0.5, 1.0, 0.0]);
        assert_eq!(ratios.middle(ends), 3.0);
        let fixed = ratios.between(3.0, 300.0);
        assert_eq!((fixed.ends(), fixed.share(1.0, (3.0, 300.0))), (Some((3.0, 300.0)), 0.0));
        let equal = map(vec![vec![Some(2.0), Some(2.0)]]);
        assert_eq!(equal.share(2.0, equal.ends().unwrap()), 0.5);
    }

    #[test]
    fn values_are_short() {
        let rate = |value| short(value, Unit::BitsPerSecond);
        assert_eq!([rate(9.4e9), rate(999.7e6), rate(94.2e6), rate(0.0)], ["9.4 G", "1.0 G", "94 M", "0"]);
        let share = |value| short(value, Unit::Share);
        assert_eq!([share(0.9449), share(0.0996), share(0.000_53), share(1.0)], ["94", "10", "0.053", "100"]);
        assert_eq!([short(0.3, Unit::Seconds), short(12_300.0, Unit::Bytes)], ["300 m", "12 k"]);
        assert_eq!([short(-2.0, Unit::Number), short(1.23e-5, Unit::Number)], ["-2.0", "1.2e-5"]);
    }
}
