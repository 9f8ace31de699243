//! `--send-self` to a far side with another processor: its build is sent, if there is one.

use std::fs;
use std::path::PathBuf;

use crate::support::{Ended, HERE, ICDC, Site, Start, assert_no_leftovers, assert_same};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A processor that this host does not have.
fn other() -> &'static str {
    if std::env::consts::ARCH == "aarch64" { "x86_64" } else { "aarch64" }
}

/// A far side without icdc, with another processor.
struct FarSide {
    site: Site,
    ssh: String,
}

impl FarSide {
    fn new() -> Self {
        let site = Site::new();
        fs::write(site.path("file"), "contents").unwrap();
        site.directory("far/home");
        let bin = site.directory("far/bin");
        site.program("far/bin/uname", &format!("case $1 in -m) echo {0};; *) echo Linux {0};; esac", other()));
        let far = site.path("far");
        let body = format!(
            "shift\necho login >>'{}/logins'\nHOME='{0}/home' PATH='{}':/usr/bin:/bin exec sh -c \"$*\"",
            far.display(),
            bin.display()
        );
        let ssh = site.program("ssh-other", &body);
        Self { site, ssh }
    }

    /// Where the user keeps a build for it.
    fn build(&self) -> PathBuf {
        self.site.directory(format!("data/icdc/{}", other())).join("icdc")
    }

    /// A program that stands for the build of `version` for a processor.
    fn put_build(&self, version: &str, architecture: &str) {
        self.build();
        let body = format!("# ICDC-BUILD {version} {architecture} ICDC-BUILD-END\nexec '{ICDC}' \"$@\"");
        self.site.program(&format!("data/icdc/{}/icdc", other()), &body);
    }

    fn copy(&self, destination: &str) -> Ended {
        let mut command = self.site.icdc(&["copy", "--json", "--ssh", &self.ssh, "--send-self", "--via", "direct"]);
        command.env("XDG_DATA_HOME", self.site.path("data"));
        command.arg("file").arg(self.site.on_host(HERE, destination)).run()
    }

    /// It is told why the build is not sent, and nothing is.
    fn refuses(&self, reasons: &[&str]) {
        let ended = self.copy("none").expect_code(3);
        for reason in reasons {
            assert!(ended.to_string().contains(reason), "{reason}: {ended}");
        }
        assert!(!self.site.path("none").exists());
        assert!(!self.site.path("far/home/.cache").exists(), "nothing is sent");
    }
}

#[test]
fn the_build_for_its_processor_is_sent_and_found_again() {
    let far = FarSide::new();
    far.put_build(VERSION, other());
    far.copy("one").expect_code(0);
    assert_same(&far.site.path("file"), &far.site.path("one"));
    let sent: Vec<_> = fs::read_dir(far.site.path("far/home/.cache/icdc")).unwrap().collect();
    let [Ok(sent)] = &sent[..] else { panic!("{sent:?}") };
    assert!(crate::support::compare::same_contents(&sent.path(), &far.build()));
    fs::remove_file(far.site.path("far/logins")).unwrap();
    far.copy("two").expect_code(0);
    assert_eq!(fs::read_to_string(far.site.path("far/logins")).unwrap(), "login\n", "the first login starts it");
    assert_no_leftovers(far.site.root());
}

#[test]
fn without_a_build_it_is_told_where_one_was_looked_for() {
    let far = FarSide::new();
    let place = far.build();
    let packaged = format!("/usr/lib/icdc/{}/icdc", other());
    let beside = format!("/icdc-{}", other());
    far.refuses(&["no build of icdc", &format!("Linux {}", other()), place.to_str().unwrap(), &packaged, &beside]);
}

#[test]
fn a_build_of_another_release_or_processor_is_not_sent() {
    let far = FarSide::new();
    far.put_build("9.9.9", other());
    far.refuses(&["no build of icdc", "it is icdc 9.9.9"]);
    far.site.program(&format!("data/icdc/{}/icdc", other()), "exec icdc");
    far.refuses(&["it tells no version"]);
    // This very program tells what it is.
    fs::copy(ICDC, far.build()).unwrap();
    far.refuses(&[&format!("it is for {}", std::env::consts::ARCH)]);
}
