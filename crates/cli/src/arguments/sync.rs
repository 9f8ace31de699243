//! `icdc sync`.

use clap::Args;

use super::CopyArguments;

#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "icdc sync [OPTIONS] <SRC>... <DST>\n       icdc sync [OPTIONS] --to <DST> --to <DST> <SRC>...",
    about = "Copy what differs: icdc copy --skip-equal, for trees that are copied again and again",
    long_about = "Copies what is not at the destination yet, or differs there in size or modification time. Attributes \
                  are set where they alone differ. It is icdc copy --skip-equal, and has its options.\n\n\
                  Nothing is deleted without --delete. With it, what the sources do not have is deleted from their \
                  directories at the destination, after everything else has been copied and is durable, and only if no \
                  item failed.",
    after_long_help = concat!(
        "Exit codes: as of icdc copy\n\n",
        "Examples:\n",
        "  icdc sync results/ far.example.org:results/\n",
        "  icdc sync --delete --dry-run results/ far.example.org:results/    # what would change, and what would go\n",
        "  icdc sync --delete --max-delete 10% results/ icdc://dtn.example.org/results/\n",
        "  icdc sync --snapshot --keep 7d,4w,12m results/ far.example.org:backup    # a complete copy named by time\n",
    )
)]
pub(crate) struct SyncArguments {
    #[command(flatten)]
    copy: CopyArguments,
}

impl SyncArguments {
    /// The arguments of the `icdc copy` that this command stands for.
    pub(crate) fn into_copy(self) -> CopyArguments {
        CopyArguments { skip_equal: true, ..self.copy }
    }
}
