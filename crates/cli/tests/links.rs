//! Links in the repository's pages lead to files that are there, and to headings that these have.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders without pages of ours.
const LEFT_OUT: [&str; 4] = ["target", ".git", "runs", "seeds"];

#[test]
fn links_lead_to_files_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut pages = Vec::new();
    find(&root, &mut pages);
    assert!(pages.len() > 10, "{pages:?}");
    let mut broken = Vec::new();
    for page in &pages {
        let text = without_code(&fs::read_to_string(page).unwrap());
        for target in links(&text) {
            if let Err(why) = check(page, &target) {
                broken.push(format!("{}: ({target}) {why}", page.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn headings_become_anchors_and_code_has_no_links() {
    let text = "# The `first`, *copy*: 2 ends\n\n```sh\n# no heading [x](y)\n```\nsee [a](b.md#c) and `[d](e)`\n## Again\n## Again\n";
    let anchors: Vec<String> = anchors(text).into_iter().collect();
    assert_eq!(anchors, ["again", "again-1", "the-first-copy-2-ends"]);
    assert_eq!(links(&without_code(text)), ["b.md#c"]);
}

fn find(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && !LEFT_OUT.contains(&name.as_str()) {
            find(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

fn check(page: &Path, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    if !path.exists() {
        return Err("is not there".to_owned());
    }
    match anchor {
        Some(anchor) if path.extension().is_some_and(|extension| extension == "md") => {
            let found = anchors(&fs::read_to_string(&path).unwrap());
            if found.contains(anchor) { Ok(()) } else { Err("no such heading".to_owned()) }
        }
        _ => Ok(()),
    }
}

/// The text without fenced blocks and code spans.
fn without_code(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    let parts = lines.map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join(""));
    parts.collect::<Vec<_>>().join("\n")
}

fn links(text: &str) -> Vec<String> {
    let starts = text.match_indices("](").map(|(at, _)| at + 2);
    starts.filter_map(|at| Some(text[at..].split_once(')')?.0.trim().to_owned())).collect()
}

/// Anchors of the headings of a page, as forges make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
        let anchor = kept.collect::<String>().replace(' ', "-");
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let anchor = std::iter::once(anchor.clone()).chain(again).find(|anchor| !found.contains(anchor)).unwrap();
        found.insert(anchor);
    }
    found
}
