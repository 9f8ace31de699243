//! Files of known paths and of known routes, as both are shown: as a table, or as an error where one is broken.

use std::path::Path;

/// Context of an error for a file of what is known that cannot be read.
pub(super) fn unreadable(file: &Path) -> String {
    format!("{} cannot be read (`icdc doctor --paths --clear` makes a broken one anew)", file.display())
}

/// Lines of a table, with columns as wide as what stands in them.
pub(super) fn table<const COLUMNS: usize>(headings: &[&str; COLUMNS], rows: &[[String; COLUMNS]]) -> Vec<String> {
    let headings = headings.map(str::to_owned);
    let all: Vec<&[String; COLUMNS]> = [&headings].into_iter().chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("  {cell:<width$}"));
        cells.collect::<String>().trim_end().to_owned()
    };
    all.iter().map(|row| line(row)).collect()
}
