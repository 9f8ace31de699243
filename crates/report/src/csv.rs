//! The numbers as CSV files; [`crate::Report::to_csv`] says which.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use icdc_units::Span;

use crate::{Axis, HeatMap, Plot, Report, Series, Stroke, Table, Uniform, Unit, Values};

/// Maximum length, in characters, of the name of a file or column, without its unit and number.
const LONGEST: usize = 40;

/// Makes all CSV files of a report: (file name, text) for each.
pub(crate) fn files(report: &Report) -> Vec<(String, String)> {
    let mut files = Files::default();
    let over_time = || report.plots.iter().filter(|plot| plot.axis == Axis::Time);
    let mut uniform: BTreeMap<(Span, u64), Vec<(String, &Uniform)>> = BTreeMap::new();
    let mut points: Vec<Sheet> = Vec::new();
    for (plot, series) in over_time().flat_map(|plot| plot.series.iter().map(move |series| (plot, series))) {
        let name = column(plot, series);
        match &series.values {
            Values::Uniform(series) if series.values().is_empty() => {}
            Values::Uniform(series) => {
                let phase = series.start().as_nanos() % series.step().as_nanos();
                uniform.entry((series.step(), phase)).or_default().push((name, series));
            }
            Values::Points(series) => {
                let at: Vec<f64> = series.iter().map(|(at, _)| *at).collect();
                let values = series.iter().map(|(_, value)| Some(*value)).collect();
                match points.iter_mut().find(|sheet| sheet.places == at) {
                    Some(sheet) => sheet.columns.push((name, values)),
                    None => {
                        points.push(Sheet { first: "time_seconds".into(), places: at, columns: vec![(name, values)] })
                    }
                }
            }
        }
    }
    for ((step, _), series) in uniform {
        let name = format!("series_{}", slug(&format!("{step:#}").replace('.', "_")));
        files.add(&name, steps(step, series));
    }
    for sheet in points {
        files.add("points", sheet.text());
    }
    for plot in &report.plots {
        if let Axis::Value { name, unit } = &plot.axis {
            files.add(&slug(&plot.title), other_axis(plot, name, *unit).text());
        }
    }
    for table in &report.tables {
        let name = if table.caption.is_empty() { "table".into() } else { slug(&table.caption) };
        files.add(&name, rows(table));
    }
    for map in &report.heat_maps {
        files.add(&slug(&map.title), cells(map));
    }
    files.made
}

/// CSV files that have been made, with names of which no two are the same.
#[derive(Default)]
struct Files {
    made: Vec<(String, String)>,
    names: Names,
}

impl Files {
    /// Adds a file, named `name` or numbered if that is taken, and `.csv`.
    fn add(&mut self, name: &str, text: String) {
        self.made.push((format!("{}.csv", self.names.unique(name)), text));
    }
}

/// Names that are in use among files, or among the columns of one file.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    /// Returns the name itself, or with the first free number from 2 behind it if it is taken, and
    /// marks the result as taken.
    fn unique(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.unwrap_or_default();
        self.0.insert(free.clone());
        free
    }
}

/// Name of the column of `series`, with its unit.
fn column(plot: &Plot, series: &Series) -> String {
    let name = match series.column.as_str() {
        "" if plot.series.len() == 1 => plot.title.clone(),
        // Where a plot has a file of its own, that says what plot it is.
        "" if plot.axis != Axis::Time => series.name.clone(),
        "" => format!("{} {}", plot.title, series.name),
        column => column.to_owned(),
    };
    let suffix = if series.stroke == Stroke::Marks { "count" } else { plot.unit.suffix() };
    let name = if plot.group.is_empty() { slug(&name) } else { slug(&format!("{} {name}", plot.group)) };
    with_suffix(&name, suffix)
}

/// The name with the suffix of its unit behind an underscore; the name alone if that is empty.
fn with_suffix(name: &str, suffix: &str) -> String {
    if suffix.is_empty() { name.to_owned() } else { format!("{name}_{suffix}") }
}

/// Name of a file or column made from any text: small letters, digits and underscores; of a long
/// text the words of its beginning.
fn slug(name: &str) -> String {
    let letters =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { ' ' });
    let words: Vec<String> = letters.collect::<String>().split_whitespace().map(str::to_owned).collect();
    let mut name = String::new();
    for word in words {
        let room = LONGEST.saturating_sub(name.len() + usize::from(!name.is_empty()));
        if word.len() > room && !name.is_empty() {
            break;
        }
        let separator = if name.is_empty() { "" } else { "_" };
        // Letters are ASCII here.
        name = format!("{name}{separator}{}", &word[..word.len().min(room)]);
    }
    if name.is_empty() { "unnamed".into() } else { name }
}

