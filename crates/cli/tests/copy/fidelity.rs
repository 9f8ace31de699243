//! What a copy carries: names of any bytes, links, holes, modes, times, owners, attributes; and
//! that the digest is the file's.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, getxattr, setxattr, utimensat};

use crate::support;
use crate::support::{
    KIB, MIB, Route, RoutedSite, Shape, Site, Start, assert_no_leftovers, assert_same, data, is_root, skip,
};

/// Name, size, and where the data is: (offset, length).
type Sparse<'a> = (&'a str, u64, &'a [(u64, u64)]);

const TIB: u64 = 1 << 40;

/// Sets the modification time of an item, links included.
fn touch(path: &Path, seconds: i64, nanos: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn mtime(path: &Path) -> (i64, i64) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.mtime(), metadata.mtime_nsec())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_tree_of_everything_arrives_the_same_by_every_way() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let source = data::tree(
            &routed.path("tree"),
            5,
            &Shape { large: vec![9 * MIB + 5, 4 * MIB, 300 * KIB], ..Shape::default() },
        );
        let ended = routed.copy(&[], &["tree"], "copy").expect_code(0);
        assert_same(&source, &routed.path("copy"));
        assert_eq!(ended.number("bytes"), data::size(&source), "{ended}");
        assert_eq!(ended.summary()["verified"], true, "{ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn names_are_bytes() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        fs::create_dir(&tree).unwrap();
        // Every byte that a name can hold, alone and between others.
        for byte in (1..=255_u8).filter(|byte| *byte != b'/') {
            fs::write(tree.join(OsStr::from_bytes(&[b'x', byte, b'y'])), [byte]).unwrap();
            if byte != b'.' {
                fs::write(tree.join(OsStr::from_bytes(&[byte])), [byte]).unwrap();
            }
        }
        let odd: [&[u8]; 9] =
            [b"...", b"..x", b"-", b"--json", b"~", b".icdc-", b".icdc-0123456789abcdef.other", b"icdc:", b"\xc3\x28"];
        for name in odd {
            fs::write(tree.join(OsStr::from_bytes(name)), name).unwrap();
        }
        let deep = [b'd'; 255];
        let mut nested = tree.clone();
        for _ in 0..3 {
            nested.push(OsStr::from_bytes(&deep));
            fs::create_dir(&nested).unwrap();
        }
        fs::write(nested.join(OsStr::from_bytes(&[b'f'; 255])), "deep").unwrap();
        symlink(OsStr::from_bytes(b"\xff\n\x01"), tree.join(OsStr::from_bytes(b"link\xfe"))).unwrap();
        routed.copy(&[], &["tree"], "copy").expect_code(0);
        assert_same(&tree, &routed.path("copy"));
        assert_eq!(support::leftovers(&routed.path("copy")).len(), 2, "only those that are named alike");
    }
}

#[test]
fn sources_and_destinations_may_have_any_name() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for (number, name) in [&b"-rf"[..], b"new\nline", b"\xff\xfe\x80", b"a b'c\"d$(e)`f`;g", b"x:y", &[b'n'; 255]]
            .into_iter()
            .enumerate()
        {
            let name = OsStr::from_bytes(name);
            fs::write(routed.path(name), name.as_bytes()).unwrap();
            let into = format!("into-{number}/");
            let address = |path: &Path, far: bool| {
                if far { routed.destination(path) } else { routed.source(path) }
            };
            let mut command = routed.site.copy(&["--ssh", &routed.site.ssh(), "--"]);
            command.arg(address(Path::new(name), false)).arg(address(Path::new(&into), true));
            support::Start::run(&mut command).expect_code(0);
            assert_same(&routed.path(name), &routed.path(&into).join(name));
            let mut command = routed.site.copy(&["--ssh", &routed.site.ssh(), "--"]);
            let other = Path::new("other").join(name);
            fs::create_dir_all(routed.path("other")).unwrap();
            command.arg(address(Path::new(name), false)).arg(address(&other, true));
            support::Start::run(&mut command).expect_code(0);
            assert_same(&routed.path(name), &routed.path(&other));
        }
    }
}

