//! What of the sources is copied, as typed: the same for `icdc copy` and `icdc plan`.
//!
//! Rules come from several options, and the first that matches decides: their order on the command
//! line counts, across all of them.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::TypedValueParser as _;
use clap::builder::{OsStringValueParser, PathBufValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use icdc_filter::{Effect, Form};
use icdc_protocol::message::TimeStamp;
use icdc_units::ByteCount;

use crate::instant::instant;
use crate::rules::{RuleArgument, filter_rule, pattern_rule};

/// Heading in the help over the options that choose what is copied.
pub(super) const HEADING: &str = "Choosing what is copied";

/// Ids of all options that choose what is copied, in the order of the help.
pub(crate) const CHOOSING: [&str; 12] = [
    "include",
    "exclude",
    "filter",
    "filter_from",
    "include_from",
    "exclude_from",
    "min_size",
    "max_size",
    "newer_than",
    "older_than",
    "one_file_system",
    "exclude_caches",
];

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ChoosingArguments {
    #[command(flatten)]
    pub(crate) rules: RuleArguments,

    /// Leave out regular files that are smaller
    #[arg(long, value_name = "SIZE", help_heading = HEADING)]
    pub(crate) min_size: Option<ByteCount>,

    /// Leave out regular files that are larger
    #[arg(long, value_name = "SIZE", help_heading = HEADING)]
    pub(crate) max_size: Option<ByteCount>,

    /// Copy only regular files that were modified after this: a date (2026-11-27, in the time zone
    /// of this host, or 2026-11-27T02:00:00Z), a time before now (7d, 12h), or the modification of a
    /// file on this host
    #[arg(long, alias = "max-age", value_name = "DATE|SPAN|FILE", value_parser = instant, help_heading = HEADING)]
    pub(crate) newer_than: Option<TimeStamp>,

    /// Copy only regular files that were modified before this
    #[arg(long, alias = "min-age", value_name = "DATE|SPAN|FILE", value_parser = instant, help_heading = HEADING)]
    pub(crate) older_than: Option<TimeStamp>,

    /// Stay on the file system of each source: a directory where another one is mounted is copied
    /// without what is in it
    #[arg(short = 'x', long, help_heading = HEADING)]
    pub(crate) one_file_system: bool,

    /// Copy directories that a file CACHEDIR.TAG marks as caches without what is in them, but for
    /// this file
    #[arg(long, help_heading = HEADING)]
    pub(crate) exclude_caches: bool,
}

/// Options that give rules, in the order in which they were typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleArguments(pub(crate) Vec<RuleArgument>);

impl RuleArguments {
    /// Whether one of the rules comes from standard input (`-`).
    pub(crate) fn reads_stdin(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule, RuleArgument::File { path, .. } if path == Path::new("-")))
    }
}

/// Ids of the options that give rules, in the order in which [`RuleArguments`] defines them.
const IDS: [&str; 6] = ["include", "exclude", "filter", "filter_from", "include_from", "exclude_from"];

impl Args for RuleArguments {
    fn augment_args(command: Command) -> Command {
        let pattern =
            |effect| OsStringValueParser::new().try_map(move |text: OsString| pattern_rule(effect, text)).into();
        let rule = |id, value, parser: ValueParser, help| {
            let name = str::replace(id, "_", "-");
            Arg::new(id)
                .long(name)
                .value_name(value)
                .value_parser(parser)
                .action(ArgAction::Append)
                .help(help)
                .help_heading(HEADING)
        };
        let file = |id, option, form, help| {
            let parser = PathBufValueParser::new().map(move |path| RuleArgument::File { option, path, form });
            rule(id, "FILE", parser.into(), help).value_hint(ValueHint::FilePath)
        };
        let [include, exclude, filter, filter_from, include_from, exclude_from] = IDS;
        let parser = OsStringValueParser::new().try_map(filter_rule).into();
        command
            .arg(rule(exclude, "PATTERN", pattern(Effect::Exclude), EXCLUDE))
            .arg(rule(include, "PATTERN", pattern(Effect::Include), INCLUDE))
            .arg(rule(filter, "RULE", parser, FILTER).short('f').allow_hyphen_values(true))
            .arg(file(filter_from, "--filter-from", Form::Rules, FILTER_FROM))
            .arg(file(exclude_from, "--exclude-from", Form::Patterns(Effect::Exclude), EXCLUDE_FROM))
            .arg(file(include_from, "--include-from", Form::Patterns(Effect::Include), INCLUDE_FROM))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Help text of `--exclude`.
const EXCLUDE: &str = "Leave out names (*.tmp), paths (build/*.o, /run7/old) or directories (cache/) that match, as rsync does; \
                       the first of all rules that matches decides, and what none matches is copied";
/// Help text of `--include`.
const INCLUDE: &str =
    "Copy what matches, also if a later rule excludes it: --include '*.nc' --include '*/' --exclude '*'";
/// Help text of `--filter`.
const FILTER: &str = "A rule as in a file of rules: '+ PATTERN', '- PATTERN'";
/// Help text of `--filter-from`.
const FILTER_FROM: &str = "Read rules from a file, or from standard input (-): a line '+ PATTERN' includes, '- PATTERN' or PATTERN \
                           excludes, '!' takes back all rules before it, and # begins a comment";
/// Help text of `--exclude-from`.
const EXCLUDE_FROM: &str = "Read patterns to exclude from a file, or from standard input (-), one on each line";
/// Help text of `--include-from`.
const INCLUDE_FROM: &str = "Read patterns to include from a file, or from standard input (-), one on each line";

impl FromArgMatches for RuleArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = IDS.into_iter().filter_map(|id| matches.indices_of(id).zip(matches.get_many::<RuleArgument>(id)));
        let mut typed: Vec<(usize, &RuleArgument)> = typed.flat_map(|(places, values)| places.zip(values)).collect();
        typed.sort_by_key(|(place, _)| *place);
        Ok(Self(typed.into_iter().map(|(_, argument)| argument.clone()).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
