//! Tables of a report: header, rows, caption.

use std::fmt::Write;

use serde::Serialize;

use crate::escape::escaped;

/// A table of the report: rows of text below a header. Columns that hold only numbers (with or
/// without units) stand to the right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Caption of the table; may be empty.
    pub caption: String,
    /// Names of the columns, with their units.
    pub header: Vec<String>,
    /// Cells; a row may be shorter than the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Appends the table to the page as HTML.
    pub(crate) fn draw(&self, page: &mut String) {
        let columns = self.rows.iter().map(Vec::len).fold(self.header.len(), usize::max);
        let numeric: Vec<bool> = (0..columns).map(|column| self.is_numeric(column)).collect();
        let row = |page: &mut String, element: &str, cells: &[String]| {
            page.push_str("<tr>");
            for (column, numeric) in numeric.iter().enumerate() {
                let class = if *numeric { " class=number" } else { "" };
                let text = cells.get(column).map_or("", String::as_str);
                let _ = write!(page, "<{element}{class}>{}</{element}>", escaped(text));
            }
            page.push_str("</tr>\n");
        };
        page.push_str("<figure class=table>");
        if !self.caption.is_empty() {
            let _ = write!(page, "<figcaption><b>{}</b></figcaption>", escaped(&self.caption));
        }
        page.push_str("<div class=wide><table>\n<thead>");
        row(page, "th", &self.header);
        page.push_str("</thead>\n<tbody>\n");
        for cells in &self.rows {
            row(page, "td", cells);
        }
        page.push_str("</tbody></table></div></figure>\n");
    }

    /// Whether a column has numbers and nothing else but empty cells and dashes.
    fn is_numeric(&self, column: usize) -> bool {
        let cells = || self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.trim());
        let absent = |cell: &str| matches!(cell, "" | "-" | "–" | "—");
        cells().any(is_number) && cells().all(|cell| is_number(cell) || absent(cell))
    }
}

/// Whether a cell begins with a digit, apart from signs before it.
fn is_number(cell: &str) -> bool {
    let bare = cell.trim_start_matches(|letter: char| "+-−–±<>≤≥≈~ ".contains(letter));
    bare.starts_with(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> Table {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        Table {
            caption: "Paper & ours".into(),
            header: row(&["case", "rate"]),
            rows: rows.iter().map(|cells| row(cells)).collect(),
        }
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let mut page = String::new();
        table(&[&["a", "12"], &["b", "≈ 930 Mbit/s"], &["c", "–"], &["d"]]).draw(&mut page);
        assert!(page.contains("<th>case</th><th class=number>rate</th>"), "{page}");
        assert!(page.contains("<td>d</td><td class=number></td>") && page.contains("Paper &amp; ours"), "{page}");
        let mut page = String::new();
        table(&[&["a", "12"], &["b", "none"]]).draw(&mut page);
        assert!(!page.contains("number"), "{page}");
    }
}
