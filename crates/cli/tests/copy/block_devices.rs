//! `--copy-devices` and `--write-device`: the contents of a block device as a file, and a file in a
//! block device.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::compare::same_contents;
use crate::support::daemon::Daemon;
use crate::support::data::Noise;
use crate::support::mounts::{LoopDevice, Mount};
use crate::support::process::eventually;
use crate::support::{
    Ended, KIB, MIB, Route, RoutedSite, Run, Signal, Site, Start, assert_no_leftovers, bytes_done, data, skip,
};

/// Size of the devices: no multiple of a block nor of a page.
const SIZE: u64 = 21 * MIB + 512 * KIB + 3 * 512;
/// Unit in which contents are compared.
const LEAF: u64 = 64 * KIB;
/// Routes to an end within this user's rights, by which any device may be used.
const ROUTES: [Route; 3] = [Route::Local, Route::Push, Route::Pull];

/// A device of `SIZE` bytes of noise, which the link `device` of the site leads to.
fn device(site: &Site) -> Option<LoopDevice> {
    device_of(site, "device", SIZE)
}

/// A device of so many bytes of noise, which the link `name` of the site leads to.
fn device_of(site: &Site, name: &str, bytes: u64) -> Option<LoopDevice> {
    let image = data::file(&site.path(format!("{name}.contents")), bytes, 99);
    let device = LoopDevice::of(image)?;
    symlink(device.node(), site.path(name)).unwrap();
    Some(device)
}

/// Contents of the device, past every cache of its node.
fn contents(device: &LoopDevice) -> Vec<u8> {
    let file = File::open(device.node()).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut contents = vec![0; file_size(device.image()) as usize];
    file.read_exact_at(&mut contents, 0).unwrap();
    contents
}

fn file_size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Asserts that the device begins with the source, and has behind it what it had.
fn assert_written(device: &LoopDevice, source: &Path, before: &[u8], ended: &Ended) {
    let (now, source) = (contents(device), fs::read(source).unwrap());
    assert!(now[..source.len()] == source, "the device differs from the source: {ended}");
    assert!(now[source.len()..] == before[source.len()..], "what is behind the file has changed: {ended}");
}

#[test]
fn a_file_is_written_into_a_device_and_what_is_behind_it_stays() {
    for route in ROUTES {
        for (number, size) in [1, 1000, 256 * KIB, MIB, 4 * MIB, 9 * MIB + 123, SIZE].into_iter().enumerate() {
            let routed = RoutedSite::new(route);
            let Some(device) = device(&routed.site) else { return };
            let source = data::file(&routed.path("source"), size, number as u64);
            let before = contents(&device);
            let ended = routed.copy(&["--write-device"], &["source"], "device").expect_code(0);
            assert_written(&device, &source, &before, &ended);
            assert_eq!((ended.number("files"), ended.number("bytes")), (1, size), "{route:?}: {ended}");
            assert_eq!(ended.summary()["read_back"], true, "{ended}");
            assert_eq!(ended.summary()["digest"], blake3::hash(&fs::read(&source).unwrap()).to_hex().as_str());
            assert!(fs::symlink_metadata(routed.path("device")).unwrap().is_symlink());
            assert_no_leftovers(routed.site.root());
            assert!(
                !Path::new("/dev")
                    .read_dir()
                    .unwrap()
                    .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with(".icdc") })
            );
        }
    }
}

#[test]
fn a_device_arrives_as_an_image_of_it() {
    for route in ROUTES {
        for size in [64 * KIB, SIZE] {
            let routed = RoutedSite::new(route);
            let Some(device) = device_of(&routed.site, "device", size) else { return };
            let ended = routed.copy(&["--copy-devices"], &["device"], "image").expect_code(0);
            assert!(fs::read(routed.path("image")).unwrap() == contents(&device), "{route:?}: {ended}");
            assert_eq!(ended.number("bytes"), size, "{route:?}: {ended}");
            // Among others it keeps the name by which it was called, and nothing in a directory is read.
            fs::create_dir(routed.path("tree")).unwrap();
            symlink(device.node(), routed.path("tree/link")).unwrap();
            let ended = routed.copy(&["--copy-devices"], &["device", "tree"], "copies/").expect_code(0);
            assert_eq!(file_size(&routed.path("copies/device")), size, "{ended}");
            assert!(fs::symlink_metadata(routed.path("copies/tree/link")).unwrap().is_symlink(), "{ended}");
            assert_no_leftovers(routed.site.root());
        }
    }
}

