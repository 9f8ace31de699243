//! The layering of the workspace, checked over `cargo metadata`.
//!
//! Every crate has a floor in [`CRATES`]. Imports point down only, so siblings never import each
//! other; `anyhow` stays in the binary; what does not talk to the kernel forbids unsafe code;
//! floors 0 and 1, and the session, do no I/O. A new crate fails here until it is given a floor.

use std::collections::BTreeSet;
use std::fs;

use cargo_metadata::{DependencyKind, MetadataCommand, Package, TargetKind};

/// Whether a crate makes system calls that need unsafe code.
#[derive(Clone, Copy, PartialEq)]
enum Unsafe {
    Forbidden,
    ForTheKernel,
}
use Unsafe::{ForTheKernel, Forbidden};

/// Name, floor, and use of unsafe code.
const CRATES: [(&str, u8, Unsafe); 42] = [
    ("icdc", 8, Forbidden),
    ("icdc-daemon", 7, Forbidden),
    ("icdc-session-process", 6, Forbidden),
    ("icdc-client", 5, Forbidden),
    ("icdc-shards", 5, Forbidden),
    ("icdc-changes", 4, Forbidden),
    ("icdc-experiments", 4, Forbidden),
    ("icdc-listing", 4, Forbidden),
    ("icdc-measure", 4, Forbidden),
    ("icdc-transfer", 4, Forbidden),
    ("icdc-doctor", 3, ForTheKernel),
    ("icdc-hooks", 3, Forbidden),
    ("icdc-relay", 3, Forbidden),
    ("icdc-scitags", 3, Forbidden),
    ("icdc-lab", 3, ForTheKernel),
    ("icdc-pacer", 3, Forbidden),
    ("icdc-link", 3, Forbidden),
    ("icdc-tuning", 3, Forbidden),
    ("icdc-accounts", 2, ForTheKernel),
    ("icdc-confine", 2, Forbidden),
    ("icdc-datagram", 2, Forbidden),
    ("icdc-disk", 2, ForTheKernel),
    ("icdc-limits", 2, Forbidden),
    ("icdc-metrics", 2, Forbidden),
    ("icdc-netlink", 2, Forbidden),
    ("icdc-packet", 2, ForTheKernel),
    ("icdc-tcp", 2, ForTheKernel),
    ("icdc-trust", 2, Forbidden),
    ("icdc-report", 2, Forbidden),
    ("icdc-session", 2, Forbidden),
    ("icdc-sim", 2, Forbidden),
    ("icdc-stop", 2, ForTheKernel),
    ("icdc-watch", 2, Forbidden),
    ("icdc-cc", 1, ForTheKernel),
    ("icdc-path", 1, Forbidden),
    ("icdc-protocol", 1, Forbidden),
    ("icdc-rate", 1, Forbidden),
    ("icdc-record", 1, Forbidden),
    ("icdc-schedule", 1, Forbidden),
    ("icdc-scheduler", 1, Forbidden),
    ("icdc-filter", 0, Forbidden),
    ("icdc-units", 0, Forbidden),
];

/// The binary: its tests may use any crate, and it alone may use `anyhow`.
const BINARY: &str = "icdc";

/// Highest floor that does no I/O, and the crates that would do it.
const SANS_IO: u8 = 1;
/// Crates above it that do none either.
const SANS_IO_ABOVE: [&str; 1] = ["icdc-session"];
const IO_CRATES: [&str; 6] = ["io-uring", "libc", "mio", "rustix", "socket2", "tokio"];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// What the rules are about: a crate, what it imports, and the text of its root files.
struct Crate {
    name: String,
    imports: Vec<Import>,
    roots: Vec<String>,
}

struct Import {
    name: String,
    of_workspace: bool,
    kind: DependencyKind,
}

#[test]
fn the_workspace_keeps_its_floors() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata");
    let crates: Vec<Crate> = metadata.workspace_packages().into_iter().map(crate_of).collect();
    assert_eq!(violations(&crates), Vec::<String>::new());

    let found: BTreeSet<&str> = crates.iter().map(|found| found.name.as_str()).collect();
    let gone: Vec<&str> = CRATES.iter().map(|(name, ..)| *name).filter(|name| !found.contains(name)).collect();
    assert!(gone.is_empty(), "{gone:?} have a floor and are not in the workspace: remove them from CRATES");
}

fn crate_of(package: &Package) -> Crate {
    let import = |dependency: &cargo_metadata::Dependency| Import {
        name: dependency.name.clone(),
        of_workspace: dependency.path.is_some(),
        kind: dependency.kind,
    };
    let shipped = |kind: &TargetKind| !matches!(kind, TargetKind::Test | TargetKind::Bench | TargetKind::Example);
    let roots = package.targets.iter().filter(|target| target.kind.iter().all(shipped));
    Crate {
        name: package.name.to_string(),
        imports: package.dependencies.iter().map(import).collect(),
        roots: roots.map(|target| fs::read_to_string(&target.src_path).expect("source of a target")).collect(),
    }
}

