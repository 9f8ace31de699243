//! The manifests in `kubernetes/`, as kubectl renders them.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Deserializer, Map, Value};

use super::support::{has_program, skip};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kubernetes");
/// The first minor version of kubectl 1 that reads these kustomizations.
const OLDEST: u32 = 27;

/// What `kubectl apply` would be given.
pub(crate) struct Manifests(pub Vec<Value>);

impl Manifests {
    /// Those of an overlay. `None` without a kubectl that reads them, with the reason on standard
    /// error.
    pub(crate) fn of_overlay(name: &str) -> Option<Self> {
        if let Err(reason) = check_kubectl() {
            skip(&reason);
            return None;
        }
        let rendered = kubectl(&["kustomize", &format!("{DIRECTORY}/overlays/{name}")], "");
        Some(Self::of_text(&rendered))
    }

    /// Those of a file.
    pub(crate) fn of_file(name: &str) -> Self {
        Self::of_text(&std::fs::read_to_string(format!("{DIRECTORY}/{name}")).unwrap())
    }

    fn of_text(yaml: &str) -> Self {
        // A patch that changes nothing, without a cluster: YAML in, JSON out.
        let json = kubectl(&["patch", "--local", "-f", "-", "-p", "{}", "-o", "json"], yaml);
        Self(Deserializer::from_str(&json).into_iter().collect::<Result<_, _>>().unwrap())
    }

    /// The object of this kind and name.
    pub(crate) fn object(&mut self, kind: &str, name: &str) -> &mut Value {
        let wanted = |object: &&mut Value| object["kind"] == kind && object["metadata"]["name"] == name;
        self.0.iter_mut().find(wanted).unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// The values by which an overlay says what is copied.
    pub(crate) fn config(&mut self) -> &mut Map<String, Value> {
        self.object("ConfigMap", "icdc")["data"].as_object_mut().unwrap()
    }
}

/// The error is why the manifests cannot be rendered here.
fn check_kubectl() -> Result<(), String> {
    if !has_program("kubectl") {
        return Err("kubectl is not installed".to_owned());
    }
    let version: Value = serde_json::from_str(&kubectl(&["version", "--client", "-o", "json"], "")).unwrap();
    let minor = version["clientVersion"]["minor"].as_str().unwrap();
    if minor.trim_end_matches('+').parse::<u32>().unwrap() < OLDEST {
        let found = version["clientVersion"]["gitVersion"].as_str().unwrap();
        return Err(format!("kubectl {found} does not read these manifests, which need 1.{OLDEST} or newer"));
    }
    Ok(())
}

/// What kubectl answers to this input, without the user's configuration.
fn kubectl(words: &[&str], input: &str) -> String {
    let mut command = Command::new("kubectl");
    command.args(words).env("KUBECONFIG", "/dev/null");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
