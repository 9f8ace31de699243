//! A copy within one host: both ends in this process, over a link in memory.

use std::sync::Arc;

use crossbeam_channel::unbounded;
use icdc_disk::tree::Tree;
use icdc_link::memory_pair;
use icdc_protocol::Features;
use icdc_protocol::message::{ReceiveOptions, SendOptions, TransferId};
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_tcp::Privileges;

use crate::account::Account;
use crate::event::{EventSink, Summary};
use crate::further_links::Joining;
use crate::name_list::NameList;
use crate::receipt::Notary;
use crate::run::Run;
use crate::sender::selection::Selection;
use crate::sender::{Follow, Input, SendingLink, Sent, Sources};
use crate::stage_thread::{local, try_start};
use crate::user_ceiling::UserCeiling;
use crate::{clock, receiver, sender, summary};

/// Request to copy within this host, with both ends in this process.
pub struct WithinHost<'a> {
    /// Id of the run.
    pub transfer: TransferId,
    /// Tree in which sources and destination are resolved.
    pub tree: &'a Tree,
    /// The sources, as the user wrote them.
    pub paths: &'a [Vec<u8>],
    /// Stream that is copied in place of sources; `None` for sources that have paths.
    pub input: Option<&'a Input>,
    /// Part of the sources that is copied; `None` for everything.
    pub selection: Option<&'a Arc<Selection>>,
    /// Names below the only source that are copied; `None` for everything.
    pub listed: Option<&'a NameList>,
    /// Follows the sources; `None` if what is there is copied once.
    pub follow: Option<&'a Follow>,
    /// The destination, as the user wrote it.
    pub destination: &'a [u8],
    /// Options of the sending end.
    pub send: &'a SendOptions,
    /// Options of the receiving end.
    pub receive: &'a ReceiveOptions,
    /// Signs a receipt; `None` if none is made.
    pub notary: Option<&'a dyn Notary>,
    /// The user's ceiling of the rate.
    pub ceiling: &'a Arc<UserCeiling>,
}

impl WithinHost<'_> {
    /// Copies, by one session or, of followed sources, by as many as it takes, and reports to
    /// `events`. Returns when the copy has ended.
    ///
    /// # Errors
    /// Reason why the sending end's session ended early.
    pub fn copy(&self, events: &EventSink, stop: &StopSignal) -> Result<Summary, SessionError> {
        let account = Account::new(clock::now());
        let run = Run { account: &account, events, stop, ceiling: Some(self.ceiling) };
        let mut sent = self.session(run)?;
        while self.follow.is_some_and(|follow| !follow.is_through()) {
            sent.add(self.session(run)?);
        }
        Ok(summary::of_sent(&sent, &account, self.receive))
    }

    /// Runs one session with both ends in this process, and waits for its end.
    fn session(&self, run: Run<'_>) -> Result<Sent, SessionError> {
        let (near, far) = memory_pair();
        let (_, nobody) = unbounded();
        let nobody = Joining { joined: &nobody, wanted: None };
        // The sender reports everything.
        let silent: EventSink = Arc::new(|_| {});
        let &Self {
            transfer, tree, paths, input, selection, listed, follow, destination, send, receive, notary, ..
        } = self;
        let order = receiver::ReceiveRequest {
            transfer,
            tree,
            destination,
            asked: None,
            ends_here: false,
            listed: None,
            options: receive,
            output: None,
            allowed: receiver::Allowed::default(),
            // Reading the file that is replaced costs more here than writing what is equal.
            peer: Features::OURS.without(Features::DIFFERENCES),
            notary,
        };
        let receiving = Account::new(run.account.start());
        // The sender handles the user's request to stop and informs the receiver.
        let never_asked = StopSignal::new();
        let received = Run { account: &receiving, events: &silent, stop: &never_asked, ceiling: None };
        std::thread::scope(|scope| {
            try_start(scope, "receiver", || receiver::run(far, nobody, &order, received)).map_err(local)?;
            let found = match input {
                Some(input) => Sources::stream(input.clone()),
                None => sender::find_sources(tree, paths, send, &transfer)
                    .restricted_to(selection.cloned())
                    .listed(listed.cloned()),
            };
            let link = SendingLink { link: near, tuned: None, peer: Features::OURS, privileges: Privileges::own() };
            sender::run(link, nobody, Follow::attach_to(follow, found), send, run)
        })
    }
}
