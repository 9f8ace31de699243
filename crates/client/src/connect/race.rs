//! Which route of the data to a far end that ssh has started is tried when, and which is taken (sans-I/O).
//!
//! ```text
//!  start             answer due             patience over, or direct has failed
//!  ├─ direct ─────────┼──────────────────────┼────────────────────────────────►
//!  │                  └─ logins begun ahead  ├─ back ─────────────────────────►  patience more: ssh need not wait for it
//!  │                                         └─ ssh ──────────────────────────►
//!  └─ the route that has worked before, or ssh where its configuration names a jump host
//! ```
//!
//! The direct route is taken whenever it works first; a port that has accepted has time for its handshake. What has
//! worked before is tried beside it from the start, and is taken as soon as it works.

use icdc_transfer::Via as Route;
use icdc_units::{Span, Time};

/// The routes that compete.
const COMPETITORS: [Route; 3] = [Route::Direct, Route::Back, Route::Ssh];

/// Times of a race.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    /// Time after which the answer of an open port is due.
    pub(super) due: Span,
    /// Time that a port has to answer, and that the far end has to connect back.
    pub(super) patience: Span,
}

/// Knowledge of a host's routes before they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Nothing.
    Nothing,
    /// This route has worked before.
    Known(Route),
    /// ssh reaches the host by way of another one: most likely nothing else does.
    JumpHost,
}

/// Competition of the routes. The caller carries out what [`Race::next`] says, and reports how it went.
#[derive(Debug)]
pub(super) struct Race {
    delays: Delays,
    begin: Time,
    expected: Expected,
    /// Whether logins have been begun ahead.
    is_prepared: bool,
    /// Time by which the port, which has accepted, is to have made its link.
    handshake: Option<Time>,
    states: [State; COMPETITORS.len()],
}

/// State of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Trying { since: Time },
    Linked,
    Failed,
}

/// Next step of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Try this route.
    Begin(Route),
    /// Begin the logins that the route through ssh would need.
    Prepare,
    /// Take this route, whose link is made; end the others.
    Take(Route),
    /// Each route has failed.
    Lost,
    /// Wait for a report, until this time if there is one.
    Wait(Option<Time>),
}

impl Race {
    /// A race that begins now.
    pub(super) fn new(now: Time, delays: Delays, expected: Expected) -> Self {
        let states = [State::Waiting; COMPETITORS.len()];
        Self { delays, begin: now, expected, is_prepared: false, handshake: None, states }
    }

    /// Handles that the port has accepted a connection, and has `patience` for its handshake.
    pub(super) fn answered(&mut self, now: Time, patience: Span) {
        self.handshake = Some(now + patience);
    }

    /// Handles that a route works: its link is made.
    pub(super) fn linked(&mut self, route: Route) {
        self.set(route, State::Linked);
    }

    /// Handles that a route has failed.
    pub(super) fn failed(&mut self, route: Route) {
        self.set(route, State::Failed);
    }

    /// Whether this route was tried, or is.
    pub(super) fn has_begun(&self, route: Route) -> bool {
        self.state(route) != State::Waiting
    }

    /// Whether the port has had its time, or has failed.
    pub(super) fn is_direct_overdue(&self, now: Time) -> bool {
        self.state(Route::Direct) == State::Failed || now >= self.direct_until()
    }

