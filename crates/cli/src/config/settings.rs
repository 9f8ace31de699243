//! The settings: which options of commands files and variables may set.
//!
//! An option becomes a setting by one line here. The parser of files, `icdc config`, its man page,
//! the shipped example and the table in docs/copying.md are made from these lines; values are read
//! as those of the option, whose help is the description.

use crate::applies::Concern;

/// An option whose value files and a variable may set.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Key of the setting in configuration files; its option is `--KEY`.
    pub(crate) key: &'static str,
    /// Environment variable that sets it.
    pub(crate) variable: &'static str,
    /// Form of its value in files.
    pub(crate) form: Form,
    /// Subject of the setting; in a command that has no such thing, the setting does not count.
    pub(crate) concern: Concern,
    /// Commands that have the option; the setting's values are those that the first one takes.
    pub(crate) commands: &'static [&'static str],
    /// A value as it stands in a file.
    pub(crate) example: &'static str,
}

/// Form of a setting's value in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A string, as `"text"`.
    Text,
    /// A number, as `7`, or a string.
    Number,
    /// A list of strings, as `["a", "b"]` or `"a,b"`.
    List,
    /// A path as a string, `"/path"` or `"~/path"`.
    Path,
    /// A path as a string, or this word.
    PathOr(&'static str),
    /// A Boolean, `true` or `false`.
    Flag,
}

/// Commands that reach far hosts.
const REACHING: &[&str] =
    &["copy", "sync", "ls", "du", "verify", "mkdir", "rm", "mv", "measure", "doctor", "plan join"];
/// Commands whose sending rate is limited and whose congestion control is chosen.
const RATED: &[&str] = &["copy", "sync", "measure"];
/// Commands that copy.
const COPY: &[&str] = &["copy", "sync"];
/// Commands that copy, or plan a copy.
const PLANNED: &[&str] = &["copy", "sync", "plan", "slurm submit"];

/// Settings of commands that reach far hosts: at the top of a file, in `[default]`, and in
/// `[host."PATTERN"]`. `via` comes first: others are of use for some routes only.
#[rustfmt::skip]
pub(crate) const REACH: &[Setting] = &[
    setting("via", "ICDC_VIA", Form::Text, Concern::Route, REACHING, "\"direct\""),
    setting("ssh", "ICDC_SSH", Form::Text, Concern::SshHost, REACHING, "\"ssh -p 2222\""),
    setting("remote-icdc", "ICDC_REMOTE_ICDC", Form::Text, Concern::SshHost, REACHING, "\"/opt/icdc/bin/icdc\""),
    setting("send-self", "ICDC_SEND_SELF", Form::Flag, Concern::SshHost, REACHING, "true"),
    setting("port", "ICDC_PORT", Form::Number, Concern::SshTransfer, REACHING, "\"5000-5010\""),
    setting("bind", "ICDC_BIND", Form::List, Concern::Egress, REACHING, "[\"eth0\", \"eth1\"]"),
    setting("proxy-login", "ICDC_PROXY_LOGIN_FILE", Form::Path, Concern::ProxyLogin, REACHING, "\"~/.config/icdc/proxy-login\""),
    setting("family", "ICDC_FAMILY", Form::Text, Concern::Transfer, REACHING, "\"ipv6\""),
    setting("identity", "ICDC_IDENTITY", Form::Path, Concern::DaemonHost, REACHING, "\"~/.config/icdc/identity\""),
    setting("known-hosts", "ICDC_KNOWN_HOSTS", Form::Path, Concern::DaemonHost, REACHING, "\"~/.config/icdc/known_hosts\""),
    setting("retry-for", "ICDC_RETRY_FOR", Form::Text, Concern::Transfer, COPY, "\"2h\""),
    setting("rate", "ICDC_RATE", Form::Text, Concern::Transfer, RATED, "\"900mbit\""),
    setting("cc", "ICDC_CC", Form::Text, Concern::Transfer, RATED, "\"bbr\""),
    setting("streams", "ICDC_STREAMS", Form::Number, Concern::Transfer, COPY, "4"),
    setting("compress", "ICDC_COMPRESS", Form::Number, Concern::Transfer, COPY, "\"auto\""),
    setting("ring", "ICDC_RING", Form::Text, Concern::Copy, COPY, "\"1GiB\""),
    setting("buffered", "ICDC_BUFFERED", Form::Flag, Concern::Copy, COPY, "true"),
    setting("verify", "ICDC_VERIFY", Form::Flag, Concern::Copy, COPY, "true"),
    setting("if-running", "ICDC_IF_RUNNING", Form::Text, Concern::Copy, COPY, "\"skip\""),
    setting("one-file-system", "ICDC_ONE_FILE_SYSTEM", Form::Flag, Concern::Copy, PLANNED, "true"),
    setting("exclude-caches", "ICDC_EXCLUDE_CACHES", Form::Flag, Concern::Copy, PLANNED, "true"),
    setting("preserve", "ICDC_PRESERVE", Form::List, Concern::Copy, PLANNED, "[\"mode\", \"times\", \"links\", \"sparse\"]"),
    setting("no-digest-cache", "ICDC_NO_DIGEST_CACHE", Form::Flag, Concern::Copy, COPY, "true"),
    setting("numeric-ids", "ICDC_NUMERIC_IDS", Form::Flag, Concern::Copy, COPY, "true"),
];