#[test]
fn a_device_is_copied_into_a_device() {
    let site = Site::new();
    let (Some(one), Some(other)) = (device(&site), device_of(&site, "other", SIZE + MIB)) else { return };
    File::options().write(true).open(one.node()).unwrap().write_all_at(b"something else", 5 * MIB).unwrap();
    let options = ["--copy-devices", "--write-device", "device"];
    let ended = site.copy(&options).arg(site.path("other")).run().expect_code(0);
    assert!(contents(&other)[..SIZE as usize] == contents(&one), "{ended}");
    let ended = site.copy(&options).arg(site.path("device")).run().expect_code(2);
    assert!(ended.stderr.contains("cannot be copied into itself"), "{ended}");
}

#[test]
fn holes_of_the_source_become_zeros_in_the_device() {
    for route in ROUTES {
        let routed = RoutedSite::new(route);
        let Some(device) = device(&routed.site) else { return };
        let source = routed.path("source");
        data::sparse(&source, 17 * MIB + 5, 3, &[(5 * MIB, 100), (9 * MIB - 3, 70_000)]);
        let before = contents(&device);
        let ended = routed.copy(&["--write-device"], &["source"], "device").expect_code(0);
        assert_written(&device, &source, &before, &ended);
    }
}

#[test]
fn only_what_differs_from_the_device_travels() {
    let routed = RoutedSite::new(Route::Push);
    let Some(device) = device(&routed.site) else { return };
    let source = data::file(&routed.path("source"), 13 * MIB + 77, 5);
    let before = contents(&device);
    routed.copy(&["--write-device"], &["source"], "device").expect_code(0);
    let ended = routed.copy(&["--write-device"], &["source"], "device").expect_code(0);
    assert_eq!(ended.number("bytes_sent"), 0, "{ended}");
    assert_written(&device, &source, &before, &ended);
    let file = OpenOptions::new().write(true).open(&source).unwrap();
    file.write_all_at(b"changed", 6 * MIB).unwrap();
    drop(file);
    let ended = routed.copy(&["--write-device"], &["source"], "device").expect_code(0);
    assert_eq!(ended.number("bytes_sent"), LEAF, "{ended}");
    assert_written(&device, &source, &before, &ended);
    let ended = routed.copy(&["--write-device", "--whole-file"], &["source"], "device").expect_code(0);
    assert_eq!(ended.number("bytes_sent"), 13 * MIB + 77, "{ended}");
}

#[test]
fn a_device_that_is_too_small_is_left_alone() {
    for route in ROUTES {
        let routed = RoutedSite::new(route);
        let Some(device) = device(&routed.site) else { return };
        data::file(&routed.path("source"), SIZE + 1, 5);
        let before = contents(&device);
        for options in [&["--write-device"][..], &["--write-device", "--dry-run"]] {
            let ended = routed.copy(options, &["source"], "device").expect_code(1);
            let words = format!("the device has {SIZE} bytes, too few for the {} of the file", SIZE + 1);
            assert!(ended.stderr.contains(&words), "{route:?}: {ended}");
            assert!(contents(&device) == before, "{route:?}: {ended}");
        }
        data::file(&routed.path("fits"), SIZE, 6);
        routed.copy(&["--write-device", "--dry-run"], &["fits"], "device").expect_code(0);
        assert!(contents(&device) == before, "{route:?}: a dry run writes nothing");
    }
}

#[test]
fn a_device_in_use_is_left_alone() {
    for route in ROUTES {
        let routed = RoutedSite::new(route);
        let Some(device) = device(&routed.site) else { return };
        data::file(&routed.path("source"), MIB, 5);
        let before = contents(&device);
        let held = File::options().read(true).custom_flags(libc::O_EXCL).open(device.node()).unwrap();
        let ended = routed.copy(&["--write-device"], &["source"], "device").expect_code(2);
        assert!(ended.stderr.contains("is in use"), "{route:?}: {ended}");
        assert!(contents(&device) == before, "{route:?}: {ended}");
        drop(held);
        routed.copy(&["--write-device"], &["source"], "device").expect_code(0);
    }
}

