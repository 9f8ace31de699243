//! The other end as a release of version 2 was: what it said in a push and in a pull is played against
//! this release, which must not notice.
//!
//! The recordings are made by two ends of one release with a third between them. They are made anew, by
//! `cargo test -p icdc --test versions recordings_are_made -- --ignored`, only as long as no release has
//! the version that they are of; a later version gets recordings of its own beside these.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use icdc_trust::Identity;

use crate::peer::Server;
use crate::recording::{End, Recording};
use crate::support::daemon::{Daemon, location};
use crate::support::{Site, Start, assert_no_leftovers, assert_same};
use crate::wire::Wire;

const PUSH: &str = "version-2-push";
const PULL: &str = "version-2-pull";
/// What is copied: a file that is packed, and one with a block of which most is a hole.
const FILES: [&str; 2] = ["small", "large"];

/// Makes what is copied, the same everywhere.
fn make_files(directory: &Path) {
    let small = File::create(directory.join("small")).unwrap();
    small.write_all_at(&[b"as the last release sent it\n".repeat(9)].concat(), 0).unwrap();
    let large = File::create(directory.join("large")).unwrap();
    large.set_len(5 << 20).unwrap();
    large.write_all_at(&[7; 4096], 1 << 20).unwrap();
    for file in [small, large] {
        file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000))).unwrap();
    }
}

/// A client with an identity, and the same files everywhere that something is copied from.
struct Scene {
    site: Site,
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        for place in ["files", "root", "root/in", "in"] {
            crate::support::open_to_all(&site.directory(place));
        }
        make_files(&site.path("files"));
        make_files(&site.path("root"));
        Self { site }
    }

    fn daemon(&self) -> Daemon {
        Daemon::start(&self.site, &self.site.path("root"), "rw")
    }

    fn identity(&self) -> Identity {
        Identity::load(&self.site.path("home/.config/icdc/identity")).unwrap()
    }

    /// Pushes to a server, or pulls from it.
    fn copy(&self, name: &str, port: u16) -> crate::support::Ended {
        // What zstd makes of the same data may change with its version.
        let mut command = self.site.copy(&["--streams", "1", "--cc", "cubic", "--compress", "never"]);
        match name {
            PUSH => command.args(FILES.map(|file| self.site.path("files").join(file))).arg(location(port, "in/")),
            _ => command.args(FILES.map(|file| location(port, file))).arg("in/"),
        };
        command.run()
    }

    #[track_caller]
    fn assert_copied(&self, to: &str) {
        for file in FILES {
            assert_same(&self.site.path("files").join(file), &self.site.path(to).join(file));
        }
        assert_no_leftovers(&self.site.path(to));
    }
}

/// The connection by which a client asks for something: it connects once more where the first connection,
/// which told it the server's key, is old by then.
fn asking(server: &Server) -> Wire {
    loop {
        let mut wire = Wire::accept(server);
        if wire.has_frame() {
            return wire;
        }
    }
}

/// This release's client and a server of version 2.
fn client_meets(name: &str, recording: &Recording) -> crate::support::Ended {
    let scene = Scene::new();
    let server = Server::new(&scene.site);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = asking(&server);
            assert_eq!(wire.version(), "icdc/2");
            recording.play(End::Server, &mut wire);
        });
        scene.copy(name, server.port()).expect_code(0)
    });
    assert_eq!(ended.summary()["files"], 2, "{ended}");
    if name == PULL {
        scene.assert_copied("in");
    }
    ended
}

/// This release's daemon and a client of version 2.
fn daemon_meets(name: &str, recording: &Recording) {
    let scene = Scene::new();
    let daemon = scene.daemon();
    let mut wire = Wire::connect(&scene.identity(), &daemon);
    assert_eq!(wire.version(), "icdc/2");
    recording.play(End::Client, &mut wire);
    if name == PUSH {
        scene.assert_copied("root/in");
    }
    assert!(daemon.run().wait_for_words("complete"), "{}", daemon.run().stderr());
}

#[test]
fn the_last_release_pushes_to_this_one() {
    daemon_meets(PUSH, &Recording::load(PUSH));
}

#[test]
fn the_last_release_pulls_from_this_one() {
    daemon_meets(PULL, &Recording::load(PULL));
}

#[test]
fn this_release_pushes_to_the_last_one() {
    client_meets(PUSH, &Recording::load(PUSH));
}

#[test]
fn this_release_pulls_from_the_last_one() {
    client_meets(PULL, &Recording::load(PULL));
}

/// An end of the last release that has no features, or ones that this release has never heard of.
#[test]
fn what_the_other_end_lacks_or_has_besides_changes_nothing_that_is_not_used() {
    for features in [0, u64::MAX] {
        let accepted = icdc_protocol::Message::Accepted(icdc_protocol::Features::from_bits(features));
        let mut frame = Vec::new();
        icdc_protocol::frame::encode(&accepted, 0, &mut frame).unwrap();
        for name in [PUSH, PULL] {
            let ended = client_meets(name, &Recording::load(name).with(&frame));
            assert!(ended.all("notice").next().is_none(), "{ended}");
        }
    }
}

#[test]
#[ignore = "writes the recordings"]
fn recordings_are_made() {
    for name in [PUSH, PULL] {
        let scene = Scene::new();
        let (daemon, server) = (scene.daemon(), Server::new(&scene.site));
        let mut recording = Recording::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = asking(&server);
                let mut far = Wire::connect(&scene.identity(), &daemon);
                while !client.has_ended() || !far.has_ended() {
                    pass_on(End::Client, &mut client, &mut far, &mut recording);
                    pass_on(End::Server, &mut far, &mut client, &mut recording);
                }
            });
            scene.copy(name, server.port()).expect_code(0);
        });
        scene.assert_copied(if name == PUSH { "root/in" } else { "in" });
        recording.save(name);
    }
}

/// Hands on what has come from one end, and its farewell.
fn pass_on(end: End, from: &mut Wire, to: &mut Wire, recording: &mut Recording) {
    let ended = from.has_ended();
    while let Some(frame) = from.frame() {
        to.send(&frame);
        recording.frames.push((end, frame));
    }
    if from.has_ended() && !ended {
        to.say_farewell();
    }
}