#[test]
fn modes_and_times_are_kept_to_the_bit_and_the_nanosecond() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        fs::create_dir_all(tree.join("closed/inner")).unwrap();
        let mut modes = vec![0o444, 0o400, 0o777, 0o640, 0o1755];
        if is_root() {
            modes.extend([0o000, 0o222]);
        }
        for (number, size) in [0, 10, 5 * MIB].into_iter().enumerate() {
            for &bits in &modes {
                let file = data::file(&tree.join(format!("{number}-{bits:o}")), size, size);
                set_mode(&file, bits);
            }
        }
        let times = [
            (0, 0),
            (-1, 999_999_999),
            (-86_400 * 365 * 10, 1),
            (1_000_000_000, 123_456_789),
            (1 << 31, 7),
            (5_000_000_000, 999_999_999),
        ];
        for (number, (seconds, nanos)) in times.into_iter().enumerate() {
            for (kind, size) in [("small", 5), ("large", 300 * KIB)] {
                touch(&data::file(&tree.join(format!("{kind}-{number}")), size, 1), seconds, nanos);
            }
            fs::create_dir(tree.join(format!("dir-{number}"))).unwrap();
            symlink("nowhere", tree.join(format!("link-{number}"))).unwrap();
            touch(&tree.join(format!("dir-{number}")), seconds, nanos);
            touch(&tree.join(format!("link-{number}")), seconds, nanos);
        }
        fs::write(tree.join("closed/inner/file"), "x").unwrap();
        set_mode(&tree.join("closed/inner"), 0o500);
        set_mode(&tree.join("closed"), 0o555);
        touch(&tree.join("closed"), -5, 5);
        routed.copy(&[], &["tree"], "copy").expect_code(0);
        let copy = routed.path("copy");
        assert_same(&tree, &copy);
        for &bits in &modes {
            assert_eq!(mode(&copy.join(format!("2-{bits:o}"))), bits, "{route:?}");
        }
        for (number, time) in times.into_iter().enumerate() {
            assert_eq!(mtime(&copy.join(format!("link-{number}"))), time, "{route:?}");
        }
        // A read-only tree can be copied over once more.
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        for directory in [&tree, &copy] {
            set_mode(&directory.join("closed"), 0o755);
            set_mode(&directory.join("closed/inner"), 0o755);
        }
    }
}

#[test]
fn set_id_bits_travel_only_with_the_owner() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for (name, size) in [("small", 100), ("large", 5 * MIB)] {
            set_mode(&data::file(&routed.path(name), size, 1), 0o6755);
        }
        routed.copy(&[], &["small", "large"], "copy").expect_code(0);
        assert_eq!(mode(&routed.path("copy/small")), 0o755);
        assert_eq!(mode(&routed.path("copy/large")), 0o755);
        if !is_root() {
            skip("restoring owners needs root");
            continue;
        }
        for name in ["small", "large"] {
            chown(routed.path(name), Some(1234), Some(4321)).unwrap();
            set_mode(&routed.path(name), 0o6755);
        }
        fs::create_dir(routed.path("dir")).unwrap();
        symlink("x", routed.path("link")).unwrap();
        std::os::unix::fs::lchown(routed.path("dir"), Some(11), Some(12)).unwrap();
        std::os::unix::fs::lchown(routed.path("link"), Some(13), Some(14)).unwrap();
        let sources = ["small", "large", "dir", "link"];
        routed.copy(&["--preserve", "mode,times,links,owner"], &sources, "owned").expect_code(0);
        for name in ["small", "large"] {
            assert_eq!(mode(&routed.path("owned").join(name)), 0o6755, "{route:?}");
        }
        for name in sources {
            let owner = |path: &Path| fs::symlink_metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
            assert_eq!(owner(&routed.path(name)), owner(&routed.path("owned").join(name)), "{route:?} {name}");
        }
        routed.copy(&[], &["link", "dir"], "not-owned").expect_code(0);
        assert_eq!(fs::symlink_metadata(routed.path("not-owned/link")).unwrap().uid(), 0);
    }
}

#[test]
fn attributes_travel_on_request() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        let files = [
            routed.path("tree"),
            data::file(&routed.path("tree/small"), 9, 1),
            data::file(&routed.path("tree/large"), 5 * MIB, 1),
        ];
        for (number, file) in files.iter().enumerate() {
            let value = [&[0, 255, b'\n'][..], number.to_string().as_bytes()].concat();
            if let Err(error) = setxattr(file, "user.icdc", &value, XattrFlags::empty()) {
                return skip(&format!("no extended attributes here: {error}"));
            }
        }
        let value = |path: &Path| {
            let mut buffer = [0; 100];
            getxattr(path, "user.icdc", &mut buffer[..]).ok().map(|length| buffer[..length].to_vec())
        };
        routed.copy(&[], &["tree"], "without").expect_code(0);
        routed.copy(&["--preserve", "mode,times,xattr"], &["tree"], "with").expect_code(0);
        for name in ["", "small", "large"] {
            assert_eq!(value(&routed.path("without").join(name)), None, "{route:?} {name}");
            let expected = value(&routed.path("tree").join(name));
            assert!(expected.is_some());
            assert_eq!(value(&routed.path("with").join(name)), expected, "{route:?} {name}");
        }
    }
}

