//! Marks in a page, and what they say of the figures before or below them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::figures::{agrees, like, places, value};
use crate::record::Table;

/// What came of a page.
#[derive(Default)]
pub(crate) struct Checked {
    /// How many figures are marked.
    pub(crate) figures: usize,
    /// Sentences: what does not agree.
    pub(crate) wrong: Vec<String>,
    /// The page with the records' figures.
    pub(crate) corrected: String,
}

/// Compares the marked figures of a page with the records, whose names are relative to `root`.
pub(crate) fn check(root: &Path, page: &str) -> Checked {
    let mut checked = Checked::default();
    let mut tables = BTreeMap::new();
    let mut below: Option<Below> = None;
    let mut unused = BTreeSet::new();
    for (index, line) in page.split_inclusive('\n').enumerate() {
        let mut line = line.to_owned();
        let mut wrong = Vec::new();
        if let Some(rest) = mark(&line, "records ") {
            for word in rest.split_whitespace() {
                let Some((name, file)) = word.split_once('=') else {
                    wrong.push(format!("{word}: NAME=FILE is needed"));
                    continue;
                };
                unused.insert(name.to_owned());
                match Table::join(root, file) {
                    Ok(table) => drop(tables.insert(name.to_owned(), table)),
                    Err(why) => wrong.push(why),
                }
            }
        } else if let Some(rest) = mark(&line, "table ") {
            let table = Below::new(rest, &mut wrong);
            unused.remove(&table.name);
            below = Some(table);
        } else if let (Some(table), true) = (&mut below, line.starts_with('|')) {
            line = table.line(&tables, &line, &mut checked.figures, &mut wrong);
        } else {
            if !line.starts_with("<!--")
                && let Some(Below { name, header: None, .. }) = below.take()
            {
                wrong.push(format!("no table stands below the mark for {name}"));
            }
            line = in_prose(&tables, &line, &mut checked.figures, &mut wrong);
            unused.retain(|name| !line.contains(&format!("<!-- {name}: ")));
        }
        checked.wrong.extend(wrong.into_iter().map(|what| format!("line {}: {what}", index + 1)));
        checked.corrected += &line;
    }
    checked.wrong.extend(unused.into_iter().map(|name| format!("nothing is quoted of {name}")));
    checked
}

/// What a line that is a mark of this kind says.
fn mark<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?.strip_prefix(kind)
}

type Tables = BTreeMap<String, Table>;

/// `keys` of a row, separated by commas with a space; a key with such a comma of its own stands in quotation marks.
fn keys(text: &str) -> Vec<String> {
    let parts = text.split('"').enumerate().flat_map(|(index, part)| match index % 2 {
        0 => part.split(", ").map(|key| key.trim().to_owned()).collect(),
        _ => vec![part.to_owned()],
    });
    parts.filter(|key| !key.is_empty()).collect()
}

/// The page's figure if the record agrees, else the record's, and what is wrong.
fn corrected(shown: &str, value: f64, said: &str, wrong: &mut Vec<String>) -> String {
    if agrees(shown, value) {
        return shown.to_owned();
    }
    wrong.push(format!("{shown} is {value} in the record{said}"));
    like(shown, value)
}

/// The figures of a cell: `COLUMN`, or `COLUMN × FACTOR`, or `KEY, KEY @ COLUMN` for another row's.
fn figures_of(tables: &Tables, name: &str, row: &[String], column: &str) -> Result<Vec<f64>, String> {
    let table = tables.get(name).ok_or_else(|| format!("no record is named {name}"))?;
    let (column, factor) = column.split_once(" × ").unwrap_or((column, "1"));
    let (more, column) = column.split_once(" @ ").map_or((Vec::new(), column), |(more, column)| (keys(more), column));
    let all: Vec<&str> = row.iter().chain(&more).map(String::as_str).collect();
    let cell = table.cell(&all, column.trim())?;
    let found = places(cell).into_iter().map(|place| value(&cell[place]) * value(factor));
    Ok(found.collect())
}

