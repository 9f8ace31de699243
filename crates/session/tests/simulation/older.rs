//! An older copy beside the destination, a reference directory: nothing of it may ever change.

use crate::disk::{Contents, Disk, Inode, Kind, Write};
use crate::random::Random;
use crate::source::{Body, File, Node, Source};

/// Name of the older copy in the root; no source has it.
const OLDER: &[u8] = b"stray-older";
/// Mode that the sender announces of files.
const SOURCE_MODE: u16 = 0o644;
/// Mode of a file whose attributes are not those of the source.
const OTHER_MODE: u16 = 0o600;

/// Makes an older copy of some files, wherever the sources may land.
pub(crate) fn make(disk: &mut Disk, source: &Source, random: &mut Random) {
    let root = disk.root();
    let Ok(older) = disk.make_directory(root, OLDER) else { return };
    for root in &source.roots {
        if let Node::Directory { .. } = root.node {
            fill(disk, older, &root.node, random);
        }
        enter(disk, older, &root.name, &root.node, random);
    }
    disk.sync_filesystem();
}

fn fill(disk: &mut Disk, directory: Inode, node: &Node, random: &mut Random) {
    if let Node::Directory { children, .. } = node {
        children.iter().for_each(|(name, child)| enter(disk, directory, name, child, random));
    }
}

fn enter(disk: &mut Disk, directory: Inode, name: &[u8], node: &Node, random: &mut Random) {
    match node {
        Node::Directory { .. } if !name.is_empty() => {
            if let Ok(made) = disk.make_directory(directory, name) {
                fill(disk, made, node, random);
            }
        }
        Node::File(file) if random.once_in(2) => {
            if let Ok(made) = disk.create(directory, name) {
                let mode = if random.once_in(3) { OTHER_MODE } else { SOURCE_MODE };
                write(disk, made, file, mode);
            }
        }
        _ => {}
    }
}

fn write(disk: &mut Disk, inode: Inode, file: &File, mode: u16) {
    match &file.body {
        Body::Small(bytes) => disk.write(inode, Write::Bytes(0, bytes.clone())),
        Body::Blocks { size, blocks, .. } => {
            disk.write(inode, Write::Length(*size));
            blocks.iter().for_each(|(index, number)| disk.write(inode, Write::Block(*index, *number)));
        }
    }
    disk.write(inode, Write::Mode(mode));
    disk.write(inode, Write::Mtime((file.mtime(), 0)));
}

/// Whether there is an older copy.
pub(crate) fn is_there(disk: &Disk) -> bool {
    disk.find(disk.root(), OLDER).is_some()
}

/// The counterpart of an item with this path from the root, whose first component is the destination.
pub(crate) fn counterpart(disk: &Disk, path: &[Vec<u8>]) -> Option<Inode> {
    let older = disk.find(disk.root(), OLDER)?;
    let below = path.get(1..).filter(|below| !below.is_empty())?;
    below.iter().try_fold(older, |directory, name| disk.find(directory, name))
}

/// What the older copy is: the path, inode and contents of each of its files.
pub(crate) fn state(disk: &Disk) -> Vec<(Vec<u8>, Inode, Contents)> {
    fn walk(disk: &Disk, directory: Inode, path: &[u8], found: &mut Vec<(Vec<u8>, Inode, Contents)>) {
        for (name, inode) in disk.names(directory) {
            let path = [path, b"/", name].concat();
            match disk.kind(inode) {
                Kind::Directory => walk(disk, inode, &path, found),
                _ => found.push((path, inode, disk.contents(inode).clone())),
            }
        }
    }
    let mut found = Vec::new();
    if let Some(older) = disk.find(disk.root(), OLDER) {
        walk(disk, older, b"", &mut found);
    }
    found
}