/// Capabilities give rights to whoever runs the file, as set-id bits do.
#[test]
fn capabilities_travel_with_the_owner_or_are_named() {
    if !is_root() {
        return skip("capabilities and owners need root");
    }
    // VFS_CAP_REVISION_2 with CAP_NET_RAW, permitted and effective.
    let raw = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        for (name, size) in [("small", 100), ("large", 5 * MIB)] {
            let file = data::file(&routed.path("tree").join(name), size, 1);
            chown(&file, Some(1234), Some(4321)).unwrap();
            if let Err(error) = setxattr(&file, "security.capability", &raw, XattrFlags::empty()) {
                return skip(&format!("no capabilities of files here: {error}"));
            }
        }
        let value = |path: &Path| {
            let mut buffer = [0; 100];
            getxattr(path, "security.capability", &mut buffer[..]).ok().map(|length| buffer[..length].to_vec())
        };
        let all = routed.copy(&["--preserve", "all"], &["tree"], "all").expect_code(0);
        assert_eq!(all.stderr, "", "{route:?}");
        let some = routed.copy(&["--preserve", "mode,times,xattr"], &["tree"], "some").expect_code(0);
        for name in ["small", "large"] {
            assert_eq!(value(&routed.path("all").join(name)).as_deref(), Some(&raw[..]), "{route:?} {name}");
            assert_eq!(value(&routed.path("some").join(name)), None, "{route:?} {name}");
            assert!(some.stderr.contains(&format!("{name}: its capabilities are left out")), "{route:?}: {some}");
        }
    }
}

#[test]
fn without_preserve_nothing_but_the_data_is_kept() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        for (name, size) in [("small", 100), ("large", 5 * MIB)] {
            let file = data::file(&routed.path("tree").join(name), size, 1);
            set_mode(&file, 0o600);
            touch(&file, 1, 1);
        }
        symlink("small", routed.path("tree/link")).unwrap();
        touch(&routed.path("tree"), 1, 1);
        routed.copy(&["--preserve", "none"], &["tree"], "copy").expect_code(0);
        let copy = routed.path("copy");
        fs::write(routed.path("plain"), "").unwrap();
        for name in ["small", "large"] {
            assert_eq!(mode(&copy.join(name)), mode(&routed.path("plain")), "{route:?} {name}");
            assert!(mtime(&copy.join(name)).0 > 1_000_000, "{route:?} {name}");
            assert!(support::compare::same_contents(&routed.path("tree").join(name), &copy.join(name)));
        }
        assert!(mtime(&copy).0 > 1_000_000);
        assert!(!copy.join("link").is_symlink());
    }
}

#[test]
fn hard_links_stay_links_within_a_copy() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        fs::create_dir_all(tree.join("z/deep")).unwrap();
        for (name, size) in [("empty", 0), ("small", 100), ("large", 9 * MIB)] {
            data::file(&tree.join(name), size, size + 3);
            fs::hard_link(tree.join(name), tree.join(format!("a-{name}"))).unwrap();
            fs::hard_link(tree.join(name), tree.join(format!("z/deep/{name}"))).unwrap();
        }
        // One of whose names only one is copied.
        data::file(&routed.path("outside"), 10, 1);
        fs::hard_link(routed.path("outside"), tree.join("single")).unwrap();
        let ended = routed.copy(&[], &["tree"], "copy").expect_code(0);
        let copy = routed.path("copy");
        assert_same(&tree, &copy);
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        for name in ["empty", "small", "large"] {
            let first = inode(&copy.join(name));
            assert_eq!(first, inode(&copy.join(format!("a-{name}"))), "{route:?} {name}");
            assert_eq!(first, inode(&copy.join("z/deep").join(name)), "{route:?} {name}");
            assert_eq!(fs::metadata(copy.join(name)).unwrap().nlink(), 3, "{route:?} {name}");
        }
        assert_eq!(ended.number("bytes"), 9 * MIB + 110, "links count once: {ended}");
        // Once more over the same, where every name is there already.
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_eq!(fs::metadata(copy.join("large")).unwrap().nlink(), 3);
        routed.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_eq!(fs::metadata(copy.join("large")).unwrap().nlink(), 3);
        // Without links each name is a file of its own.
        routed.copy(&["--preserve", "mode,times"], &["tree"], "apart").expect_code(0);
        assert_same(&tree, &routed.path("apart"));
        assert_eq!(fs::metadata(routed.path("apart/large")).unwrap().nlink(), 1);
        assert_no_leftovers(routed.site.root());
    }
}

