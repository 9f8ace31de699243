//! The shipped example and the pages are those of the table of settings.

use std::fs;
use std::path::{Path, PathBuf};

use crate::places::Configured;
use crate::support::{Start, succeed};

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

#[test]
fn the_shipped_example_is_what_the_program_prints() {
    let printed = succeed(&mut Configured::new().icdc(&["config", "--example"]));
    if std::env::var("ICDC_EXAMPLE").is_ok_and(|wish| wish == "write") {
        fs::write(page("docs/config.toml"), &printed).unwrap();
    }
    let shipped = fs::read_to_string(page("docs/config.toml")).unwrap();
    assert_eq!(shipped, printed, "ICDC_EXAMPLE=write cargo test -p icdc --test config writes it");
}

#[test]
fn the_shipped_example_is_read_once_it_is_uncommented() {
    let shipped = fs::read_to_string(page("docs/config.toml")).unwrap();
    let configured = Configured::new();
    configured.write(&shipped, "");
    // As it is, it sets nothing.
    let settings = configured.explained(&["--explain", "there"], &[]);
    assert!(settings.iter().all(|one| one["source"]["kind"] == "built_in"), "{settings:?}");

    let uncommented: String = shipped
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.is_empty() && !rest.starts_with(' ')).unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    // The one of two that contradict each other.
    let uncommented = uncommented.replace("send-self = true\n", "send-self = false\n");
    configured.write(&uncommented, "");
    configured.icdc(&["config"]).run().expect_code(0);
    let settings = configured.explained(&[], &[]);
    for one in &settings {
        assert_eq!(one["source"]["kind"], "file", "{one}");
        assert!(uncommented.contains(&format!("\n{} = ", one["key"].as_str().unwrap())), "{one}");
    }
    let settings = configured.explained(&["--explain", "dtn1.example.org"], &[]);
    assert_eq!(
        crate::places::value(&settings, "host", "rate").1.split(' ').next_back(),
        Some("[host.\"dtn*.example.org\"]")
    );
}

#[test]
fn the_page_and_the_man_page_have_every_setting() {
    let settings = Configured::new().explained(&[], &[]);
    let copying = fs::read_to_string(page("docs/copying.md")).unwrap();
    let help = succeed(&mut Configured::new().icdc(&["config", "--help"]));
    for one in &settings {
        let (key, variable) = (one["key"].as_str().unwrap(), one["variable"].as_str().unwrap());
        let commands: Vec<&str> =
            one["commands"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let row = format!("| `{key}` | `{variable}` | {} |", commands.join(", "));
        assert!(copying.contains(&row), "docs/copying.md lacks {row}");
        // A row may go on in further lines.
        let row = format!(" {key} {variable} {} ", commands.join(", "));
        let words: Vec<&str> = help.split_whitespace().collect();
        assert!(words.join(" ").contains(&row), "{key} is missing in {help}");
    }
}
