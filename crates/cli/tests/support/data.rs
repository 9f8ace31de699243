//! Seeded noise, and files and trees made of it: the same seed makes the same bytes everywhere.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::{KIB, MIB};

/// Pseudo-random numbers (SplitMix64).
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed that differs from run to run, logged so that a failure can be repeated: set
    /// `ICDC_TEST_SEED`.
    pub fn logged(what: &str) -> Self {
        Self(Self::seed(what))
    }

    /// The seed of [`logged`](Self::logged).
    pub fn seed(what: &str) -> u64 {
        let given = std::env::var("ICDC_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
            u64::from_ne_bytes(bytes)
        });
        eprintln!("{what}: ICDC_TEST_SEED={seed}");
        seed
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes
    }
}

/// Writes noise to some stretches (offset, length) of a file of `size` bytes; the rest are holes.
pub fn sparse(path: &Path, size: u64, seed: u64, stretches: &[(u64, u64)]) {
    let mut noise = Noise::new(seed);
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (offset, length) in stretches {
        file.write_all_at(&noise.bytes(*length as usize), *offset).unwrap();
    }
}

/// What [`tree`] makes.
pub struct Shape {
    /// Files of up to `largest_small` bytes, 50 to a directory.
    pub small: u64,
    pub largest_small: u64,
    /// Sizes of the large ones.
    pub large: Vec<u64>,
    /// Sparse file, links, odd names, empty files and directories, odd modes and times.
    pub oddities: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { small: 200, largest_small: 20 * KIB, large: vec![9 * MIB + 5], oddities: true }
    }
}

/// Writes `size` bytes of noise and answers the path.
pub fn file(path: &Path, size: u64, seed: u64) -> PathBuf {
    let mut noise = Noise::new(seed);
    let mut file = File::create(path).unwrap();
    let mut buffer = vec![0; MIB as usize];
    let mut left = size;
    while left > 0 {
        let part = left.min(MIB) as usize;
        noise.fill(&mut buffer[..part]);
        file.write_all(&buffer[..part]).unwrap();
        left -= part as u64;
    }
    path.to_owned()
}

/// Makes a directory tree and answers its path.
pub fn tree(root: &Path, seed: u64, shape: &Shape) -> PathBuf {
    let mut noise = Noise::new(seed);
    fs::create_dir_all(root).unwrap();
    for number in 0..shape.small {
        let directory = root.join(format!("d{:03}", number / 50));
        fs::create_dir_all(&directory).unwrap();
        let size = noise.below(shape.largest_small + 1) as usize;
        fs::write(directory.join(format!("f{number:05}")), noise.bytes(size)).unwrap();
    }
    for (number, size) in shape.large.iter().enumerate() {
        file(&root.join(format!("large{number}")), *size, noise.next());
    }
    if shape.oddities {
        oddities(root, &mut noise);
    }
    root.to_owned()
}

fn oddities(root: &Path, noise: &mut Noise) {
    let odd = root.join("odd");
    fs::create_dir_all(odd.join("empty/of/files")).unwrap();
    fs::write(odd.join("empty-file"), "").unwrap();
    let longest = vec![b'n'; 255];
    let names: [&[u8]; 7] =
        [b"with space", b"-rf", b"new\nline", b"\xff\xfe", b"quote'\"$(x)", "\u{e4}\u{1f600}".as_bytes(), &longest];
    for name in names {
        fs::write(odd.join(OsStr::from_bytes(name)), noise.bytes(100)).unwrap();
    }
    for (name, target) in [("link", "empty-file"), ("dangling", "/no where"), ("up", "../d000")] {
        symlink(target, odd.join(name)).unwrap();
    }
    let mut sparse = File::create(odd.join("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(7 * MIB)).unwrap();
    sparse.write_all(&noise.bytes(5000)).unwrap();
    sparse.set_len(40 * MIB).unwrap();
    for (name, mode) in [("with space", 0o751), ("-rf", 0o600), ("empty-file", 0o444), ("empty/of", 0o700)] {
        fs::set_permissions(odd.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    age(&odd.join("with space"), 1_000_000_000, 123_456_789);
    age(&odd.join("sparse"), 1, 0);
    age(&odd.join("empty"), 1_234_567_890, 5);
}

/// Sets a modification time.
pub fn age(path: &Path, seconds: u64, nanos: u32) {
    let time = UNIX_EPOCH + Duration::new(seconds, nanos);
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Sets the modification time to that of another file.
pub fn age_as(path: &Path, other: &Path) {
    let modified = fs::metadata(other).unwrap().modified().unwrap();
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(modified)).unwrap();
}

/// Sum of the sizes of all regular files below `path`, or of that file.
pub fn size(path: &Path) -> u64 {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() {
        fs::read_dir(path).unwrap().map(|entry| size(&entry.unwrap().path())).sum()
    } else if metadata.is_file() {
        metadata.len()
    } else {
        0
    }
}