/// Writes `data` at each of `places` into a file of `size` bytes that is a hole otherwise.
fn sparse(path: &Path, size: u64, places: &[(u64, u64)]) {
    let mut file = File::create(path).unwrap();
    let mut noise = support::Noise::new(size);
    for (offset, length) in places {
        file.seek(SeekFrom::Start(*offset)).unwrap();
        file.write_all(&noise.bytes(*length as usize)).unwrap();
    }
    file.set_len(size).unwrap();
    file.sync_all().unwrap();
}

/// Allocated bytes.
fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn holes_stay_holes() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        let places: [Sparse<'_>; 6] = [
            ("begin", 64 * MIB, &[(0, 4096)]),
            ("middle", 64 * MIB + 123, &[(30 * MIB + 7, 100_000), (40 * MIB, 3 * MIB)]),
            ("end", 50 * MIB + 1, &[(50 * MIB, 1)]),
            ("many", 12 * MIB, &[(MIB, 1), (2 * MIB, 1), (3 * MIB, 1), (5 * MIB - 1, 2), (8 * MIB - 4096, 8192)]),
            ("nothing", 30 * MIB + 5, &[]),
            ("small", 200 * KIB, &[(100 * KIB, 10)]),
        ];
        for (name, size, places) in places {
            sparse(&routed.path("tree").join(name), size, places);
        }
        let ended = routed.copy(&["--no-resume"], &["tree"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        if allocated(&routed.path("tree/nothing")) > MIB {
            return skip("this file system has no holes");
        }
        for (name, _, places) in places.iter().filter(|(name, ..)| *name != "small") {
            let data: u64 = places.iter().map(|(_, length)| length + 128 * KIB).sum();
            let found = allocated(&routed.path("copy").join(name));
            assert!(found <= data + 128 * KIB, "{route:?} {name}: {found} bytes are allocated");
        }
        assert!(ended.number("bytes_sent") < 6 * MIB, "holes do not travel: {ended}");
        // Where holes are not wanted, the file is written in full.
        routed.copy(&["--preserve", "mode,times"], &["tree/middle"], "full").expect_code(0);
        assert_same(&routed.path("tree/middle"), &routed.path("full"));
        assert!(allocated(&routed.path("full")) >= 64 * MIB, "{route:?}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn a_tebibyte_of_holes_takes_what_its_data_takes() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        let huge = routed.path("huge");
        if let Err(error) = File::create(&huge).unwrap().set_len(TIB) {
            return skip(&format!("no file of 1 TiB here: {error}"));
        }
        sparse(&huge, TIB, &[(123 * MIB + 17, 300_000), (TIB / 2 - 5, 500_000), (TIB - 200_000, 200_000)]);
        let mut run = routed.start(&[], &["huge"], "copy");
        assert!(!run.runs_after(Duration::from_secs(60)), "{route:?}: it hashes or sends the holes");
        let ended = run.finish().expect_code(0);
        let copy = routed.path("copy");
        assert_eq!(fs::metadata(&copy).unwrap().len(), TIB);
        assert!(allocated(&copy) < 2 * MIB, "{route:?}: {} bytes are allocated", allocated(&copy));
        for (offset, length) in [(123 * MIB, MIB), (TIB / 2 - 10, 600_000), (TIB - 300_000, 300_000), (TIB / 4, MIB)] {
            assert!(part(&huge, offset, length) == part(&copy, offset, length), "{route:?}: differs at {offset}");
        }
        assert!(ended.number("bytes_sent") < 3 * MIB, "{ended}");
        assert!(ended.summary()["digest"].is_null(), "{ended}");
        assert_eq!(ended.summary()["sparse_digest"].as_str().map(str::len), Some(64), "{ended}");
        assert_no_leftovers(routed.site.root());
    }
}

fn part(path: &Path, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    std::os::unix::fs::FileExt::read_exact_at(&File::open(path).unwrap(), &mut bytes, offset).unwrap();
    bytes
}

#[test]
fn the_digest_is_that_of_the_file() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for size in [0, 1, 1024, 256 * KIB, 256 * KIB + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 8 * MIB, 13 * MIB + 777] {
            data::file(&routed.path("file"), size, size);
            let ended = routed.copy(&["--no-resume"], &["file"], "copy").expect_code(0);
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(File::open(routed.path("file")).unwrap()).unwrap();
            assert_eq!(ended.summary()["digest"], hasher.finalize().to_hex().as_str(), "{route:?} {size}: {ended}");
            assert_eq!(ended.number("bytes"), size, "{ended}");
            assert_eq!(ended.number("files"), 1, "{ended}");
            assert_same(&routed.path("file"), &routed.path("copy"));
        }
        sparse(&routed.path("holes"), 40 * MIB, &[(9 * MIB, 100)]);
        let ended = routed.copy(&[], &["holes"], "holes-copy").expect_code(0);
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(routed.path("holes")).unwrap()).unwrap();
        assert_eq!(ended.summary()["digest"], hasher.finalize().to_hex().as_str(), "{route:?}: {ended}");
    }
}

