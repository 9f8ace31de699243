//! Count of the items that a deletion would take.

use icdc_disk::tree::{Directory, TreeError};

use super::super::super::failure::{self, Failure};
use super::super::super::protection::Item;
use super::walk::Visitor;

/// Counter of the items that would be deleted, as visitor of a walk. Fails at what cannot be read
/// or deleted: its number is not known, and it would stay.
#[derive(Default)]
pub(super) struct Counter {
    pub(super) items: u64,
}

impl Visitor for Counter {
    fn enter(&mut self, _directory: &Directory) -> Result<(), TreeError> {
        Ok(())
    }

    fn visit(&mut self, above: &Directory, item: &Item) -> Result<bool, Failure> {
        // A directory was entered, which is refused at a mount point.
        if !item.is_directory() {
            above.refuse_mount(&item.name).map_err(|error| failure::of_tree(&error))?;
        }
        self.items += 1;
        Ok(true)
    }

    fn failed(&mut self, _path: &[u8], failure: Failure) -> Result<(), Failure> {
        Err(failure)
    }

    fn is_over(&self) -> bool {
        false
    }
}