/// The command that runs the daemon.
const SERVING: &[&str] = &["serve"];

/// Settings of the daemon on this host, in `[serve]`.
#[rustfmt::skip]
pub(crate) const SERVE: &[Setting] = &[
    setting("listen", "ICDC_SERVE_LISTEN", Form::Text, Concern::Daemon, SERVING, "\"192.0.2.7:2633\""),
    setting("root", "ICDC_SERVE_ROOT", Form::Path, Concern::Daemon, SERVING, "\"/srv/data\""),
    setting("authorized-keys", "ICDC_SERVE_AUTHORIZED_KEYS", Form::Path, Concern::Daemon, SERVING, "\"/etc/icdc/authorized_keys\""),
    setting("identity", "ICDC_SERVE_IDENTITY", Form::Path, Concern::Daemon, SERVING, "\"/etc/icdc/identity\""),
    setting("max-rate", "ICDC_SERVE_MAX_RATE", Form::Text, Concern::Daemon, SERVING, "\"10gbit\""),
    setting("allow-cc", "ICDC_SERVE_ALLOW_CC", Form::List, Concern::Daemon, SERVING, "[\"highspeed\", \"htcp\"]"),
    setting("audit", "ICDC_SERVE_AUDIT", Form::PathOr("journal"), Concern::Daemon, SERVING, "\"/var/log/icdc/audit.log\""),
    setting("audit-size", "ICDC_SERVE_AUDIT_SIZE", Form::Text, Concern::Daemon, SERVING, "\"100MB\""),
    setting("audit-keep", "ICDC_SERVE_AUDIT_KEEP", Form::Number, Concern::Daemon, SERVING, "10"),
    setting("audit-full", "ICDC_SERVE_AUDIT_FULL", Form::Text, Concern::Daemon, SERVING, "\"refuse\""),
    setting("metrics", "ICDC_SERVE_METRICS", Form::Text, Concern::Daemon, SERVING, "\"127.0.0.1:9633\""),
    setting("on-finish", "ICDC_SERVE_ON_FINISH", Form::Text, Concern::Daemon, SERVING, "\"/usr/local/bin/catalogue\""),
    setting("on-finish-timeout", "ICDC_SERVE_ON_FINISH_TIMEOUT", Form::Text, Concern::Daemon, SERVING, "\"60s\""),
    setting("webhook", "ICDC_SERVE_WEBHOOK", Form::Text, Concern::Daemon, SERVING, "\"https://hooks.example.org/icdc\""),
    setting("webhook-secret", "ICDC_SERVE_WEBHOOK_SECRET", Form::Path, Concern::Daemon, SERVING, "\"/etc/icdc/webhook\""),
    setting("webhook-timeout", "ICDC_SERVE_WEBHOOK_TIMEOUT", Form::Text, Concern::Daemon, SERVING, "\"10s\""),
    setting("scitags", "ICDC_SERVE_SCITAGS", Form::Text, Concern::Daemon, SERVING, "\"2.14\""),
    setting("scitags-registry", "ICDC_SERVE_SCITAGS_REGISTRY", Form::Path, Concern::Daemon, SERVING, "\"/etc/icdc/scitags.json\""),
    setting("scitags-collector", "ICDC_SERVE_SCITAGS_COLLECTOR", Form::Text, Concern::Daemon, SERVING, "\"192.0.2.9:10514\""),
    setting("scitags-interval", "ICDC_SERVE_SCITAGS_INTERVAL", Form::Text, Concern::Daemon, SERVING, "\"1min\""),
];

/// Subject of the setting of [`REACH`] with this key, which has to exist.
pub(crate) fn concern(key: &str) -> Concern {
    REACH.iter().find(|setting| setting.key == key).expect("it is a setting of those").concern
}

/// All settings: those of commands that reach far hosts, then those of the daemon.
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    REACH.iter().chain(SERVE)
}

/// A row of the table of settings.
const fn setting(
    key: &'static str,
    variable: &'static str,
    form: Form,
    concern: Concern,
    commands: &'static [&'static str],
    example: &'static str,
) -> Setting {
    Setting { key, variable, form, concern, commands, example }
}

impl Setting {
    /// The id of the option's argument.
    pub(crate) fn id(&self) -> String {
        self.key.replace('-', "_")
    }

    /// Whether the setting is for the daemon on this host, and stands in `[serve]`.
    pub(crate) fn is_of_daemon(&self) -> bool {
        self.concern == Concern::Daemon
    }

    /// Values that the setting accepts, in words for an error message.
    pub(crate) fn expected(&self) -> &'static str {
        match self.form {
            Form::Text => "a text",
            Form::Number => "a number or a text",
            Form::List => "a list of texts",
            Form::Path | Form::PathOr(_) => "a path as a text",
            Form::Flag => "true or false",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn variables_are_named_after_their_keys() {
        let mut seen = HashSet::new();
        for setting in all() {
            let section = if setting.is_of_daemon() { "SERVE_" } else { "" };
            let expected = match setting.key {
                // The login itself is in ICDC_PROXY_LOGIN.
                "proxy-login" => "ICDC_PROXY_LOGIN_FILE".to_owned(),
                key => format!("ICDC_{section}{}", key.to_uppercase().replace('-', "_")),
            };
            assert_eq!(setting.variable, expected);
            assert!(seen.insert(setting.variable), "{} stands here twice", setting.variable);
        }
    }
}
