//! The table of a record, as CSV with a header.

use std::fs;
use std::path::Path;

/// Rows of cells; the first row is the header.
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut rows = parse(&text).into_iter();
        let header = rows.next().ok_or_else(|| format!("{} is empty", path.display()))?;
        Ok(Self { header, rows: rows.collect() })
    }

    /// Several tables of one header as one: `KEY:FILE+KEY:FILE`, where each key is a further cell of that file's rows.
    pub(crate) fn join(root: &Path, files: &str) -> Result<Self, String> {
        let mut all: Option<Self> = None;
        for part in files.split('+') {
            let (key, file) = part.split_once(':').map_or((None, part), |(key, file)| (Some(key), file));
            let mut table = Self::read(&root.join(file))?;
            table.rows.iter_mut().for_each(|row| row.extend(key.map(str::to_owned)));
            match &mut all {
                Some(all) if all.header == table.header => all.rows.append(&mut table.rows),
                Some(_) => return Err(format!("{file} has other columns than those before")),
                None => all = Some(table),
            }
        }
        all.ok_or_else(|| "no file".to_owned())
    }

    /// The cell in the only row that has all `keys` among its cells, in the only column whose name is `column` or begins
    /// with it.
    pub(crate) fn cell(&self, keys: &[&str], column: &str) -> Result<&str, String> {
        let column = self.column(column)?;
        let mut rows = self.rows.iter().filter(|row| keys.iter().all(|key| self.has(row, key)));
        let row = rows.next().ok_or_else(|| format!("no row has {keys:?}"))?;
        if rows.next().is_some() {
            return Err(format!("several rows have {keys:?}"));
        }
        row.get(column).map(String::as_str).ok_or_else(|| format!("the row of {keys:?} is too short"))
    }

    /// Whether a key is among a row's cells; `COLUMN=CELL` asks for it in that column.
    fn has(&self, row: &[String], key: &str) -> bool {
        let named = key.split_once('=').and_then(|(column, cell)| Some((self.column(column).ok()?, cell)));
        named.map_or_else(
            || row.iter().any(|cell| cell == key),
            |(column, cell)| row.get(column).is_some_and(|own| own == cell),
        )
    }

    /// `NAME [2]` is the second of several with one name.
    fn column(&self, name: &str) -> Result<usize, String> {
        if let Some((name, turn)) = name.strip_suffix(']').and_then(|name| name.split_once(" [")) {
            let turn: usize = turn.parse().map_err(|_| format!("{turn} is no number"))?;
            let same = self.header.iter().enumerate().filter(|(_, header)| *header == name);
            return same.map(|(column, _)| column).nth(turn - 1).ok_or_else(|| format!("no {turn} columns {name:?}"));
        }
        if let Some(exact) = self.header.iter().position(|header| header == name) {
            return Ok(exact);
        }
        let mut columns = (0..self.header.len()).filter(|column| self.header[*column].starts_with(name));
        match (columns.next(), columns.next()) {
            (Some(column), None) => Ok(column),
            (None, _) => Err(format!("no column {name:?} in {:?}", self.header)),
            (Some(_), Some(_)) => Err(format!("several columns begin with {name:?}")),
        }
    }
}

/// RFC 4180.
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            '\r' if !is_quoted => {}
            letter => cell.push(letter),
        }
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}

#[test]
fn cells_are_found_by_what_stands_in_their_row() {
    let rows = parse("path,\"rate, Mbit/s\",rate of b\nlong,\"4 \"\"or\"\" 5\",1\nshort,7,2\n");
    let mut rows = rows.into_iter();
    let table = Table { header: rows.next().unwrap(), rows: rows.collect() };
    assert_eq!(table.cell(&["long"], "rate, Mbit/s"), Ok("4 \"or\" 5"));
    assert_eq!(table.cell(&["short", "7"], "rate of"), Ok("2"));
    assert_eq!(table.cell(&["rate of b=1"], "path"), Ok("long"));
    assert!(table.cell(&[], "path").is_err() && table.cell(&["short"], "rate").is_err());
    assert!(table.cell(&["none"], "path").is_err() && table.cell(&["short"], "none").is_err());
}
