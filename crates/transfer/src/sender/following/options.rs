//! Options of following the sources.

use icdc_filter::{Effect, Rule, Rules};
use icdc_stop::StopSignal;
use icdc_units::{Span, Time};

/// Time without a change after which a file has settled, unless the user has chosen another.
pub const SETTLE: Span = Span::from_secs(2);

/// Options of following the sources: when an item has settled, and when the following ends.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// Time without a change after which a file has settled whose close was not seen.
    pub settle: Span,
    /// Time between two walks of the trees; `None` for walks only where changes are not reported.
    pub scan_interval: Option<Span>,
    /// Time without any change after which the following ends; `None` for never.
    pub idle: Option<Span>,
    /// Time on the monotonic clock at which the following ends; `None` for never.
    pub until: Option<Time>,
    /// Pattern, as of a rule, of a file after which the following ends; `None` for none.
    pub marker: Option<Vec<u8>>,
    /// Request to end when everything that has settled is durable.
    pub finish: StopSignal,
}

impl FollowOptions {
    /// Compiles the pattern of the marker file, after which the following ends, as a rule that
    /// excludes what matches it; no rule if there is no marker.
    ///
    /// # Errors
    /// The reason why it is no pattern.
    pub fn marker(&self) -> Result<Rules, String> {
        let rule = |pattern: &Vec<u8>| Rule { effect: Effect::Exclude, pattern: pattern.clone() };
        let rules: Vec<_> = self.marker.iter().map(rule).collect();
        Rules::compile(&rules).map_err(|error| error.to_string())
    }
}
