//! Taking a lab down, whatever state it is in.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::error::LabError;
use crate::process::{end, inhabitants};
use crate::record::LabRecord;
use crate::{hosts, machine, namespaces, registry};

/// Takes a lab down, whatever its state: ends the processes on its hosts and its wire, removes its
/// namespaces and its files.
///
/// # Errors
/// See [`LabError`].
pub fn down(name: &str) -> Result<(), LabError> {
    let directory = registry::find(name)?;
    clear(&directory)
}

/// Takes down the lab with this directory. A wire that calls this for its own lab is left to end by
/// itself.
///
/// # Errors
/// See [`LabError`].
pub(crate) fn clear(directory: &Path) -> Result<(), LabError> {
    let record = LabRecord::load(directory);
    let wire = record.as_ref().map(|record| record.wire).filter(|wire| wire.is_alive());
    let noted: Vec<u64> = record.iter().flat_map(|record| &record.namespaces).map(|&(_, inode)| inode).collect();
    let named = namespaces::made(directory);
    let places = named.iter().map(|name| namespaces::place_of(name));
    let mut inodes: Vec<u64> = places.filter_map(|place| Some(fs::metadata(place).ok()?.ino())).collect();
    if wire.is_some() {
        inodes.extend(&noted);
    }
    end(if wire.is_none() && named.is_empty() {
        // No process holds them any more, so that their numbers may be those of other namespaces by
        // now: their addresses decide.
        inhabitants(&noted).into_iter().filter(|process| hosts::is_host(process.id)).collect()
    } else {
        inhabitants(&inodes)
    })?;
    // What they had started meanwhile.
    end(inhabitants(&inodes))?;
    if let Some(wire) = wire.filter(|wire| wire.id != std::process::id()) {
        end(vec![wire])?;
    }
    named.iter().try_for_each(|name| namespaces::delete(name))?;
    fs::remove_dir_all(directory).map_err(|error| LabError::io(format!("remove {}", directory.display()), error))?;
    if registry::names().is_ok_and(|names| names.is_empty()) {
        machine::restore();
        // Its parent directories, unless something else is in them.
        for parent in directory.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(parent);
        }
    }
    Ok(())
}