/// CSV text of uniform series of the same step and phase: one row per step from the earliest to the
/// latest, one column per series.
fn steps(step: Span, series: Vec<(String, &Uniform)>) -> String {
    let start = series.iter().map(|(_, series)| series.start()).min().unwrap_or_default();
    let end = series.iter().map(|(_, series)| series.end()).max().unwrap_or_default();
    let rows = (end - start).as_nanos() / step.as_nanos();
    let offset = |series: &Uniform| ((series.start() - start).as_nanos() / step.as_nanos()) as usize;
    let whole = |span: Span| span.as_nanos().is_multiple_of(1_000_000);
    let milliseconds = whole(start) && whole(step);

    let mut text = String::from(if milliseconds { "time_ms" } else { "time_seconds" });
    let mut names = Names::default();
    for (name, _) in &series {
        let _ = write!(text, ",{}", names.unique(name));
    }
    text.push('\n');
    for row in 0..rows as usize {
        let at = start.as_nanos() + step.as_nanos() * row as u64;
        let _ = match milliseconds {
            true => write!(text, "{}", at / 1_000_000),
            false => write!(text, "{}.{:09}", at / 1_000_000_000, at % 1_000_000_000),
        };
        for (_, series) in &series {
            let index = row.checked_sub(offset(series)).filter(|index| *index < series.values().len());
            text.push(',');
            put_number(&mut text, index.map(|index| series.value(index)));
        }
        text.push('\n');
    }
    text
}

/// Contents of a CSV file of point series: columns of values over positions on an axis, which need
/// not be equally spaced.
struct Sheet {
    first: String,
    places: Vec<f64>,
    columns: Vec<(String, Vec<Option<f64>>)>,
}

impl Sheet {
    /// CSV text of the sheet; rows whose position is not finite are left out.
    fn text(self) -> String {
        let mut names = Names::default();
        let mut text = names.unique(&self.first);
        for (name, _) in &self.columns {
            let _ = write!(text, ",{}", names.unique(name));
        }
        text.push('\n');
        for (row, place) in self.places.iter().enumerate().filter(|(_, place)| place.is_finite()) {
            put_number(&mut text, Some(*place));
            for (_, values) in &self.columns {
                text.push(',');
                put_number(&mut text, values[row]);
            }
            text.push('\n');
        }
        text
    }
}

