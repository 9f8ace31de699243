//! Receipts of a far end that ssh has started: the identity of the user who is logged in signs them.
//!
//! None is made on the way: a key that nobody knew before proves nothing to others.

use std::sync::Arc;

use icdc_protocol::Message;
use icdc_protocol::message::{Job, PassedReceipt, Request, Transfer};
use icdc_session_process::Root;
use icdc_transfer::{KeyNotary, NoNotary, Notary, Parties};
use icdc_trust::{Identity, Paths};

/// Notary of a session's receipt, which signs with the identity of the user whom ssh has logged in;
/// one without a key if the user has none, or no receipt is asked for.
pub(crate) fn login_notary(request: &Request, root: &Root) -> Box<dyn Notary> {
    let Job::Transfer(Transfer::Receive { options, .. }) = &request.job else { return unasked() };
    if !options.receipt {
        return unasked();
    }
    match login_key() {
        Ok(identity) => {
            let parties = Parties::on_this_host(&user(), login());
            let notary = KeyNotary::new(Arc::new(identity), parties, &request.transfer, options);
            Box::new(match root {
                Root::Unconfined { home } => notary.starting_in(home.clone()),
                Root::Granted { .. } => notary,
            })
        }
        Err(reason) => Box::new(NoNotary(reason)),
    }
}

/// Tells the starting end, which is neither sender nor receiver, the key that signs receipts here.
pub(crate) fn told_key() -> Message {
    Message::PassedReceipt(match login_key() {
        Ok(identity) => PassedReceipt::Key(*identity.public().as_bytes()),
        Err(reason) => PassedReceipt::NoKey(reason),
    })
}

/// Identity of the user whom ssh has logged in; the error is a sentence for the other end's user.
fn login_key() -> Result<Identity, String> {
    let identity = Paths::from_environment()
        .ok_or_else(|| "neither XDG_CONFIG_HOME nor HOME is set".to_owned())
        .and_then(|paths| Identity::load(&paths.identity).map_err(|error| error.to_string()));
    identity.map_err(|error| {
        format!(
            "no key there can sign a receipt: {error}; run `icdc keygen` there once, and keep the public key that it prints"
        )
    })
}

/// Notary without a key, for a session of which no receipt is asked.
fn unasked() -> Box<dyn Notary> {
    Box::new(NoNotary("no receipt was asked for".to_owned()))
}

/// User of this process for a receipt: the name as the login has it, else the number.
fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| format!("user {}", rustix::process::geteuid().as_raw()))
}

/// Description of the ssh login for a receipt, with the client's address as sshd gives it.
fn login() -> String {
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    match connection.split(' ').next() {
        Some(address) if !address.is_empty() => format!("ssh login from {address}"),
        _ => "ssh login".to_owned(),
    }
}