/// One sentence for every rule that is broken.
fn violations(crates: &[Crate]) -> Vec<String> {
    crates.iter().flat_map(violations_of).collect()
}

fn violations_of(subject: &Crate) -> Vec<String> {
    let name = &subject.name;
    let Some((floor, unsafe_code)) = place(name) else {
        return vec![format!("{name} has no floor: give it one in CRATES")];
    };
    let mut found = Vec::new();
    for import in &subject.imports {
        let import_name = &import.name;
        let test_of_binary = name == BINARY && import.kind == DependencyKind::Development;
        match place(import_name) {
            Some((below, _)) if import.of_workspace && below >= floor && !test_of_binary => {
                found.push(format!(
                    "{name} (floor {floor}) imports {import_name} (floor {below}): only lower floors may be imported"
                ));
            }
            None if import.of_workspace => found.push(format!("{name} imports {import_name}, which has no floor")),
            _ => {}
        }
        if import_name == "anyhow" && name != BINARY {
            found.push(format!("{name} imports anyhow: libraries have typed errors"));
        }
        let does_io = IO_CRATES.contains(&import_name.as_str());
        let sans_io = floor <= SANS_IO || SANS_IO_ABOVE.contains(&name.as_str());
        if does_io && sans_io && import.kind != DependencyKind::Development {
            found.push(format!("{name} (floor {floor}) imports {import_name}: it is one of those that do no I/O"));
        }
    }
    let forbids = |root: &String| root.lines().any(|line| line.trim() == FORBID);
    if unsafe_code == Forbidden && !subject.roots.iter().all(forbids) {
        found.push(format!("{name} lacks {FORBID} in a root file"));
    }
    found
}

fn place(name: &str) -> Option<(u8, Unsafe)> {
    CRATES.iter().find(|(known, ..)| *known == name).map(|(_, floor, unsafe_code)| (*floor, *unsafe_code))
}

/// An import of a crate that a test makes up.
type Given = (&'static str, DependencyKind);

/// A crate that keeps the rules if its imports do.
fn keeping(name: &str, imports: &[Given]) -> Crate {
    let import = |&(name, kind): &Given| Import { name: name.to_owned(), of_workspace: name.starts_with("icdc"), kind };
    Crate { name: name.to_owned(), imports: imports.iter().map(import).collect(), roots: vec![format!("{FORBID}\n")] }
}

#[test]
fn a_broken_rule_is_told() {
    use DependencyKind::{Build, Development, Normal};
    let cases: [(&str, &[Given], &[&str]); 13] = [
        ("icdc-disk", &[("icdc-units", Normal), ("libc", Normal)], &[]),
        ("icdc-disk", &[("icdc-tcp", Normal)], &["only lower floors"]),
        ("icdc-disk", &[("icdc-tcp", Development)], &["only lower floors"]),
        ("icdc-disk", &[("icdc-tcp", Build)], &["only lower floors"]),
        ("icdc-units", &[("icdc-transfer", Normal)], &["icdc-units (floor 0) imports icdc-transfer (floor 4)"]),
        ("icdc", &[("icdc-transfer", Normal), ("icdc-protocol", Development), ("anyhow", Normal)], &[]),
        ("icdc-transfer", &[("anyhow", Normal)], &["typed errors"]),
        ("icdc-protocol", &[("rustix", Normal)], &["do no I/O"]),
        ("icdc-protocol", &[("rustix", Development)], &[]),
        ("icdc-session", &[("icdc-protocol", Normal), ("rustix", Normal)], &["do no I/O"]),
        ("icdc-newcomer", &[], &["icdc-newcomer has no floor"]),
        ("icdc-transfer", &[("icdc-newcomer", Normal)], &["icdc-newcomer, which has no floor"]),
        ("icdc-disk", &[("icdc-tcp", Normal), ("anyhow", Normal)], &["only lower floors", "typed errors"]),
    ];
    for (name, imports, expected) in cases {
        let found = violations(&[keeping(name, imports)]);
        assert_eq!(found.len(), expected.len(), "{name} {imports:?}: {found:?}");
        assert!(found.iter().zip(expected).all(|(found, part)| found.contains(part)), "{found:?} for {expected:?}");
    }
}

#[test]
fn unsafe_code_needs_a_reason() {
    let without = |name| Crate { roots: vec![format!("// {FORBID}\n")], ..keeping(name, &[]) };
    assert!(violations(&[without("icdc-units")])[0].contains("lacks"));
    assert!(violations(&[without("icdc-trust")])[0].contains("lacks"));
    assert!(violations(&[without("icdc-tcp")]).is_empty());
}
