//! Items that are made under staging names: small files, symbolic links, named pipes, sockets and
//! devices.

use icdc_protocol::message::{EntryId, NoticeKind};
use icdc_session::receiver::book::action::{NotStaged, Piece};
use icdc_units::ByteCount;

use super::super::disk_rate::Arrived;
use super::super::failure::Failure;
use super::super::publishing::Staged;
use super::super::side_by_side::side_by_side;
use super::FileExecutor;
use super::device::stage_in_device;

impl FileExecutor<'_> {
    /// Checks small files that arrived in a pack against their digests and writes them under
    /// staging names; returns for each the bytes that are not yet durable, or why it was not
    /// staged.
    pub(super) fn stage(
        &mut self,
        pieces: &[Piece],
        payload: Option<Arrived>,
    ) -> Vec<(EntryId, Result<ByteCount, NotStaged>)> {
        let contents = payload.as_ref().map_or(&[][..], |arrived| &arrived.block[..arrived.length]);
        let how = (self.shared.options, self.shared.whose());
        let placed = |piece: &Piece| {
            let item = self.item(piece.id)?;
            let (directory, name) = self.target(item)?;
            Ok::<_, Failure>((directory, name, &item.entry))
        };
        let placed: Vec<_> = pieces.iter().map(|piece| (piece, placed(piece))).collect();
        let device = self.shared.device.get();
        let staged = side_by_side(&placed, |(piece, placed)| {
            let contents = contents.get(piece.offset..).and_then(|rest| rest.get(..piece.length));
            let contents = contents.filter(|contents| *blake3::hash(contents).as_bytes() == piece.digest);
            let contents = contents.ok_or(NotStaged::Damaged)?;
            let (directory, name, entry) = placed.as_ref().map_err(|failure| NotStaged::Failed(failure.clone()))?;
            match device {
                Some(device) => stage_in_device(device, (directory, name), contents),
                None => Staged::small(directory, name.clone(), entry, contents, how).map_err(NotStaged::Failed),
            }
        });
        let keep = |(piece, staged): (&Piece, Result<Staged, NotStaged>)| {
            let kept = staged.map(|staged| {
                if staged.lacks_mode() {
                    self.shared.notice(NoticeKind::ModeNotKept, staged.path().as_bytes());
                }
                self.staged.insert(piece.id, staged);
                ByteCount::from(piece.length)
            });
            (piece.id, kept)
        };
        pieces.iter().zip(staged).map(keep).collect()
    }

    /// Makes a symbolic link under a staging name.
    pub(super) fn make_symlink(&mut self, id: EntryId) -> Result<(), Failure> {
        let item = self.item(id)?;
        let (directory, name) = self.target(item)?;
        let how = (self.shared.options, self.shared.whose());
        let staged = Staged::stage_symlink(directory, name, &item.entry, how)?;
        self.staged.insert(id, staged);
        Ok(())
    }

    /// Makes a named pipe, a socket or a device under a staging name.
    pub(super) fn make_special(&mut self, id: EntryId) -> Result<(), Failure> {
        let item = self.item(id)?;
        let (directory, name) = self.target(item)?;
        let how = (self.shared.options, self.shared.whose());
        let staged = Staged::stage_special(directory, name, &item.entry, how)?;
        self.staged.insert(id, staged);
        Ok(())
    }
}
