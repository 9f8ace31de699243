//! Journals that a key which may only create tries to plant: another key's copy must not believe them.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::support::daemon::{Daemon, with_user};
use crate::support::mounts::Mount;
use crate::support::process::eventually;
use crate::support::{MIB, Site, Start, data, succeed};

/// Spellings of the name of a journal, of which some file systems take some for the same.
fn spellings(name: &str) -> Vec<String> {
    let behind = [".", " ", ". .", ":", "::$DATA", "/.", "\u{200d}", "\u{301}"];
    let mut spellings: Vec<String> = behind.iter().map(|behind| format!("{name}{behind}")).collect();
    spellings.extend([name.to_owned(), name.to_uppercase(), name.replace("icdc", "Icdc")]);
    spellings.push(name.replacen("ic", "i\u{200c}c", 1));
    spellings.push(name.replacen('.', "\u{ff0e}", 1));
    spellings.push(name.replacen("icdc", "\u{ff49}\u{ff43}\u{ff44}\u{ff43}", 1));
    spellings
}

/// A file with this text whose size and time are those of the victim's.
fn forged(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    File::options().write(true).open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Tries each spelling in `root/in` by each road, and asserts that the victim's copy believes none.
fn assert_nothing_is_believed(site: &Site) {
    let daemon = Daemon::named(site, "daemon", &format!("root=\"{}\",rights=rw", site.path("root").display()));
    let attacker = site.path("attacker");
    succeed(site.icdc(&["keygen", "--identity"]).arg(&attacker));
    let lines = site.path("daemon/authorized_keys");
    let options = with_user(&format!("root=\"{}\",rights=drop-box", site.path("root").display()));
    let key = fs::read_to_string(site.path("attacker.pub")).unwrap();
    fs::write(&lines, format!("{}\n{options} {key}", fs::read_to_string(&lines).unwrap().trim_end())).unwrap();
    let there = site.path("root/in");
    let clear = || {
        // A session may write until it has ended, after its client has.
        assert!(eventually(|| daemon.run().sessions().is_empty()), "{}", daemon.run().stderr());
        fs::read_dir(&there).unwrap().map(|entry| entry.unwrap().path()).for_each(|path| {
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        });
    };

    // The victim's copy, interrupted: its journal tells of the small file.
    forged(&site.path("tree/a"), "ours");
    data::file(&site.path("tree/b"), 40 * MIB, 1);
    let victim = |rate: &str| {
        let mut command = site.copy(&["--rate", rate, "--"]);
        command.arg(site.path("tree")).arg(daemon.location("in/")).start()
    };
    let journal = || {
        let mut entries = fs::read_dir(&there).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.extension().is_some_and(|extension| extension == "run"))
    };
    let noted = || journal().and_then(|path| fs::read(path).ok()).is_some_and(|bytes| bytes.len() >= 3 * 64);
    let run = victim("100mbit");
    assert!(eventually(|| there.join("tree/a").exists() && noted()), "the journal tells of nothing");
    run.kill();
    let path = journal().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    // Until the session at the daemon has ended, too.
    assert!(eventually(|| daemon.run().stderr().contains("was cut")), "{}", daemon.run().stderr());
    let bytes = fs::read(&path).unwrap();

    let attack = |source: &Path, to: &str| {
        let mut command = site.copy(&["--identity", attacker.to_str().unwrap(), "--"]);
        command.arg(source).arg(daemon.location(to)).start().finish()
    };
    for spelling in spellings(&name) {
        let file = site.path("loot/journal");
        fs::create_dir_all(site.path("loot/tree")).unwrap();
        fs::write(&file, &bytes).unwrap();
        let inner = site.directory("loot/inner");
        if !spelling.contains('/') {
            fs::write(inner.join(&spelling), &bytes).unwrap();
            fs::write(inner.join("first"), &bytes).unwrap();
            fs::hard_link(inner.join("first"), inner.join(format!("{spelling}."))).unwrap();
        }
        for road in ["name", "tree", "below"] {
            clear();
            forged(&site.path("loot/tree/a"), "evil");
            attack(&site.path("loot/tree"), "in/");
            let mut into = inner.clone().into_os_string();
            into.push("/");
            match road {
                "name" => drop(attack(&file, &format!("in/{spelling}"))),
                "tree" => drop(attack(Path::new(&into), "in/")),
                _ => drop(attack(&file, &format!("in/{spelling}/"))),
            }
            assert_eq!(fs::read(there.join("tree/a")).unwrap(), b"evil", "what was to be planted is not there");
            let ended = victim("10gbit").finish().expect_code(0);
            assert_eq!(fs::read(there.join("tree/a")).unwrap(), b"ours", "{road} {spelling:?}: {ended}");
            assert_eq!(ended.number("taken_over_files"), 0, "{road} {spelling:?}");
        }
        fs::remove_dir_all(site.path("loot")).unwrap();
    }
}

#[test]
fn a_drop_box_plants_no_journal() {
    let site = Site::new();
    site.directory("root/in");
    assert_nothing_is_believed(&site);
}

#[test]
fn a_drop_box_plants_no_journal_where_names_are_folded() {
    let site = Site::new();
    site.directory("root");
    let Some(_mount) = Mount::ignoring_case(site.path("root/in"), 192 * MIB) else { return };
    assert_nothing_is_believed(&site);
}
