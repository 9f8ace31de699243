//! `icdc copy --follow` as typed: how sources are followed, and until when.

use clap::Args;
use icdc_units::Span;

use crate::instant::remaining;

#[derive(Args, Clone, Debug)]
pub(crate) struct FollowingArguments {
    /// Keep copying: what appears or changes in the source directories travels when it has settled, which is when its
    /// writer closes it; a long file travels block by block before that, and gets its name then. What is equal at the
    /// destination already does not travel. The first interrupt lets what has settled arrive, then ends the copy
    #[arg(
        long,
        conflicts_with_all = ["plan", "dry_run", "delete", "snapshot", "link_dest", "files_from", "files_from0", "receipt", "report", "checksum", "existing"],
        help_heading = "Following"
    )]
    pub(crate) follow: bool,

    /// Time without a change after which a file has settled whose close was not seen: one that was there before, or on
    /// a file system of several hosts; and one that was written again soon after it had travelled
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "follow", help_heading = "Following")]
    pub(crate) settle: Span,

    /// End when a file of this name has appeared and everything else has arrived; the file itself is the last
    #[arg(long = "final", value_name = "PATTERN", requires = "follow", help_heading = "Following")]
    pub(crate) marker: Option<String>,

    /// End at this time: a length of time from now (12h), or a date (2026-11-27T18:00)
    #[arg(long, value_name = "TIME|DATE", value_parser = remaining, requires = "follow", help_heading = "Following")]
    pub(crate) until: Option<Span>,

    /// End when nothing has changed for this long
    #[arg(long, value_name = "TIME", requires = "follow", help_heading = "Following")]
    pub(crate) idle: Option<Span>,

    /// Also walk the sources this often. Without it they are walked every 10 s where changes are not reported: on NFS
    /// and other file systems of several hosts, and beyond the limit of watches
    #[arg(long, value_name = "TIME", requires = "follow", help_heading = "Following")]
    pub(crate) scan_interval: Option<Span>,
}
