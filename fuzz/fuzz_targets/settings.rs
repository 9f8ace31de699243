//! A file of settings: it is read, or each fault is told with its place in the file; what it sets can be written as it
//! would be on a command line.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// The product's own files: a program has no public names.
#[path = "../../crates/cli/src/applies"]
#[allow(dead_code, unreachable_pub)]
mod applies {
    mod concern;

    pub(crate) use concern::Concern;
}

#[path = "../../crates/cli/src/config"]
#[allow(dead_code, unreachable_pub)]
mod config {
    mod document;
    mod fault;
    mod option;
    mod pattern;
    mod settings;

    use std::path::Path;

    /// Heading, key, value and line of all that the file sets, or its faults.
    pub fn read(bytes: &[u8]) -> Result<Vec<(String, &'static str, String, usize)>, String> {
        let document = document::Document::parse(bytes, Path::new("/settings"), &option::Options(&clap::Command::new("icdc")))?;
        let sections = document.sections.iter();
        let entries = sections.flat_map(|section| {
            section.entries.iter().map(|entry| (section.scope.heading(), entry.setting.key, entry.value.clone(), entry.line))
        });
        Ok(entries.collect())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    match config::read(bytes) {
        Ok(entries) => {
            for (heading, key, value, line) in entries {
                assert!((1..=lines).contains(&line), "{heading} {key} in line {line} of {lines}");
                assert!(!value.contains(char::is_control), "{key} = {value:?}");
            }
        }
        Err(faults) => {
            assert!(faults.starts_with("/settings:") && faults.contains('^'), "{faults}");
            assert!(!faults.contains(|letter: char| letter.is_control() && letter != '\n'), "{faults:?}");
        }
    }
});
