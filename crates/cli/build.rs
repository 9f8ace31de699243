//! Names the commit that is built, for `icdc --version --verbose`, where this is a git checkout.
//!
//! `ICDC_COMMIT`, set by whoever builds, goes first; empty, it says that what is built is no
//! commit. Nothing but this crate is built again for another commit.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ICDC_COMMIT");
    if std::env::var_os("ICDC_COMMIT").is_some() {
        return;
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Some(commit) = git_directory(&top).and_then(|git| head(&git)) {
        println!("cargo::rustc-env=ICDC_COMMIT={commit}");
    }
}

/// Of a clone, or of one of its further work trees.
fn git_directory(top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    match fs::read_to_string(&git) {
        Ok(text) => Some(top.join(text.strip_prefix("gitdir: ")?.trim_end())),
        Err(_) => git.is_dir().then_some(git),
    }
}

/// The commit that is checked out. Cargo looks at the files that tell it.
fn head(git: &Path) -> Option<String> {
    let told = watched(&git.join("HEAD"))?;
    let Some(branch) = told.strip_prefix("ref: ") else { return commit(&told) };
    // A further work tree has the branches of the clone.
    let common =
        fs::read_to_string(git.join("commondir")).map_or_else(|_| git.to_owned(), |text| git.join(text.trim_end()));
    if let Some(told) = watched(&common.join(branch)) {
        return commit(&told);
    }
    let packed = watched(&common.join("packed-refs"))?;
    packed.lines().find_map(|line| commit(line.strip_suffix(branch)?.strip_suffix(' ')?))
}

/// The text of a file, without the end of its last line; the build is repeated when it changes, or
/// is made.
fn watched(file: &Path) -> Option<String> {
    let Ok(text) = fs::read_to_string(file) else {
        // It is made by the next commit. Cargo takes a missing file for a changed one at each
        // build.
        if let Some(above) = file.ancestors().skip(1).find(|above| above.is_dir()) {
            println!("cargo::rerun-if-changed={}", above.display());
        }
        return None;
    };
    println!("cargo::rerun-if-changed={}", file.display());
    Some(text.trim_end().to_owned())
}

fn commit(text: &str) -> Option<String> {
    let is_one = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| text.to_owned())
}