#[test]
fn equal_trees_have_equal_tree_digests_by_every_way() {
    let mut digests = Vec::new();
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = data::tree(&routed.path("tree"), 9, &Shape { small: 60, large: vec![5 * MIB], ..Shape::default() });
        age_all(&tree);
        let ended = routed.copy(&[], &["tree"], "copy").expect_code(0);
        digests.push(ended.summary()["tree_digest"].clone());
        assert!(ended.summary()["digest"].is_null(), "of many files there is no one digest: {ended}");
        fs::write(tree.join("d000/f00000"), "other").unwrap();
        touch(&tree.join("d000/f00000"), 1, 1);
        age_all(&tree);
        let ended = routed.copy(&[], &["tree"], "another").expect_code(0);
        assert_ne!(ended.summary()["tree_digest"], digests[0]);
    }
    assert!(digests[0].is_string() && digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

/// Gives everything below `path` one modification time.
fn age_all(path: &Path) {
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| age_all(&entry.unwrap().path()));
    }
    touch(path, 1_000_000, 0);
}

#[test]
fn many_long_links_arrive() {
    // More than fits into one message.
    let target = "t".repeat(201) + &"/t".repeat(1947);
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("links")).unwrap();
        for number in 0..300 {
            symlink(&target, routed.path("links").join(number.to_string())).unwrap();
        }
        routed.copy(&[], &["links"], "copy").expect_code(0);
        assert_same(&routed.path("links"), &routed.path("copy"));
    }
}

/// Trees of snapshots have files with several names in more directories than a process may have
/// descriptors.
#[test]
fn files_of_several_names_keep_no_directory_open() {
    let site = Site::new();
    let tree = site.path("tree");
    for number in 0..4000 {
        let directory = tree.join(number.to_string());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), number.to_string()).unwrap();
        fs::hard_link(directory.join("file"), directory.join("link")).unwrap();
    }
    // Back to the first ones, after their directories are long done.
    fs::create_dir_all(tree.join("z/z")).unwrap();
    for number in 0..100 {
        fs::hard_link(tree.join(format!("{number}/file")), tree.join(format!("z/z/{number}"))).unwrap();
    }
    let copy = site.copy(&["tree", "copy"]);
    let mut few = Command::new("sh");
    few.args(["-c", "ulimit -n 4096 && exec \"$@\"", "sh"]).arg(copy.get_program()).args(copy.get_args());
    few.current_dir(site.root()).env("HOME", site.path("home")).run().expect_code(0);
    assert_same(&tree, &site.path("copy"));
    let inode = |path: &str| fs::metadata(site.path(path)).unwrap().ino();
    assert_eq!(inode("copy/99/link"), inode("copy/z/z/99"));
}

/// More directories, more deeply nested, than a process may have descriptors by default.
#[test]
fn many_directories_and_deep_ones_do_not_run_out_of_descriptors() {
    for route in [Route::Local, Route::Push] {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        for number in 0..1500 {
            let deep = tree.join(format!("{number}/a/b/c"));
            fs::create_dir_all(&deep).unwrap();
            fs::write(deep.join("file"), number.to_string()).unwrap();
            // A file with several names in every directory, as trees of snapshots have.
            fs::hard_link(deep.join("file"), deep.join("link")).unwrap();
        }
        routed.copy(&[], &["tree"], "copy").expect_code(0);
        assert_same(&tree, &routed.path("copy"));
        assert_eq!(fs::metadata(routed.path("copy/1499/a/b/c/link")).unwrap().nlink(), 2);
        let mut deep = routed.path("deep");
        for _ in 0..500 {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "deep").unwrap();
        routed.copy(&[], &["deep"], "deep-copy").expect_code(0);
        assert_same(&routed.path("deep"), &routed.path("deep-copy"));
        assert_no_leftovers(routed.site.root());
    }
}
