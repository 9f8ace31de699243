//! The pods of a job, one after the other on this host: containers by `container.sh`, volumes as a
//! kubelet makes them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::manifests::Manifests;
use super::support::process::{Ended, Run, Start};
use super::support::{ICDC, Site, has_program, is_root, skip};

const RUNTIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/container.sh");
/// As in Debian's images, and where `container.sh` puts icdc.
const PATH: &str = "/image:/usr/sbin:/usr/bin:/bin";

/// False where no containers can be run, with the reason on standard error.
pub(crate) fn can_run() -> bool {
    let can = is_root() && has_program("setpriv") && has_program("unshare");
    if !can {
        skip("containers need root and the package util-linux");
    }
    can
}

/// Where the volumes of claims and secrets are.
pub(crate) struct Node<'a>(pub &'a Site);

impl Node<'_> {
    /// Volume of a claim. It belongs to root, and the group of the pods may write to it.
    pub(crate) fn claim(&self, name: &str) -> PathBuf {
        self.volume(&format!("claims/{name}"), 0o2775)
    }

    /// Makes a secret of these files.
    pub(crate) fn put_secret(&self, name: &str, files: &[(&str, PathBuf)]) {
        for (key, file) in files {
            let path = self.0.directory(format!("secrets/{name}")).join(key);
            fs::copy(file, path).unwrap();
        }
    }

    /// Volume of a secret: names that are links, files of root that the group may read as well,
    /// whatever mode is asked for.
    fn secret(&self, pod: &str, name: &str, group: u32) -> PathBuf {
        let volume = self.volume(&format!("{pod}/{name}"), 0o3777);
        let data = self.volume(&format!("{pod}/{name}/..2026_01_01"), 0o2755);
        symlink("..2026_01_01", volume.join("..data")).unwrap();
        for entry in fs::read_dir(self.0.path(format!("secrets/{name}"))).unwrap() {
            let entry = entry.unwrap();
            let file = data.join(entry.file_name());
            fs::copy(entry.path(), &file).unwrap();
            chown(&file, Some(0), Some(group)).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
            symlink(Path::new("..data").join(entry.file_name()), volume.join(entry.file_name())).unwrap();
        }
        volume
    }

    fn volume(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.path(name);
        if !path.exists() {
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(0), Some(Pod::GROUP)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        path
    }
}

/// A pod of a job.
pub(crate) struct Pod<'a> {
    node: Node<'a>,
    host: String,
    template: Value,
    index: Option<u32>,
    config: BTreeMap<String, String>,
    volumes: BTreeMap<String, PathBuf>,
}

impl<'a> Pod<'a> {
    /// `fsGroup` of the manifests.
    pub(crate) const GROUP: u32 = 10001;

    /// A new pod of job `name`, with an index if it is an indexed job.
    pub(crate) fn new(site: &'a Site, manifests: &mut Manifests, name: &str, index: Option<u32>) -> Self {
        static PODS: AtomicU32 = AtomicU32::new(0);
        let node = Node(site);
        let job = manifests.object("Job", name)["spec"].clone();
        assert_eq!(job["completionMode"] == "Indexed", index.is_some(), "{job}");
        let template = job["template"]["spec"].clone();
        assert_eq!(template["securityContext"]["fsGroup"], Self::GROUP);
        let directory = format!("pods/{}", PODS.fetch_add(1, Ordering::Relaxed));
        let volumes = template["volumes"].as_array().unwrap().iter().map(|volume| {
            let name = volume["name"].as_str().unwrap().to_owned();
            let path = if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
                node.claim(claim)
            } else if let Some(secret) = volume["secret"]["secretName"].as_str() {
                node.secret(&directory, secret, Self::GROUP)
            } else {
                assert!(volume["emptyDir"].is_object(), "{volume}");
                node.volume(&format!("{directory}/{name}"), 0o2777)
            };
            (name, path)
        });
        let volumes = volumes.collect();
        let config = manifests.config().iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
        let host = index.map_or_else(|| name.to_owned(), |index| format!("{name}-{index}"));
        Self { node, host, template, index, config: config.collect(), volumes }
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> Ended {
        self.start().finish()
    }

    /// Runs its init containers, and starts the container.
    pub(crate) fn start(&self) -> Run {
        let first = self.template["initContainers"].as_array();
        for container in first.into_iter().flatten() {
            self.container(container).run().expect_code(0);
        }
        self.start_container()
    }

    /// Starts the init container `name`.
    pub(crate) fn start_init(&self, name: &str) -> Run {
        let first = self.template["initContainers"].as_array().unwrap();
        self.container(first.iter().find(|container| container["name"] == name).unwrap()).start()
    }

    fn start_container(&self) -> Run {
        let containers = self.template["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 1);
        self.container(&containers[0]).start()
    }

    fn container(&self, container: &Value) -> Command {
        let environment = self.environment(container);
        let security = &self.template["securityContext"];
        let mut command = Command::new("unshare");
        command.args(["--mount", "--uts", "--propagation", "private", "sh", RUNTIME]);
        command.arg(self.node.0.directory("root")).args([&self.host, ICDC]);
        for number in ["runAsUser", "runAsGroup", "fsGroup"] {
            command.arg(security[number].to_string());
        }
        for mount in container["volumeMounts"].as_array().unwrap() {
            let volume = &self.volumes[mount["name"].as_str().unwrap()];
            command.arg(volume.join(mount["subPath"].as_str().unwrap_or_default()));
            command.arg(mount["mountPath"].as_str().unwrap());
            command.arg(if mount["readOnly"] == true { "ro" } else { "rw" });
        }
        command.arg("--");
        for part in ["command", "args"] {
            for word in container[part].as_array().into_iter().flatten() {
                command.arg(word.as_str().unwrap());
            }
        }
        command.env_clear().envs(environment);
        command
    }

    fn environment(&self, container: &Value) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]);
        for source in container["envFrom"].as_array().into_iter().flatten() {
            assert_eq!(source["configMapRef"]["name"], "icdc");
            environment.extend(self.config.clone());
        }
        for variable in container["env"].as_array().into_iter().flatten() {
            let text = |part: &str| variable[part].as_str().unwrap().to_owned();
            environment.insert(text("name"), text("value"));
        }
        environment.extend(self.index.map(|index| ("JOB_COMPLETION_INDEX".to_owned(), index.to_string())));
        environment
    }
}

/// What the job's `podFailurePolicy` does about an exit code of its container; `None` if the pod
/// counts as one of the failures that are allowed.
pub(crate) fn action(manifests: &mut Manifests, job: &str, code: i32) -> Option<String> {
    let rules = manifests.object("Job", job)["spec"]["podFailurePolicy"]["rules"].as_array().unwrap().clone();
    let rule = rules.iter().find(|rule| {
        let codes = &rule["onExitCodes"];
        codes["operator"] == "In" && codes["values"].as_array().unwrap().contains(&code.into())
    });
    rule.map(|rule| rule["action"].as_str().unwrap().to_owned())
}
