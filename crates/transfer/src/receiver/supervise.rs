//! Waits for the end of a session: accepts further connections, closes stalled ones, reports
//! progress, forwards the user's request to stop, and carries out the actions of the session's
//! ending.

use crossbeam_channel::{Receiver as Queue, never, select};
use icdc_link::Link;
use icdc_session::SessionError;
use icdc_session::receiver::ending::{Action, LAST_WORDS_PATIENCE, LinkEnd};
use icdc_session::receiver::stalls::{First, Stalls};
use icdc_stop::StopSignal;
use icdc_units::{Span, Time};

use super::intake::Intake;
use super::progress::Progress;
use super::shared::{Reply, Shared};
use crate::clock;
use crate::further_links::FurtherLink;
use crate::once::{Ended, watched};
use crate::stage_thread::try_start;

/// Inputs of the thread that supervises a session.
pub(super) struct Watch<'a> {
    /// Start time of the run.
    pub(super) start: Time,
    /// The user's request to stop.
    pub(super) stop: &'a StopSignal,
    /// Queue of further connections that have been made.
    pub(super) joined: &'a Queue<FurtherLink>,
    /// Wakes the thread when the state machine for the session's ending has actions to carry out.
    pub(super) ending_changed: &'a Queue<()>,
    /// End of the thread that receives on the first connection.
    pub(super) first: &'a Ended,
}

/// Supervises the session until nothing more is received on the first connection.
pub(super) fn supervise<'scope, 'env>(
    shared: &'scope Shared<'scope>,
    scope: &'scope std::thread::Scope<'scope, 'env>,
    further: &Intake<'scope>,
    watch: &Watch<'_>,
) {
    let mut progress = Progress::new(watch.start, clock::now());
    let mut stalls = Stalls::new(clock::now());
    let (request, requested) = watched();
    let _listening = watch.stop.while_waiting(move || drop(request));
    let (no_link, nothing) = (never(), never());
    let mut joined = watch.joined;
    let mut requested = requested.channel();
    let mut flushed = None;
    loop {
        carry_out(shared, &mut flushed);
        if shared.ending().is_draining() {
            shared.draining.signal();
            if let Some(output) = shared.order.output {
                output.stop();
            }
            break;
        }
        let now = clock::now();
        let deadline = shared.ending().next_deadline();
        let timeout =
            deadline.map_or(progress.due_in(now), |deadline| progress.due_in(now).min((deadline - now).into()));
        select! {
            recv(watch.ending_changed) -> _ => {}
            recv(watch.first.channel()) -> _ => {
                let error = SessionError::Local("the thread that receives has ended".into());
                shared.ending().on_link_ended(LinkEnd::Failed(error));
            }
            recv(joined) -> link => match link {
                Ok(link) => add(shared, scope, further, link),
                Err(_) => joined = &no_link,
            },
            recv(requested) -> _ => {
                requested = &nothing;
                shared.ending().on_interrupt(clock::now());
            }
            recv(flushed.as_ref().map_or(&nothing, Ended::channel)) -> _ => {
                flushed = None;
                shared.ending().on_flushed();
            }
            default(timeout) => {}
        }
        let now = clock::now();
        shared.ending().on_time(now);
        let path = shared.link.tcp_info().map_or(Span::ZERO, |info| info.silence);
        let first = First { inlet: shared.link.silence(), path };
        let stalled = stalls.update(now, first, shared.further.silences());
        for number in stalled.into_iter().filter(|_| !shared.large_files.has_stream()) {
            shared.connections().on_stalled(number);
            shared.further.shut(number);
        }
        progress.report(now, shared);
    }
    progress.report_now(clock::now(), shared);
}

/// Sends the last messages, when all processing of received data has ended; `sent` is the end of
/// the thread that sends.
pub(super) fn finish(shared: &Shared<'_>, sent: &Ended) {
    shared.ending().on_drained(clock::now());
    loop {
        carry_out(shared, &mut None);
        if shared.ending().has_ended() {
            return;
        }
        let deadline = shared.ending().next_deadline();
        let timeout = deadline.map_or(LAST_WORDS_PATIENCE, |deadline| deadline - clock::now());
        if sent.wait(timeout) {
            shared.ending().on_closed();
        }
        shared.ending().on_time(clock::now());
    }
}

/// Carries out the actions of the session's ending; `flushed` gets the signal of a flush that is
/// begun.
fn carry_out(shared: &Shared<'_>, flushed: &mut Option<Ended>) {
    loop {
        let action = shared.ending().poll();
        match action {
            None => return,
            Some(Action::Say(message)) => shared.reply(*message),
            Some(Action::Flush) => *flushed = Some(shared.flush()),
            Some(Action::Cut) => {
                shared.link.shutdown();
                shared.pool.close();
            }
            Some(Action::CutFurther) => {
                shared.further.shut_all();
            }
            Some(Action::Close) => {
                let _ = shared.replies.send(Reply::End);
            }
        }
    }
}

/// Takes a further connection into use: registers it, and starts the thread that receives on it.
fn add<'scope>(
    shared: &'scope Shared<'scope>,
    scope: &'scope std::thread::Scope<'scope, '_>,
    further: &Intake<'scope>,
    link: FurtherLink,
) {
    let FurtherLink { number, link: Link { outlet, inlet, control } } = link;
    if !shared.connections().on_joined(number) {
        return control.shutdown();
    }
    shared.further.add(number, control);
    let intake = further.clone();
    let receiving = try_start(scope, "receive", move || {
        // Nothing is sent on a further connection; its sending half only has to stay open.
        let _open = outlet;
        intake.run_further(number, inlet);
    });
    if let Err(error) = receiving {
        further.cannot_receive(number, &error);
    }
}