/// The sheet of a plot whose axis is not time: all series of points, with a row for every position
/// at which any of them has a value.
fn other_axis(plot: &Plot, name: &str, unit: Unit) -> Sheet {
    let points = |series: &Series| match &series.values {
        Values::Points(points) => points.clone(),
        Values::Uniform(_) => Vec::new(),
    };
    let mut places: Vec<f64> = plot.series.iter().flat_map(points).map(|(at, _)| at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let columns = plot.series.iter().map(|series| {
        let points = points(series);
        let value = |place: &f64| points.iter().find(|(at, _)| at == place).map(|(_, value)| *value);
        (column(plot, series), places.iter().map(value).collect())
    });
    let columns = columns.collect();
    Sheet { first: with_suffix(&slug(name), unit.suffix()), places, columns }
}

/// Appends the shortest number that reads back as the same; nothing if there is none, or it is not
/// finite.
fn put_number(text: &mut String, value: Option<f64>) {
    if let Some(value) = value.filter(|value| value.is_finite()) {
        let _ = write!(text, "{value}");
    }
}

/// CSV text of a table.
fn rows(table: &Table) -> String {
    let columns = table.rows.iter().map(Vec::len).fold(table.header.len(), usize::max);
    let mut text = String::new();
    for row in std::iter::once(&table.header).chain(&table.rows) {
        let cells = (0..columns).map(|column| quoted(row.get(column).map_or("", String::as_str)));
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

/// CSV text of a heat map: a line per cell.
fn cells(map: &HeatMap) -> String {
    let mut names = Names::default();
    let value = with_suffix("value", map.unit.suffix());
    let header = [slug(&map.rows.name), slug(&map.columns.name), value].map(|name| names.unique(&name));
    let mut text = header.join(",") + "\n";
    for (row, row_label) in map.rows.labels.iter().enumerate() {
        for (column, column_label) in map.columns.labels.iter().enumerate() {
            let _ = write!(text, "{},{},", quoted(row_label), quoted(column_label));
            put_number(&mut text, map.value(row, column));
            text.push('\n');
        }
    }
    text
}

/// A cell in the form of RFC 4180, in quotes if it needs them.
fn quoted(cell: &str) -> String {
    let plain = !cell.contains([',', '"', '\n', '\r']) && cell.trim() == cell;
    if plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Categories, views};

    fn ms(count: u64) -> Span {
        Span::from_millis(count)
    }

    #[test]
    fn each_step_has_its_file_and_each_column_its_unit() {
        let bytes = Uniform::rates(Span::ZERO, ms(1), vec![125_000; 1010]);
        let queue = Uniform::new(ms(2), ms(1), vec![3000, 0]);
        let drops = Uniform::new(Span::ZERO, ms(1), vec![0, 4]);
        let rtt = Uniform::new(Span::ZERO, Span::from_micros(250), vec![300_100_000, 300_200_001]).scaled(1e-9);
        let plots = vec![
            views::throughput(bytes, None, vec![views::marks("drops", drops)]),
            views::queue(queue, None),
            views::round_trip_time(rtt),
            views::congestion_window(vec![(0.5, 15000.0), (1.5, f64::NAN)]),
            views::pacing_rate(vec![(0.5, 1e9), (1.5, 2e9)]),
        ];
        let files = Report { plots, ..Report::default() }.to_csv();
        let file = |name: &str| files.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text.as_str());
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["series_250us.csv", "series_1ms.csv", "series_10ms.csv", "points.csv"]);
        let lines: Vec<&str> = file("series_1ms.csv").lines().take(5).collect();
        assert_eq!(lines[0], "time_ms,throughput_bps,drops_count,queue_bytes");
        assert_eq!(lines[1..], ["0,1000000000,0,", "1,1000000000,4,", "2,1000000000,,3000", "3,1000000000,,0"]);
        assert_eq!(file("series_10ms.csv"), "time_ms,throughput_mean_1000ms_bps\n990,1000000000\n1000,1000000000\n");
        assert_eq!(file("series_250us.csv"), "time_seconds,rtt_seconds\n0.000000000,0.3001\n0.000250000,0.300200001\n");
        assert_eq!(
            file("points.csv"),
            "time_seconds,cwnd_bytes,pacing_rate_bps\n0.5,15000,1000000000\n1.5,,2000000000\n"
        );
    }

    #[test]
    fn other_axes_and_tables_have_files_of_their_own() {
        let line = |name: &str, points: Vec<(f64, f64)>| Series::new(name, Stroke::Line, points);
        let series = vec![line("CUBIC", vec![(1.0, 5.0), (2.0, 6.0)]), line("CUBIC", vec![(2.0, 7.0)])];
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let table = |caption: &str| Table {
            caption: caption.into(),
            header: row(&["a", "say \"b\""]),
            rows: vec![row(&["1,5"]), row(&["x\ny", " z"])],
        };
        let report = Report {
            plots: vec![Plot::new("Rate, by window", Unit::BitsPerSecond, series).over("Window / BDP", Unit::Number)],
            tables: vec![table(""), table("Rate by window"), table("…")],
            ..Report::default()
        };
        let files = report.to_csv();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["rate_by_window.csv", "table.csv", "rate_by_window_2.csv", "unnamed.csv"]);
        let header = "window_bdp,cubic_bps,cubic_bps_2";
        assert_eq!(files[0].1, format!("{header}\n1,5,\n2,6,7\n"));
        assert_eq!(files[1].1, "a,\"say \"\"b\"\"\"\n\"1,5\",\n\"x\ny\",\" z\"\n");
    }

    #[test]
    fn names_are_short_and_say_what_they_are_of() {
        let plot = |group: &str| {
            let long = "Least of all the means that were seen while somebody else was on the path as well";
            let line = Series::new("x", Stroke::Line, vec![(0.0, 1.0)]);
            let queue = line.clone().column("queue");
            Plot::new(long, Unit::Bytes, vec![queue, line]).of(group)
        };
        let report = Report { plots: vec![plot("a to b"), plot("b to a")], ..Report::default() };
        let files = report.to_csv();
        let header = files[0].1.lines().next().unwrap();
        let expected = "time_seconds,a_to_b_queue_bytes,a_to_b_least_of_all_the_means_that_were_bytes,\
            b_to_a_queue_bytes,b_to_a_least_of_all_the_means_that_were_bytes";
        assert_eq!(header, expected);
        assert!(header.split(',').all(|name| name.len() <= LONGEST + "_bytes".len()), "{header}");
    }

    #[test]
    fn heat_maps_have_a_line_per_cell() {
        let map = HeatMap::new(
            "Share, by loss",
            Unit::Share,
            Categories::new("RTT", ["10ms", "1,5s"]),
            Categories::new("rtt", ["0", "1e-6"]),
            vec![vec![Some(0.5), Some(f64::INFINITY)], vec![None, Some(1.0)]],
        );
        let files = Report { heat_maps: vec![map], ..Report::default() }.to_csv();
        let text = "rtt,rtt_2,value_share\n10ms,0,0.5\n10ms,1e-6,\n\"1,5s\",0,\n\"1,5s\",1e-6,1\n";
        assert_eq!(files, [("share_by_loss.csv".to_owned(), text.to_owned())]);
    }
}
