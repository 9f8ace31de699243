//! Names: what promtool says of them, and whether docs/watching.md has all of them and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::outputs;
use crate::servers::complaints;
use crate::support::{Site, has_program, skip};

#[test]
fn promtool_has_nothing_against_any_output() {
    if !has_program("promtool") {
        skip("promtool is not installed");
        return;
    }
    // It has something against what breaks the conventions, so its silence tells.
    let wrong = "# HELP icdc_x_milliseconds Time.\n# TYPE icdc_x_milliseconds counter\nicdc_x_milliseconds 1\n";
    assert!(complaints(wrong).contains("_total"), "{}", complaints(wrong));
    assert!(!complaints("icdc_x{ 1\n").is_empty());
    let site = Site::new();
    for part in outputs::all(&site) {
        assert_eq!(complaints(&part.text()), "", "{}: {}", part.name, part.text());
    }
}

/// Type and names of labels.
type Shape = (String, BTreeSet<String>);

#[test]
fn the_page_has_every_metric_and_no_other() {
    let site = Site::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/watching.md");
    let told = tables(&std::fs::read_to_string(page).unwrap());
    let parts = outputs::all(&site);
    assert!(parts.len() >= 3);
    for part in &parts {
        let of_part = |name: &str| name.strip_prefix("icdc_").is_some_and(|rest| rest.starts_with(part.name));
        let expected: BTreeMap<_, _> = told.iter().filter(|(name, _)| of_part(name)).collect();
        let found = exposed(&part.text());
        assert_eq!(
            found.iter().collect::<BTreeMap<_, _>>(),
            expected,
            "{}: left the program, right the page",
            part.name
        );
    }
    let known = ["copy", "serve", "relay", "pace"].map(|part| format!("icdc_{part}_"));
    let strange: Vec<_> = told.keys().filter(|name| !known.iter().any(|prefix| name.starts_with(prefix))).collect();
    assert!(strange.is_empty(), "{strange:?} are of no part");
}

/// The rows of the page's tables: metric, type, labels.
fn tables(page: &str) -> BTreeMap<String, Shape> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `icdc_")?.split('|').map(str::trim);
        let (name, kind, labels) = (cells.next()?, cells.next()?, cells.next()?);
        let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Some((format!("icdc_{}", name.trim_end_matches('`')), (kind.to_owned(), labels)))
    };
    page.lines().filter_map(row).collect()
}

/// The metrics of a text: by name, type and labels. Every copy has the label `copy`, of which the
/// page tells once.
fn exposed(text: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (declared, kind) = rest.split_once(' ').unwrap();
            name = declared.to_owned();
            shapes.insert(name.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&name), "{line} follows the declaration of {name}");
            let labels = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
            let names = labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
            shapes.get_mut(&name).unwrap().1.extend(names.filter(|name| name != "copy"));
        }
    }
    shapes
}