#[test]
fn a_device_that_is_mounted_or_has_a_mounted_partition_is_left_alone() {
    let site = Site::new();
    let Some(device) = device(&site) else { return };
    // A table with one partition, from 1 MiB on.
    let mut table = [0; 512];
    table[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x80, 0, 0]);
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    File::options().write(true).open(device.node()).unwrap().write_all_at(&table, 0).unwrap();
    let image = device.image().to_owned();
    drop(device);
    fs::remove_file(site.path("device")).unwrap();
    let Some(device) = LoopDevice::of(image) else { return };
    data::file(&site.path("source"), MIB, 5);
    let refused = |node: &Path, mounted: &Path| {
        crate::support::succeed(Command::new("/sbin/mkfs.ext4").args(["-q", "-F"]).arg(mounted));
        let Some(mount) = Mount::device(mounted, site.path("mounted")) else { return };
        let ended = site.copy(&["--write-device", "source"]).arg(node).run().expect_code(2);
        assert!(ended.stderr.contains("mounted"), "{ended}");
        // A mounted file system writes what it likes, but nothing of the source.
        let source = fs::read(site.path("source")).unwrap();
        let is_of_source = |place: (&[u8], &[u8])| place.0 == place.1;
        assert!(!contents(&device).chunks(512).zip(source.chunks(512)).any(is_of_source), "{ended}");
        drop(mount);
        assert!(eventually(|| File::options().read(true).custom_flags(libc::O_EXCL).open(node).is_ok()));
    };
    // Where no udev makes nodes, nobody has made that of the partition.
    let name = device.node().file_name().unwrap().to_str().unwrap();
    match fs::read_to_string(format!("/sys/class/block/{name}p1/dev")) {
        Ok(number) => {
            let (major, minor) = number.trim().split_once(':').unwrap();
            let partition = site.path("partition");
            crate::support::succeed(Command::new("mknod").arg(&partition).args(["b", major, minor]));
            refused(device.node(), &partition);
        }
        Err(error) => skip(&format!("no partitions of loop devices: {error}")),
    }
    refused(device.node(), device.node());
}

#[test]
fn nothing_but_a_device_is_written_and_no_device_without_the_option() {
    for route in ROUTES {
        let routed = RoutedSite::new(route);
        let Some(device) = device(&routed.site) else { return };
        data::file(&routed.path("source"), MIB, 5);
        fs::write(routed.path("file"), "kept").unwrap();
        fs::create_dir(routed.path("directory")).unwrap();
        let before = contents(&device);
        for (source, destination, words) in [
            ("source", "file", "is a regular file, not a block device"),
            ("source", "directory", "not a block device"),
            ("source", "missing", "no such file or directory"),
            ("directory", "device", "writes one file into a device"),
        ] {
            let ended = routed.copy(&["--write-device"], &[source], destination).expect_code(2);
            assert!(ended.stderr.contains(words), "{route:?} {destination}: {ended}");
        }
        let ended = routed.copy(&[], &["source"], "device").expect_code(2);
        assert!(ended.stderr.contains("block device"), "{route:?}: {ended}");
        let ended = routed.copy(&["--write-device"], &["source", "file"], "device").expect_code(2);
        assert!(ended.stderr.contains("writes one file into a device"), "{route:?}: {ended}");
        assert_eq!(fs::read(routed.path("file")).unwrap(), b"kept");
        assert!(!routed.path("missing").exists() && contents(&device) == before, "{route:?}");
    }
}