    /// Next step, now. Steps to begin something are given once each.
    pub(super) fn next(&mut self, now: Time) -> Next {
        if let Some(route) = self.taken(now) {
            return Next::Take(route);
        }
        if COMPETITORS.iter().all(|route| self.state(*route) == State::Failed) {
            return Next::Lost;
        }
        let is_overdue = self.is_direct_overdue(now);
        let is_first = |race: &Self, route| match race.expected {
            Expected::Known(known) => known == route,
            Expected::JumpHost => route == Route::Ssh,
            Expected::Nothing => false,
        };
        let expectation_failed = matches!(self.expected, Expected::Known(route) if self.state(route) == State::Failed);
        for route in COMPETITORS {
            let is_due = route == Route::Direct || is_first(self, route) || is_overdue || expectation_failed;
            if self.state(route) == State::Waiting && is_due {
                self.set(route, State::Trying { since: now });
                return Next::Begin(route);
            }
        }
        let due = self.begin + self.delays.due;
        let may_prepare = !self.is_prepared && self.handshake.is_none() && self.state(Route::Ssh) == State::Waiting;
        if may_prepare && now >= due {
            self.is_prepared = true;
            return Next::Prepare;
        }
        let times = [
            may_prepare.then_some(due),
            Some(self.direct_until()).filter(|until| now < *until && self.state(Route::Direct) != State::Failed),
            self.back_until().filter(|until| now < *until && self.state(Route::Ssh) == State::Linked),
        ];
        Next::Wait(times.into_iter().flatten().min())
    }

    /// The route that is to be taken, if there is one.
    fn taken(&self, now: Time) -> Option<Route> {
        if let Some(route) = [Route::Direct, Route::Back].into_iter().find(|route| self.state(*route) == State::Linked)
        {
            return Some(route);
        }
        if self.state(Route::Ssh) != State::Linked {
            return None;
        }
        // The port has opened meanwhile: its handshake takes a round trip.
        let is_port_open =
            self.state(Route::Direct) != State::Failed && self.handshake.is_some_and(|until| now < until);
        let may_come_back =
            self.expected != Expected::Known(Route::Ssh) && self.back_until().is_some_and(|until| now < until);
        (!is_port_open && !may_come_back).then_some(Route::Ssh)
    }

    /// Time until which the port has time to answer, and to make its link.
    fn direct_until(&self) -> Time {
        self.handshake.unwrap_or(self.begin + self.delays.patience)
    }

    /// Time until which a link through ssh waits for the far end to connect back; `None` if that is not tried.
    fn back_until(&self) -> Option<Time> {
        match self.state(Route::Back) {
            State::Trying { since } => Some(since + self.delays.patience),
            State::Waiting | State::Linked | State::Failed => None,
        }
    }

    fn state(&self, route: Route) -> State {
        self.states[Self::place(route)]
    }

    fn set(&mut self, route: Route, state: State) {
        self.states[Self::place(route)] = state;
    }

