//! Where a test sets what.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::Site;

/// A site with files of settings.
pub(crate) struct Configured {
    pub(crate) site: Site,
}

impl Configured {
    pub(crate) fn new() -> Self {
        Self { site: Site::new() }
    }

    /// The user's file.
    pub(crate) fn user_file(&self) -> PathBuf {
        self.site.path("home/.config/icdc/config.toml")
    }

    /// The file in place of `/etc/icdc/config.toml`.
    pub(crate) fn system_file(&self) -> PathBuf {
        self.site.path("system.toml")
    }

    /// Writes both files; without text there is none.
    pub(crate) fn write(&self, user: &str, system: &str) {
        self.site.directory("home/.config/icdc");
        for (path, text) in [(self.user_file(), user), (self.system_file(), system)] {
            match text {
                "" => drop(fs::remove_file(path)),
                text => fs::write(path, text).unwrap(),
            }
        }
    }

    /// `icdc WORDS…` that reads these files.
    pub(crate) fn icdc(&self, words: &[&str]) -> Command {
        let mut command = self.site.icdc(words);
        let system = self.system_file();
        command
            .env_remove("ICDC_CONFIG")
            .env("ICDC_SYSTEM_CONFIG", if system.exists() { system } else { PathBuf::new() });
        command
    }

    /// `icdc config --json WORDS…`: the settings of an object.
    pub(crate) fn explained(&self, words: &[&str], variables: &[(&str, &str)]) -> Vec<Value> {
        let mut command = self.icdc(&["config", "--json"]);
        command.args(words).envs(variables.iter().copied());
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{command:?}: {errors}");
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        object["settings"].as_array().unwrap().clone()
    }
}

/// The value that counts, and its source in words: `variable ICDC_RATE`, `file LINE SECTION`,
/// `built_in`.
pub(crate) fn value(settings: &[Value], section: &str, key: &str) -> (String, String) {
    let of_key = |one: &&Value| one["key"] == key && one["section"] == section;
    let setting = settings.iter().find(of_key).unwrap_or_else(|| panic!("{section} {key}: not told in {settings:?}"));
    let source = &setting["source"];
    let from = match source["kind"].as_str().unwrap() {
        "variable" => format!("variable {}", source["variable"].as_str().unwrap()),
        "file" => {
            let name = source["path"].as_str().unwrap().rsplit('/').next().unwrap();
            format!("{name} {} {}", source["line"], source["section"].as_str().unwrap()).trim_end().to_owned()
        }
        other => other.to_owned(),
    };
    (setting["value"].as_str().unwrap().to_owned(), from)
}