/// `FIGURE<!-- NAME: KEY, KEY: COLUMN -->`; with ` #2` at the end, the second figure of the cell.
fn in_prose(tables: &Tables, line: &str, figures: &mut usize, wrong: &mut Vec<String>) -> String {
    let (mut done, mut rest) = (String::new(), line);
    while let Some(begin) = rest.find("<!-- ") {
        let Some(length) = rest[begin..].find(" -->") else { break };
        let (before, said) = (&rest[..begin], &rest[begin + 5..begin + length]);
        let parts: Vec<&str> = said.splitn(3, ": ").collect();
        let after = &rest[begin + length + 4..];
        let place = places(before).pop().filter(|place| place.end == before.trim_end_matches([' ', '%']).len());
        if let ([name, row, column], Some(place)) = (&parts[..], place) {
            *figures += 1;
            let (column, which) = column.rsplit_once(" #").unwrap_or((column, "1"));
            let which: usize = which.parse().unwrap_or(1);
            let shown = &before[place.clone()];
            let found = figures_of(tables, name, &keys(row), column).and_then(|found| {
                found.get(which - 1).copied().ok_or_else(|| format!("{said}: the cell has no figure {which}"))
            });
            done += &before[..place.start];
            match found {
                Ok(value) => done += &corrected(shown, value, &format!(" ({said})"), wrong),
                Err(why) => {
                    wrong.push(why);
                    done += shown;
                }
            }
            done += &before[place.end..];
        } else {
            match &parts[..] {
                [_, _, _] => wrong.push(format!("no figure stands before the mark ({said})")),
                [name, _] if tables.contains_key(*name) => wrong.push(format!("the mark names no column ({said})")),
                _ => {}
            }
            done += before;
        }
        done += &rest[begin..begin + length + 4];
        rest = after;
    }
    done + rest
}

/// `<!-- table NAME: KEY, KEY | by COLUMN, COLUMN | COLUMN = RECORD'S; COLUMN = RECORD'S + RECORD'S | CELL = KEY; … -->`
/// over a table, columns by their names or numbers; what stands there is a key as it is, or as the last part says.
/// Its rows are the record's that have the keys and what stands in the columns after `by`; a cell with a + has the
/// figures of several.
struct Below {
    name: String,
    keys: Vec<String>,
    by: Vec<String>,
    columns: Vec<(String, Vec<String>)>,
    /// What the page calls what the record calls otherwise.
    called: Vec<(String, String)>,
    header: Option<Vec<String>>,
}

impl Below {
    fn new(text: &str, wrong: &mut Vec<String>) -> Self {
        let parts: Vec<&str> = text.split(" | ").collect();
        let part = |index: usize| parts.get(index).copied().unwrap_or_default();
        let (name, fixed) = part(0).split_once(':').unwrap_or((part(0), ""));
        let mut columns = Vec::new();
        for column in part(2).split("; ") {
            match column.split_once(" = ") {
                Some((own, records)) => {
                    columns.push((own.trim().to_owned(), records.split(" + ").map(str::to_owned).collect()));
                }
                None => wrong.push(format!("{column:?}: COLUMN = RECORD'S is needed")),
            }
        }
        let called = part(3).split("; ").filter_map(|one| one.split_once(" = "));
        Self {
            name: name.trim().to_owned(),
            keys: keys(fixed),
            by: keys(part(1).strip_prefix("by ").unwrap_or_default()),
            columns,
            called: called.map(|(own, records)| (own.to_owned(), records.to_owned())).collect(),
            header: None,
        }
    }

    fn line(&mut self, tables: &Tables, line: &str, figures: &mut usize, wrong: &mut Vec<String>) -> String {
        let mut cells: Vec<String> = line.trim().trim_matches('|').split('|').map(str::to_owned).collect();
        let plain = |cell: &str| cell.replace(['`', '*'], "").trim().to_owned();
        let Some(header) = &self.header else {
            self.header = Some(cells.iter().map(|cell| plain(cell)).collect());
            return line.to_owned();
        };
        if cells.iter().all(|cell| cell.trim().chars().all(|letter| matches!(letter, '-' | ':'))) {
            return line.to_owned();
        }
        let at = |name: &str| match name.parse::<usize>() {
            Ok(number) if header.iter().all(|header| header != name) => number.checked_sub(1),
            _ => header.iter().position(|header| header == name),
        };
        let key = |cell: &str| {
            let own = plain(cell);
            self.called.iter().find(|(called, _)| *called == own).map_or(own.clone(), |(_, key)| key.clone())
        };
        let mut row = self.keys.clone();
        for name in &self.by {
            match at(name).and_then(|index| cells.get(index)) {
                Some(cell) => row.push(key(cell)),
                None => wrong.push(format!("the table has no column {name:?}")),
            }
        }
        let before = wrong.len();
        for (own, records) in &self.columns {
            let Some(index) = at(own).filter(|index| *index < cells.len()) else {
                wrong.push(format!("the table has no column {own:?}"));
                continue;
            };
            if plain(&cells[index]).is_empty() {
                continue;
            }
            let found: Result<Vec<Vec<f64>>, String> =
                records.iter().map(|column| figures_of(tables, &self.name, &row, column)).collect();
            match found {
                Ok(found) => cells[index] = correct(&cells[index], &found, figures, wrong),
                Err(why) => wrong.push(why),
            }
        }
        if wrong.len() == before { line.to_owned() } else { format!("|{}|\n", cells.join("|")) }
    }
}