    fn place(route: Route) -> usize {
        COMPETITORS.iter().position(|other| *other == route).expect("only these compete")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYS: Delays = Delays { due: Span::from_millis(375), patience: Span::from_secs(1) };

    fn at(milliseconds: u64) -> Time {
        Time::ORIGIN + Span::from_millis(milliseconds)
    }

    fn race(expected: Expected) -> Race {
        Race::new(at(0), DELAYS, expected)
    }

    /// All steps at this time, up to the first that waits or ends.
    fn steps(race: &mut Race, milliseconds: u64) -> Vec<Next> {
        let mut steps = Vec::new();
        loop {
            let next = race.next(at(milliseconds));
            steps.push(next);
            if !matches!(next, Next::Begin(_) | Next::Prepare) {
                return steps;
            }
        }
    }

    fn wait(milliseconds: u64) -> Next {
        Next::Wait(Some(at(milliseconds)))
    }

    #[test]
    fn an_open_port_is_taken_and_nothing_else_is_tried() {
        let mut race = race(Expected::Nothing);
        assert_eq!(steps(&mut race, 0), [Next::Begin(Route::Direct), wait(375)]);
        race.answered(at(300), Span::from_millis(900));
        assert_eq!(steps(&mut race, 400), [wait(1200)], "its handshake has time");
        race.linked(Route::Direct);
        assert_eq!(steps(&mut race, 620), [Next::Take(Route::Direct)]);
        assert!(!race.has_begun(Route::Back) && !race.has_begun(Route::Ssh));
    }

    #[test]
    fn where_the_port_does_not_answer_logins_begin_before_the_routes_that_are_tried_next() {
        let mut race = race(Expected::Nothing);
        assert_eq!(steps(&mut race, 0).len(), 2);
        assert_eq!(steps(&mut race, 375), [Next::Prepare, wait(1000)]);
        let both = [Next::Begin(Route::Back), Next::Begin(Route::Ssh), Next::Wait(None)];
        assert_eq!(steps(&mut race, 1000), both);
        race.linked(Route::Ssh);
        assert_eq!(steps(&mut race, 1500), [wait(2000)], "the far end may still connect back");
        let mut late = Race { states: race.states, ..self::race(Expected::Nothing) };
        assert_eq!(steps(&mut late, 2000), [Next::Take(Route::Ssh)]);
        race.failed(Route::Back);
        assert_eq!(steps(&mut race, 1600), [Next::Take(Route::Ssh)]);
    }

    #[test]
    fn a_port_that_refuses_is_not_waited_for() {
        let mut race = race(Expected::Nothing);
        assert_eq!(steps(&mut race, 0).len(), 2);
        race.failed(Route::Direct);
        let both = [Next::Begin(Route::Back), Next::Begin(Route::Ssh), Next::Wait(None)];
        assert_eq!(steps(&mut race, 300), both);
        race.linked(Route::Back);
        assert_eq!(steps(&mut race, 900), [Next::Take(Route::Back)]);
    }

    #[test]
    fn the_route_that_has_worked_is_tried_from_the_start_and_taken_at_once() {
        for route in [Route::Back, Route::Ssh] {
            let mut race = race(Expected::Known(route));
            assert_eq!(steps(&mut race, 0)[..2], [Next::Begin(Route::Direct), Next::Begin(route)]);
            race.linked(route);
            assert_eq!(steps(&mut race, 600), [Next::Take(route)]);
        }
    }

    #[test]
    fn a_port_that_has_opened_is_taken_in_place_of_the_route_that_has_worked() {
        let mut race = race(Expected::Known(Route::Ssh));
        steps(&mut race, 0);
        race.answered(at(300), Span::from_millis(900));
        race.linked(Route::Ssh);
        assert_eq!(steps(&mut race, 500), [wait(1200)]);
        race.linked(Route::Direct);
        assert_eq!(steps(&mut race, 620), [Next::Take(Route::Direct)]);
    }

    #[test]
    fn a_port_that_accepts_and_stays_silent_is_not_waited_for_longer_than_a_handshake_takes() {
        let mut race = race(Expected::Known(Route::Ssh));
        steps(&mut race, 0);
        race.answered(at(300), Span::from_millis(900));
        race.linked(Route::Ssh);
        assert_eq!(steps(&mut race, 1200).last(), Some(&Next::Take(Route::Ssh)));
    }

    #[test]
    fn where_the_route_that_has_worked_fails_the_others_are_tried_at_once() {
        let mut race = race(Expected::Known(Route::Back));
        steps(&mut race, 0);
        race.failed(Route::Back);
        assert_eq!(steps(&mut race, 100), [Next::Begin(Route::Ssh), wait(1000)]);
        race.failed(Route::Direct);
        race.failed(Route::Ssh);
        assert_eq!(steps(&mut race, 200), [Next::Lost]);
    }

    #[test]
    fn behind_a_jump_host_ssh_is_tried_from_the_start() {
        let mut race = race(Expected::JumpHost);
        assert_eq!(steps(&mut race, 0), [Next::Begin(Route::Direct), Next::Begin(Route::Ssh), wait(1000)]);
        assert_eq!(steps(&mut race, 1000), [Next::Begin(Route::Back), Next::Wait(None)]);
        race.linked(Route::Ssh);
        assert_eq!(steps(&mut race, 4000), [Next::Take(Route::Ssh)]);
    }
}
