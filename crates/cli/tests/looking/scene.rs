//! A site whose trees are reached on this host, by ssh and at a daemon.

#![allow(dead_code, reason = "each test program uses a part")]

use std::ffi::OsString;
use std::path::PathBuf;

use crate::support::daemon::Daemon;
use crate::support::{Ended, Site, Start};

/// How a tree is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Here,
    Ssh,
    Daemon,
}

impl Reach {
    pub(crate) const ALL: [Self; 3] = [Self::Here, Self::Ssh, Self::Daemon];
}

pub(crate) struct Scene {
    pub(crate) site: Site,
    ssh: String,
    daemon: Daemon,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with_rights("r")
    }

    /// A site whose daemon's key has these rights.
    pub(crate) fn with_rights(rights: &str) -> Self {
        let site = Site::new();
        let daemon = Daemon::start(&site, site.root(), rights);
        let ssh = site.ssh();
        Self { site, ssh, daemon }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.site.path(name)
    }

    /// A path of the site as it is addressed.
    pub(crate) fn place(&self, reach: Reach, name: &str) -> OsString {
        match reach {
            Reach::Here => name.into(),
            Reach::Ssh => self.site.by_ssh(name),
            Reach::Daemon => self.daemon.location(name).into(),
        }
    }

    /// Runs a command with these options on these places.
    pub(crate) fn run(&self, words: &[&str], places: &[OsString]) -> Ended {
        let mut command =
            self.site.icdc(&[words, &["--ssh", &self.ssh, "--remote-icdc", crate::support::ICDC]].concat());
        command.args(places).run()
    }

    /// Runs a command on one place, however that is reached: what it prints is the same.
    #[track_caller]
    pub(crate) fn same_everywhere(&self, words: &[&str], name: &str, code: i32) -> String {
        let texts = Reach::ALL.map(|reach| {
            let ended = self.run(words, &[self.place(reach, name)]).expect_code(code);
            ended.text.clone()
        });
        assert_eq!(texts[0], texts[1], "{words:?} by ssh");
        assert_eq!(texts[0], texts[2], "{words:?} at a daemon");
        let [text, ..] = texts;
        text
    }
}
