//! Figures in the pages are those of their records, and the records are what a stranger can check.
//!
//! A page names the tables that it quotes once, and then marks each figure or table that comes from them:
//!
//! ```text
//! <!-- records fair=bench/runs/2026-11-26-…/table.csv -->
//! Reno keeps 14.0<!-- fair: 68ms, highspeed: the Reno flow keeps --> Mbit/s.
//!
//! <!-- table fair: 68ms | by other flow | left, Mbit/s = the Reno flow keeps -->
//! | other flow | left, Mbit/s |
//! ```
//!
//! The longer forms are in `marks.rs` and `record.rs`.
//!
//! | part | file |
//! |---|---|
//! | marks in a page, and what stands before or below them | `marks.rs` |
//! | a record's table, its rows and cells | `record.rs` |
//! | figures as they are written: how many digits, and whether they agree | `figures.rs` |
//!
//! `ICDC_QUOTES=write cargo test -p icdc --test quotes` writes the records' figures into the pages, with as many digits as
//! stand there.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod figures;
mod marks;
mod record;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most that all records may take: whoever clones the project gets them.
const MOST_BYTES: u64 = 5_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn figures_in_the_pages_are_those_of_their_records() {
    let root = root();
    let mut pages = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    files(&root.join("docs"), &mut pages);
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let (mut wrong, mut quoted) = (Vec::new(), 0);
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let checked = marks::check(&root, &text);
        quoted += checked.figures;
        if std::env::var("ICDC_QUOTES").is_ok_and(|wish| wish == "write") && checked.corrected != text {
            fs::write(&page, &checked.corrected).unwrap();
        }
        let name = page.strip_prefix(&root).unwrap().display().to_string();
        wrong.extend(checked.wrong.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{} of {quoted} figures differ from their records:\n{}", wrong.len(), wrong.join("\n"));
    assert!(quoted > 0);
}

#[test]
fn records_are_small_and_hold_no_rendered_pages() {
    let mut found = Vec::new();
    files(&root().join("bench/runs"), &mut found);
    let bytes: u64 = found.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(bytes < MOST_BYTES, "bench/runs holds {bytes} bytes; {MOST_BYTES} are the most");
    let rendered = |file: &&PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        [".html", ".html.gz", ".html.xz", ".png"].iter().any(|end| name.ends_with(end))
    };
    assert_eq!(found.iter().find(rendered), None, "`icdc lab run --out` makes pages anew");
}

/// Of commits that a rebase has replaced.
const OF_ANOTHER_HISTORY: [&str; 2] = ["2026-11-22-5c87057b4e-lab-versus", "2026-11-23-fb60f26629-fresh"];

/// The name of a record begins with its day and the commit of the program that was measured.
#[test]
fn records_name_commits_of_the_history() {
    let root = root();
    let git = |words: &[&str]| Command::new("git").arg("-C").arg(&root).args(words).output();
    let whole = git(&["rev-parse", "--is-shallow-repository"]);
    if !whole.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == "false") {
        eprintln!("skipped: no whole history here");
        return;
    }
    let (mut unknown, mut excepted) = (Vec::new(), 0);
    for entry in fs::read_dir(root.join("bench/runs")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let commit = name.split('-').nth(3).unwrap_or_default();
        if OF_ANOTHER_HISTORY.contains(&name.as_str()) {
            excepted += 1;
            continue;
        }
        if !git(&["merge-base", "--is-ancestor", commit, "HEAD"]).is_ok_and(|output| output.status.success()) {
            unknown.push(name);
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
    assert_eq!(excepted, OF_ANOTHER_HISTORY.len(), "an exception that is not needed");
}
