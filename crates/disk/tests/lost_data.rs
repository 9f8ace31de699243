//! Data that the kernel could not write, and whom it tells.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;

use icdc_disk::tree::{Name, Tree, file_user};

/// An ext4 whose medium has less room than it promises.
struct Liar {
    temporary: tempfile::TempDir,
    mounted: Vec<PathBuf>,
}

impl Liar {
    fn new() -> Option<Self> {
        let mut liar = Self { temporary: tempfile::tempdir().unwrap(), mounted: Vec::new() };
        let medium = liar.directory("medium");
        liar.mount(Command::new("mount").args(["-t", "tmpfs", "-o", "size=6M", "tmpfs"]), &medium)?;
        let image = medium.join("image");
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        run(Command::new("/sbin/mkfs.ext4").args(["-q", "-F", "-O", "^has_journal"]).arg(&image))?;
        let there = liar.directory("there");
        liar.mount(Command::new("mount").args(["-o", "loop"]).arg(&image), &there)?;
        Some(liar)
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.temporary.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    }

    fn mount(&mut self, command: &mut Command, path: &Path) -> Option<()> {
        run(command.arg(path))?;
        self.mounted.push(path.to_owned());
        Some(())
    }

    fn path(&self) -> &Path {
        self.mounted.last().unwrap()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        for path in self.mounted.iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(path).output();
        }
    }
}

/// `None`, with the reason on standard error, where it does not work here.
fn run(command: &mut Command) -> Option<()> {
    let (succeeded, reason) = match command.output() {
        Ok(output) => (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => (false, error.to_string()),
    };
    if !succeeded {
        eprintln!("skipped: {command:?}: {reason}");
    }
    succeeded.then_some(())
}

#[test]
fn lost_data_is_told_although_another_process_was_told_first() {
    if file_user() != 0 {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let Some(liar) = Liar::new() else { return };
    let directory = Tree::open(liar.path()).unwrap().root().clone();
    let kept = directory.file_system().unwrap();
    let name = Name::new(b"file").unwrap();
    let file = directory.create_file(&name, 0o600).unwrap();
    std::io::Write::write_all(&mut &file, &vec![1; 16 << 20]).unwrap();
    drop(file);
    let other = std::fs::File::open(liar.path()).unwrap();
    if rustix::fs::syncfs(&other).is_ok() {
        // Linux 5.7 and older.
        eprintln!("skipped: this kernel tells nobody");
        return;
    }
    assert!(directory.file_system().unwrap().sync().is_ok(), "the kernel tells those who come later as well");
    let told = kept.sync().unwrap_err().to_string();
    assert!(told.contains("nput/output") || told.contains("no space"), "{told}");
}