#[test]
fn options_without_a_meaning_for_a_device_are_refused() {
    let site = Site::new();
    fs::write(site.path("source"), "x").unwrap();
    for options in [
        &["--write-device", "--delete"][..],
        &["--write-device", "--backup-dir", "kept"],
        &["--write-device", "--skip-equal"],
        &["--write-device", "--move"],
        &["--copy-devices", "--move"],
        &["--copy-devices", "--follow"],
        &["--copy-devices", "--skip-equal"],
    ] {
        let ended = site.copy(options).args(["source", "copy"]).run().expect_code(2);
        let is_told = ["cannot be used with", "--skip-equal"].iter().any(|words| ended.stderr.contains(words));
        assert!(is_told && !site.path("copy").exists(), "{options:?}: {ended}");
    }
    let ended = site.copy(&["--write-device", "-", "copy"]).run().expect_code(2);
    assert!(ended.stderr.contains("needs a source with a size"), "{ended}");
}

/// Starts to write 20 MiB into the device, slowly, and waits until some of it is there.
fn slowly(routed: &RoutedSite) -> Run {
    data::file(&routed.path("source"), 20 * MIB, 5);
    let run = routed.start(&["--write-device", "--rate", "80mbit"], &["source"], "device");
    assert!(run.wait_for(|event| bytes_done(event) > 6 * MIB), "{}", run.stderr());
    run
}

#[test]
fn the_same_command_completes_a_device_after_a_kill() {
    for route in ROUTES {
        for is_killed in [true, false] {
            let routed = RoutedSite::new(route);
            let Some(device) = device(&routed.site) else { return };
            let before = contents(&device);
            let run = slowly(&routed);
            if is_killed {
                run.kill();
            } else {
                run.signal(Signal::INT);
                let ended = run.finish().expect_code(4);
                assert!(ended.stderr.contains("parts of its old and of its new contents"), "{route:?}: {ended}");
            }
            let ended = routed.copy(&["--write-device"], &["source"], "device").expect_code(0);
            assert_written(&device, &routed.path("source"), &before, &ended);
            if route == Route::Push {
                assert!(ended.number("bytes_sent") < 20 * MIB, "what the device has is not sent: {ended}");
            }
            assert_no_leftovers(routed.site.root());
        }
    }
}

/// Copies `later`, with an option, to the `place` that the copy `first` writes: that is refused with `--if-running fail`, and
/// otherwise waits for its end.
pub(crate) fn later_waits_for(first: Run, routed: &RoutedSite, option: &str, place: &str) -> Ended {
    data::file(&routed.path("later"), 2 * MIB, 6);
    // However long the later ones take to begin, the first one has not ended.
    first.signal(Signal::STOP);
    let ended = routed.copy(&[option, "--if-running", "fail"], &["later"], place).expect_code(2);
    assert!(ended.stderr.contains("another icdc"), "{ended}");
    let second = routed.start(&[option], &["later"], place);
    assert!(second.wait_for(|event| event["type"] == "running"), "{}", second.stderr());
    first.signal(Signal::CONT);
    first.finish().expect_code(0);
    second.finish().expect_code(0)
}

#[test]
fn another_icdc_that_writes_the_device_is_waited_for() {
    let routed = RoutedSite::new(Route::Local);
    let Some(device) = device(&routed.site) else { return };
    let before = contents(&device);
    let first = slowly(&routed);
    let ended = later_waits_for(first, &routed, "--write-device", "device");
    let now = contents(&device);
    assert!(now[..2 * MIB as usize] == fs::read(routed.path("later")).unwrap(), "{ended}");
    let rest = 2 * MIB as usize..20 * MIB as usize;
    assert!(now[rest.clone()] == fs::read(routed.path("source")).unwrap()[rest], "{ended}");
    assert!(now[20 * MIB as usize..] == before[20 * MIB as usize..], "{ended}");
}

#[test]
fn what_the_device_gives_back_is_compared() {
    for route in [Route::Local, Route::Push] {
        let routed = RoutedSite::new(route);
        let Some(device) = device(&routed.site) else { return };
        let run = slowly(&routed);
        // Another program writes where the first block is, as a disk that forgets it.
        let node = File::options().write(true).open(device.node()).unwrap();
        assert!(eventually(|| {
            node.write_all_at(b"damage", MIB).unwrap();
            run.has_ended()
        }));
        drop(node);
        let ended = run.finish().expect_code(1);
        assert!(ended.stderr.contains("what the medium gives back differs"), "{route:?}: {ended}");
        assert!(ended.stderr.contains("parts of its old and of its new contents"), "{route:?}: {ended}");
        routed.copy(&["--write-device"], &["source"], "device").expect_code(0);
    }
}

