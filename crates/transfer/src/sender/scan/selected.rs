//! The walk of a selection: the extent of each source, items that have changed since they were
//! selected, and the places of those that are announced.

use icdc_disk::tree::{Kind, Stat};
use icdc_protocol::message::EntryId;

use super::super::selection::SelectedState;
use super::Scan;
use super::children::Extent;

impl Scan<'_> {
    /// Extent of what is announced of a source: all of it, or what the selection or the list names;
    /// `None` if the selection has nothing of it.
    pub(super) fn extent_of(&self, source: u32) -> Option<Extent> {
        let Some(selection) = &self.selection else {
            return Some(if self.listed.is_some() { Extent::Listed } else { Extent::All });
        };
        let places = selection.of_source(source);
        let first = selection.items().get(places.clone())?.first()?;
        let place = first.path.is_empty().then_some(places.start);
        Some(Extent::Selected { place, beneath: places.start + usize::from(place.is_some())..places.end })
    }

    /// Reason why a selected item is not announced; `None` if it is as it was when selected.
    pub(super) fn differs(&self, extent: &Extent, stat: &Stat) -> Option<String> {
        let (Extent::Selected { place, .. }, Some(selection)) = (extent, &self.selection) else { return None };
        let selected = place.and_then(|place| selection.items().get(place)).map(|item| item.state);
        let is_as_expected = match selected {
            Some(state) => SelectedState::of(stat) == state,
            None => stat.kind == Kind::Directory,
        };
        (!is_as_expected).then(|| "has changed since it was planned".into())
    }

    /// Records that an item of the selection was announced as entry `id`.
    pub(super) fn note(&mut self, extent: &Extent, id: EntryId) {
        if let Extent::Selected { place: Some(place), .. } = extent {
            self.announced.push((id, *place));
        }
    }
}
