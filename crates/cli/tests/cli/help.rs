//! Help, version, man pages and completions, from the real binary.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::ICDC;

const SUBCOMMANDS: [&str; 20] = [
    "copy",
    "ctl",
    "ls",
    "du",
    "verify",
    "mkdir",
    "rm",
    "mv",
    "plan",
    "slurm",
    "serve",
    "keygen",
    "measure",
    "doctor",
    "lab",
    "cc",
    "pace",
    "relay",
    "config",
    "completions",
];

fn succeed(words: &[&str]) -> String {
    let output = Command::new(ICDC).args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}\n{errors}", output.status);
    assert_eq!(errors, "", "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_subcommand_explains_itself_with_an_example() {
    for name in SUBCOMMANDS {
        let help = succeed(&[name, "--help"]);
        assert!(help.contains(&format!("Usage: icdc {name}")), "{help}");
        assert!(help.contains("Examples:") && help.contains(&format!("  icdc {name}")), "{help}");
        assert!(help.contains("Exit codes:"), "{help}");
    }
    let help = succeed(&["--help"]);
    for name in SUBCOMMANDS {
        assert!(help.contains(name), "{name} is missing in {help}");
    }
    assert!(!help.contains("far-end"), "what ssh starts is no business of users: {help}");
}

#[test]
fn help_and_version_are_commands_as_well() {
    assert_eq!(succeed(&["help"]), succeed(&["--help"]));
    assert_eq!(succeed(&["help", "copy"]), succeed(&["copy", "--help"]));
    assert_eq!(succeed(&["help", "plan", "join"]), succeed(&["plan", "join", "--help"]));
    assert_eq!(succeed(&["version"]), succeed(&["--version"]));
    assert_eq!(succeed(&["version", "--json"]), succeed(&["--version", "--json"]));
    let output = Command::new(ICDC).args(["help", "poems"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_options_of_copy_are_those_of_the_contract() {
    let help = succeed(&["copy", "--help"]);
    for option in [
        "--ssh",
        "--remote-icdc",
        "--port",
        "--bind",
        "--rate",
        "--cc",
        "--streams",
        "--verify",
        "--no-resume",
        "--skip-equal",
        "-u, --update",
        "--size-only",
        "--checksum",
        "--existing",
        "--files-from",
        "--files-from0",
        "-m, --prune-empty-dirs",
        "--ignore-existing",
        "--dry-run",
        "--exclude",
        "--include",
        "-f, --filter",
        "--filter-from",
        "--max-size",
        "--newer-than",
        "-x, --one-file-system",
        "--exclude-caches",
        "--plan",
        "--shard",
        "--json",
        "--report",
        "--receipt <FILE>",
        "--metrics <FILE>",
        "--metrics-push <URL>",
        "--metrics-interval <TIME>",
        "--progress",
        "--quiet",
        "-4",
        "-6",
        "--preserve",
        "--ring",
        "--send-self",
        "--identity",
        "--known-hosts",
        "--verbose",
    ] {
        assert!(help.contains(option), "{option} is missing in {help}");
    }
    for words in ["trailing slash", "[USER@]HOST:PATH", "standard output", "same command"] {
        assert!(help.to_lowercase().contains(&words.to_lowercase()), "{words:?} is missing in {help}");
    }
    let short = succeed(&["copy", "-h"]);
    assert!(short.len() < help.len());
}

#[test]
fn help_and_man_page_of_copy_have_the_same_groups() {
    let directory = tempfile::tempdir().unwrap();
    succeed(&["generate", "man", directory.path().to_str().unwrap()]);
    for command in ["copy", "sync"] {
        let help = succeed(&[command, "--help"]);
        let headings: Vec<&str> = help
            .lines()
            .filter_map(|line| line.strip_suffix(':').filter(|heading| !heading.starts_with(' ')))
            .skip_while(|heading| *heading != "What to copy and how")
            .take_while(|heading| !["Exit codes", "Examples"].contains(heading))
            .collect();
        // What follows the options may begin with text on the output.
        let headings: Vec<&str> = headings
            .iter()
            .enumerate()
            .filter(|(at, one)| !headings[..*at].contains(one))
            .map(|(_, one)| *one)
            .collect();
        for heading in ["Choosing what is copied", "Mirroring", "Data path", "Reaching hosts", "Output"] {
            assert!(headings.contains(&heading), "{heading} is missing in {headings:?}");
        }
        let page = fs::read_to_string(directory.path().join(format!("icdc-{command}.1"))).unwrap();
        let sections: Vec<String> = page
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .map(|heading| heading.trim_matches('"').to_lowercase())
            .collect();
        let headings: Vec<String> = headings.iter().map(|heading| heading.to_lowercase()).collect();
        assert!(sections.windows(headings.len()).any(|part| part == headings), "{headings:?} are not in {sections:?}");
        let (_, mirroring) = help.split_once("\nMirroring:").unwrap();
        let (mirroring, _) = mirroring.split_once("\nData path:").unwrap();
        assert!(mirroring.contains("--delete") && mirroring.contains("--update"), "{mirroring}");
    }
}

#[test]
fn the_options_of_measure_are_those_of_the_contract() {
    let help = succeed(&["measure", "--help"]);
    for option in [
        "--ssh",
        "--remote-icdc",
        "--send-self",
        "--port",
        "--seconds",
        "--bytes",
        "--rate",
        "--cc",
        "--streams",
        "--window",
        "--reverse",
        "-4",
        "-6",
        "--json",
        "--json-series",
        "--series",
        "--report",
        "--identity",
        "--known-hosts",
    ] {
        assert!(help.contains(option), "{option} is missing in {help}");
    }
}

#[test]
fn the_options_of_doctor_are_those_of_the_contract() {
    let help = succeed(&["doctor", "--help"]);
    for option in [
        "--rate",
        "--rtt",
        "--disk",
        "--apply",
        "--undo",
        "--paths",
        "--clear [<PREFIX|HOST>]",
        "--json",
        "--ssh",
        "--identity",
        "-4",
        "-6",
    ] {
        assert!(help.contains(option), "{option} is missing in {help}");
    }
    assert!(!help.contains("--system-root"), "that is for tests: {help}");
}

#[test]
fn the_options_of_relay_are_those_of_the_contract() {
    let help = succeed(&["relay", "--help"]);
    for option in [
        "--config",
        "--check",
        "--forward",
        "--socks5",
        "--socks5-users",
        "--peer",
        "--transparent",
        "--route",
        "--warm",
        "--peer-key",
        "--identity",
        "--cc",
        "--rate",
        "--buffer",
        "--proxy-protocol",
        "--keep-source",
        "--allow",
        "--deny",
        "--connections",
        "--per-client",
        "--memory",
        "--greeting",
        "--connect",
        "--idle",
        "--drain",
        "--metrics",
        "--status-socket",
        "status",
        "rules",
    ] {
        assert!(help.contains(option), "{option} is missing in {help}");
    }
}

#[test]
fn a_build_from_a_clone_names_its_commit() {
    let shown: serde_json::Value = serde_json::from_str(&succeed(&["--version", "--json"])).unwrap();
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let head = std::process::Command::new("git").args(["-C", top, "rev-parse", "HEAD"]).output();
    match head {
        Ok(output) if output.status.success() => {
            assert_eq!(shown["commit"], String::from_utf8(output.stdout).unwrap().trim_end());
        }
        _ => println!("skipped: this is no clone, or git is not installed"),
    }
}

#[test]
fn version_names_the_release() {
    assert_eq!(succeed(&["--version"]), format!("icdc {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn nothing_at_all_shows_the_help_as_an_error() {
    let output = Command::new(ICDC).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: icdc"));
}

#[test]
fn man_pages_come_one_per_subcommand() {
    let directory = tempfile::tempdir().unwrap();
    succeed(&["generate", "man", directory.path().to_str().unwrap()]);
    let mut names: Vec<String> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let lab = ["down", "exec", "list", "report", "run", "sim", "status", "up"].map(|name| format!("icdc-lab-{name}.1"));
    let mut expected =
        ["icdc-copy.1", "icdc-doctor.1", "icdc-keygen.1", "icdc-lab.1", "icdc-measure.1", "icdc-serve.1", "icdc.1"]
            .map(str::to_owned)
            .to_vec();
    expected.extend(lab);
    expected.push("icdc-cc.1".to_owned());
    expected.extend(["list", "load", "show", "unload"].map(|name| format!("icdc-cc-{name}.1")));
    expected.extend(
        [
            "ctl",
            "ctl-pause",
            "ctl-rate",
            "ctl-resume",
            "ctl-status",
            "ctl-stop",
            "du",
            "leftovers",
            "ls",
            "mkdir",
            "mv",
            "rm",
            "verify",
            "plan",
            "plan-join",
            "plan-status",
            "slurm",
            "slurm-submit",
        ]
        .map(|name| format!("icdc-{name}.1")),
    );
    expected.extend(
        ["icdc-relay.1", "icdc-rsync.1", "icdc-sync.1", "icdc-config.1", "icdc-completions.1"].map(str::to_owned),
    );
    expected.extend(
        ["rules", "rules-apply", "rules-print", "rules-remove", "status"].map(|name| format!("icdc-relay-{name}.1")),
    );
    expected.extend(["icdc-pace.1", "icdc-pace-policy.1", "icdc-pace-wire.1"].map(str::to_owned));
    expected.extend(["add", "list", "remove", "watch"].map(|name| format!("icdc-pace-policy-{name}.1")));
    expected.sort();
    assert_eq!(names, expected);
    for name in &names {
        let page = fs::read_to_string(directory.path().join(name)).unwrap();
        for heading in ["FILES", "ENVIRONMENT", "SEE ALSO"] {
            let lines = page
                .lines()
                .filter(|line| *line == format!(".SH {heading}") || *line == format!(".SH \"{heading}\""))
                .count();
            assert_eq!(lines, 1, "{heading} in {name}");
        }
        let (_, related) = page.split_once(".SH SEE ALSO\n").unwrap();
        let related = related.replace("\\-", "-");
        let own = name.trim_end_matches(".1");
        assert!(!related.contains(&format!("\\fB{own}\\fR(1)")), "{name} names itself: {related}");
        for page in related.split("\\fB").skip(1).filter_map(|rest| rest.split("\\fR").next()) {
            assert!(!page.is_empty(), "{name}: {related}");
            assert!(!page.starts_with("icdc") || names.contains(&format!("{page}.1")), "{name} names {page}");
        }
    }
    let copy = fs::read_to_string(directory.path().join("icdc-copy.1")).unwrap();
    assert!(copy.contains("ICDC_RATE") && copy.contains("\\fBssh_config\\fR(5)"), "{copy}");
    for words in [".TH", "icdc", "remote", "preserve", "[\\-\\-ssh <CMD>]", ".SH EXIT CODES", ".SH EXAMPLES\n.nf"] {
        assert!(copy.contains(words), "{words} is missing");
    }
}

#[test]
fn completions_know_subcommands_and_options() {
    let directory = tempfile::tempdir().unwrap();
    succeed(&["generate", "completions", directory.path().to_str().unwrap()]);
    for name in ["icdc.bash", "_icdc", "icdc.fish"] {
        let script = fs::read_to_string(directory.path().join(name)).unwrap();
        for word in [
            "copy",
            "serve",
            "keygen",
            "measure",
            "doctor",
            "lab",
            "pace",
            "relay",
            "send-self",
            "json-series",
            "drop-list",
        ] {
            assert!(script.contains(word), "{word} is missing in {name}");
        }
    }
    let status = Command::new("bash").arg("-n").arg(directory.path().join("icdc.bash")).status().unwrap();
    assert!(status.success(), "bash cannot read its completions");
}

#[test]
fn generated_files_need_a_directory_to_go_to() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let output = Command::new(ICDC).args(["generate", "man"]).arg(&missing).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.starts_with("icdc: ") && message.contains("missing"), "{message}");
    assert!(!missing.exists());
}

#[test]
fn a_closed_standard_output_is_no_panic() {
    let mut child =
        Command::new(ICDC).args(["copy", "--help"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("panicked"), "{errors}");
}
