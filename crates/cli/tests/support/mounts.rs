//! Small file systems, in memory or in a file, and block devices in files.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{is_root, skip};

/// A mounted file system. Gone when dropped.
pub struct Mount {
    path: PathBuf,
}

impl Mount {
    /// A tmpfs of `bytes` bytes at `path`, which is made. `None` where it cannot be mounted, with
    /// the reason on standard error.
    pub fn tmpfs(path: PathBuf, bytes: u64) -> Option<Self> {
        if !is_root() {
            skip("mounting needs root");
            return None;
        }
        std::fs::create_dir_all(&path).unwrap();
        let options = format!("size={bytes},mode=755");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output().unwrap();
        if !output.status.success() {
            skip(&format!("cannot mount: {}", String::from_utf8_lossy(&output.stderr)));
            return None;
        }
        Some(Self { path })
    }

    /// A file system at `path`, which is made, that has neither extended attributes nor ACLs. `None`
    /// where it cannot be mounted, with the reason on standard error.
    pub fn ramfs(path: PathBuf) -> Option<Self> {
        if !is_root() {
            skip("mounting needs root");
            return None;
        }
        std::fs::create_dir_all(&path).unwrap();
        let mounted = succeeds(Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(&path));
        mounted.then_some(Self { path })
    }

    /// `file` once more, at `path`, which is a file. `None` where it cannot be mounted, with the reason on
    /// standard error.
    pub fn file(file: &Path, path: PathBuf) -> Option<Self> {
        if !is_root() {
            skip("mounting needs root");
            return None;
        }
        let mounted = succeeds(Command::new("mount").arg("--bind").args([file, &path]));
        mounted.then_some(Self { path })
    }

    /// `directory` once more, at `path`, which is made. `None` where it cannot be mounted, with the reason on
    /// standard error.
    pub fn bind(directory: &Path, path: PathBuf) -> Option<Self> {
        if !is_root() {
            skip("mounting needs root");
            return None;
        }
        std::fs::create_dir_all(&path).unwrap();
        let output = Command::new("mount").arg("--bind").args([directory, &path]).output().unwrap();
        if !output.status.success() {
            skip(&format!("cannot mount: {}", String::from_utf8_lossy(&output.stderr)));
            return None;
        }
        Some(Self { path })
    }

    /// An ext4 of `bytes` bytes at `path`, which is made; its image lies beside it. `None` where it cannot be
    /// made or mounted, with the reason on standard error.
    pub fn ext4(path: PathBuf, bytes: u64, options: &[&str]) -> Option<Self> {
        let image = image(&path, bytes)?;
        let made = succeeds(Command::new("/sbin/mkfs.ext4").args(["-q", "-F"]).args(options).arg(&image));
        let mounted = made && succeeds(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path));
        mounted.then_some(Self { path })
    }

    /// A file system of `bytes` bytes of this kind, made by `mkfs` of that name, at `path`, which is made; its image
    /// lies beside it. `None` where it cannot be made or mounted, with the reason on standard error.
    pub fn of_kind(kind: &str, path: PathBuf, bytes: u64) -> Option<Self> {
        let image = image(&path, bytes)?;
        let made = succeeds(Command::new(format!("/sbin/mkfs.{kind}")).args(["-q", "-f"]).arg(&image));
        let mounted = made && succeeds(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path));
        mounted.then_some(Self { path })
    }

    /// The file system of a device at `path`, which is made. `None` where it cannot be mounted, with the
    /// reason on standard error.
    pub fn device(node: &Path, path: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        succeeds(Command::new("mount").args([node, &path])).then_some(Self { path })
    }

    /// A file system of `bytes` bytes at `path`, which is made, where capital and small letters are the
    /// same; its image lies beside it. `None` where it cannot be made or mounted, with the reason on
    /// standard error.
    pub fn ignoring_case(path: PathBuf, bytes: u64) -> Option<Self> {
        let image = image(&path, bytes)?;
        let made = succeeds(Command::new("/sbin/mkntfs").args(["-F", "-Q", "-q"]).arg(&image));
        let options = ["-o", "ignore_case,permissions"];
        let mounted = made && succeeds(Command::new("/bin/lowntfs-3g").args(options).arg(&image).arg(&path));
        mounted.then_some(Self { path })
    }

    /// Gives it another size, whatever it holds.
    pub fn resize(&self, bytes: u64) {
        let options = format!("remount,size={bytes}");
        super::succeed(Command::new("mount").args(["-o", &options]).arg(&self.path));
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A block device whose contents are those of a file. Gone when dropped.
pub struct LoopDevice {
    node: PathBuf,
    image: PathBuf,
}

impl LoopDevice {
    /// The block device with the contents of the file `image`. `None` where there are no loop devices,
    /// with the reason on standard error.
    pub fn of(image: PathBuf) -> Option<Self> {
        if !is_root() {
            skip("a loop device needs root");
            return None;
        }
        let output = Command::new("losetup").args(["--partscan", "--find", "--show"]).arg(&image).output();
        let found = match &output {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            Ok(output) => {
                skip(&format!("losetup: {}", String::from_utf8_lossy(&output.stderr)));
                return None;
            }
            Err(error) => {
                skip(&format!("losetup: {error}"));
                return None;
            }
        };
        Some(Self { node: found.into(), image })
    }

    /// Its node, such as `/dev/loop7`.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// The file that has its contents.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Gives the file another length, and the device the size of the file.
    pub fn resize(&self, bytes: u64) {
        self.truncate(bytes);
        super::succeed(Command::new("losetup").arg("--set-capacity").arg(&self.node));
    }

    /// Gives the file another length; what the device has beyond it cannot be read any more.
    pub fn truncate(&self, bytes: u64) {
        std::fs::OpenOptions::new().write(true).open(&self.image).unwrap().set_len(bytes).unwrap();
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.node).output();
    }
}

/// False, with the reason on standard error, where a file system cannot be made or mounted.
fn succeeds(command: &mut Command) -> bool {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            skip(&format!("{program}: {}", String::from_utf8_lossy(&output.stderr)));
            false
        }
        Err(error) => {
            skip(&format!("{program}: {error}"));
            false
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

/// An empty image of `bytes` bytes beside the directory `path`, which is made. `None` for other users than root, who cannot mount it.
fn image(path: &Path, bytes: u64) -> Option<PathBuf> {
    if !is_root() {
        skip("mounting needs root");
        return None;
    }
    std::fs::create_dir_all(path).unwrap();
    let image = path.with_extension("image");
    std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
    Some(image)
}