#[test]
fn a_device_that_shrinks_changes_or_cannot_be_read_is_told() {
    for route in ROUTES {
        for trouble in ["shrinks", "is written", "cannot be read"] {
            let routed = RoutedSite::new(route);
            // Longer than what is read ahead.
            let (size, end) = (640 * MIB, 144 * MIB);
            File::create(routed.path("contents")).unwrap().set_len(size).unwrap();
            let Some(device) = LoopDevice::of(routed.path("contents")) else { return };
            symlink(device.node(), routed.path("device")).unwrap();
            let options = ["--copy-devices", "--rate", "200mbit", "--compress", "never"];
            let options = if route == Route::Local { &options[..3] } else { &options[..] };
            let run = routed.start(options, &["device"], "image");
            assert!(run.wait_for(|event| bytes_done(event) > 0), "{}", run.stderr());
            let words = match trouble {
                "shrinks" => {
                    device.resize(end);
                    format!("shrank from {size} to {end} bytes while it was read: from offset {end}")
                }
                "is written" => {
                    File::options().write(true).open(device.node()).unwrap().write_all_at(b"changed", end).unwrap();
                    "changed while it was read".to_owned()
                }
                _ => {
                    device.truncate(end);
                    format!("offset {end}")
                }
            };
            let ended = run.finish().expect_code(1);
            assert!(ended.stderr.contains(&words), "{route:?} {words}: {ended}");
            assert!(!routed.path("image").exists(), "{route:?}: {ended}");
        }
    }
}

#[test]
fn an_image_of_an_earlier_run_is_not_continued_from_a_device_that_may_have_changed() {
    for route in [Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        let Some(device) = device(&routed.site) else { return };
        let run = routed.start(&["--copy-devices", "--rate", "80mbit"], &["device"], "image");
        assert!(run.wait_for(|event| bytes_done(event) > 12 * MIB), "{}", run.stderr());
        run.kill();
        // Past the node, as a mounted file system would.
        let file = File::options().write(true).open(device.image()).unwrap();
        file.write_all_at(&Noise::new(4).bytes(MIB as usize), MIB).unwrap();
        file.sync_all().unwrap();
        let ended = routed.copy(&["--copy-devices"], &["device"], "image").expect_code(0);
        assert!(same_contents(device.image(), &routed.path("image")), "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn only_a_key_with_all_rights_on_the_whole_host_uses_devices() {
    let site = Site::new();
    let Some(device) = device(&site) else { return };
    let source = data::file(&site.path("source"), 5 * MIB, 5);
    let before = contents(&device);
    let root = site.root().display();
    let grants = [
        format!("root=\"{root}\",rights=rw"),
        "root=/,rights=w".to_owned(),
        "root=/,rights=r".to_owned(),
        "root=/,rights=drop-box".to_owned(),
    ];
    let node = device.node().to_str().unwrap();
    for (number, grant) in grants.iter().enumerate() {
        let daemon = Daemon::named(&site, &format!("daemon{number}"), grant);
        let place = if number == 0 { "device" } else { node };
        let written = site.copy(&["--write-device", "source"]).arg(daemon.location(place)).run().expect_code(3);
        let read = site.copy(&["--copy-devices"]).arg(daemon.location(place)).arg("image").run().expect_code(3);
        for ended in [written, read] {
            assert!(ended.stderr.contains("may not"), "{grant}: {ended}");
        }
        assert!(contents(&device) == before && !site.path("image").exists(), "{grant}");
    }
    let daemon = Daemon::named(&site, "daemon", "root=/,rights=rw");
    let ended = site.copy(&["--write-device", "source"]).arg(daemon.location(node)).run().expect_code(0);
    assert_written(&device, &source, &before, &ended);
    let ended = site.copy(&["--copy-devices"]).arg(daemon.location(node)).arg("image").run().expect_code(0);
    assert!(fs::read(site.path("image")).unwrap() == contents(&device), "{ended}");
}