/// A cell of the page with the record's figures: those of one cell one after the other, or the first of each.
fn correct(cell: &str, found: &[Vec<f64>], figures: &mut usize, wrong: &mut Vec<String>) -> String {
    let expected: Vec<f64> = match found {
        [one] => one.clone(),
        several => several.iter().filter_map(|one| one.first().copied()).collect(),
    };
    let shown = places(cell);
    if shown.is_empty() != expected.is_empty() || shown.len() > expected.len() {
        wrong.push(format!("{:?} has {} figures, the record {}", cell.trim(), shown.len(), expected.len()));
        return cell.to_owned();
    }
    let (mut done, mut end) = (String::new(), 0);
    for (place, value) in shown.into_iter().zip(expected) {
        *figures += 1;
        let own = &cell[place.clone()];
        done += &cell[end..place.start];
        done += &corrected(own, value, "", wrong);
        end = place.end;
    }
    done + &cell[end..]
}

#[test]
fn a_figure_that_differs_is_told_and_put_right() {
    let directory = tempfile::tempdir().unwrap();
    let record = "flow,rtt,\"kept, Mbit/s\",share\nreno,68ms,26.6 (25.7 to 27.5),0.51\nghstcp,68ms,13.1,0.226\n\"a, b\",1s,5,1\n";
    std::fs::write(directory.path().join("t.csv"), record).unwrap();
    let page = "<!-- records fair=t.csv -->\nIt keeps 13.1<!-- fair: ghstcp: kept -->, 22 %<!-- fair: ghstcp: share × 100 -->\n\
        and 25.9<!-- fair: reno: kept #2 -->.\n\n<!-- table fair: 68ms | by flow | kept = kept, Mbit/s; of both = share × 100 -->\n\
        | flow | kept | of both |\n|---|---|---|\n| `reno` | 26.6 (25.7 to 27.5) | 51 % |\n| `ghstcp` | 14 | 23 |\n";
    let checked = check(directory.path(), page);
    assert_eq!(checked.figures, 9);
    assert_eq!(checked.wrong.len(), 3, "{:?}", checked.wrong);
    assert!(checked.corrected.contains("13.1<!-- fair: ghstcp: kept -->, 23 %<!--"), "{}", checked.corrected);
    assert!(checked.corrected.contains("and 25.7<!--") && checked.corrected.contains("| `ghstcp` | 13 | 23 |"));
    assert_eq!(check(directory.path(), &checked.corrected).wrong, Vec::<String>::new());
    let broken = check(
        directory.path(),
        "<!-- records fair=t.csv -->\nsome<!-- fair: ghstcp: kept -->, 3<!-- fair: bic: kept -->\n",
    );
    assert_eq!(broken.wrong.len(), 2, "{:?}", broken.wrong);
    let quoted = "<!-- records fair=t.csv -->\n6<!-- fair: \"a, b\", 1s: kept -->\n";
    assert_eq!(check(directory.path(), quoted).wrong.len(), 1);
}

#[test]
fn a_mark_that_checks_nothing_is_told() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("t.csv"), "flow,kept\nreno,1\n").unwrap();
    for (page, says) in [
        ("<!-- records t=t.csv u=t.csv -->\n1<!-- t: reno: kept -->\n", "nothing is quoted of u"),
        ("<!-- records t=t.csv u -->\n1<!-- t: reno: kept -->\n", "u: NAME=FILE"),
        ("<!-- records t=t.csv -->\n1<!-- t: reno: kept --> 2<!-- t: kept -->\n", "names no column"),
        ("<!-- records t=t.csv -->\n<!-- table t: | by flow | kept = kept -->\n\nNo table.\n", "no table stands below"),
        ("<!-- records t=t.csv -->\n<!-- table t: | by flow | kept -->\n| flow | kept |\n|---|---|\n", "is needed"),
    ] {
        let wrong = check(directory.path(), page).wrong;
        assert!(wrong.iter().any(|wrong| wrong.contains(says)), "{page}: {wrong:?}");
    }
}
