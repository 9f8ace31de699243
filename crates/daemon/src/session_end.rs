//! The report of a session that has ended: its last line in the audit log, whether there is a log
//! or not.

use std::fmt;
use std::sync::Arc;

use icdc_protocol::validate::clip;
use serde::Serialize;
use serde_json::Value;

use crate::audit::Line;

/// Longest JSON of a session in bytes: what its process says is not bounded otherwise.
const LONGEST: usize = 32 << 10;

/// Report of a session that has ended, whatever the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionEnd {
    /// Line of the audit log, as JSON.
    pub json: String,
    /// Id of the transfer, the same for all its sessions.
    pub session: String,
    /// Result of the session: a word of [`RunResult`](icdc_metrics::RunResult).
    pub result: String,
    /// Word for the result that 0.1.0 deprecates: `done`, `interrupted`, `cut` or `refused`.
    pub former_result: String,
    /// Comment of the key's line in the authorized keys.
    pub who: String,
    /// Fingerprint of the key.
    pub key: String,
    /// Address and port of the client.
    pub from: String,
    /// Name of the requested job.
    pub job: String,
    /// The first path of the request, escaped.
    pub path: String,
    /// Number of payload bytes transferred.
    pub bytes: u64,
    /// Number of complete files; 0 if the session is not complete.
    pub files: u64,
}

/// Receiver of reports on ended sessions; it must not block.
#[derive(Clone)]
pub struct EndSink(pub Arc<dyn Fn(SessionEnd) + Send + Sync>);

impl fmt::Debug for EndSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EndSink").finish_non_exhaustive()
    }
}

/// Line of the audit log with its date and time.
#[derive(Serialize)]
struct Dated<'a> {
    time: String,
    #[serde(flatten)]
    line: &'a Line<'a>,
}

impl SessionEnd {
    /// The report with what the last audit line of a session says.
    pub(crate) fn of(line: &Line<'_>) -> Self {
        let text = |value: Option<&str>| clip(value.unwrap_or_default().to_owned());
        Self {
            json: json(line),
            session: line.session.clone().unwrap_or_default(),
            result: text(line.result),
            former_result: text(line.former_result),
            who: text(line.who),
            key: line.key.clone().unwrap_or_default(),
            from: text(line.from),
            job: text(line.job),
            path: text(line.path),
            bytes: line.bytes.unwrap_or(0),
            files: line.outcome.get("files").and_then(Value::as_u64).unwrap_or(0),
        }
    }
}

/// The line with its time as JSON, without what a session's process has told if that is too long.
fn json(line: &Line<'_>) -> String {
    let time = format!("{:.3}", jiff::Timestamp::now());
    // Plain data with text as keys.
    let whole = serde_json::to_string(&Dated { time: time.clone(), line }).unwrap_or_default();
    if whole.len() <= LONGEST {
        return whole;
    }
    let short = |value: Option<&str>| value.map(|value| clip(value.to_owned()));
    let (path, reason) = (short(line.path), short(line.reason));
    let Line { event, who, from, job, result, former_result, bytes, seconds, .. } = *line;
    let (session, key) = (line.session.clone(), line.key.clone());
    let (path, reason) = (path.as_deref(), reason.as_deref());
    let line = Line {
        event,
        session,
        who,
        key,
        from,
        job,
        path,
        result,
        former_result,
        reason,
        seconds,
        bytes,
        ..Line::default()
    };
    serde_json::to_string(&Dated { time, line: &line }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_the_audit_log_says_within_bounds() {
        let outcome = serde_json::json!({ "files": 3, "digest": "ab" }).as_object().unwrap().clone();
        let line = Line {
            event: "session_end",
            result: Some("complete"),
            path: Some("/a"),
            bytes: Some(7),
            outcome,
            ..Line::default()
        };
        let end = SessionEnd::of(&line);
        let said: Value = serde_json::from_str(&end.json).unwrap();
        assert_eq!((&said["event"], &said["files"], &said["bytes"]), (&"session_end".into(), &3.into(), &7.into()));
        assert_eq!((end.files, end.bytes, end.result.as_str(), end.path.as_str()), (3, 7, "complete", "/a"));
        let long = "x".repeat(1 << 20);
        let end = SessionEnd::of(&Line { path: Some(&long), reason: Some(&long), ..line });
        let said: Value = serde_json::from_str(&end.json).unwrap();
        assert!(
            end.json.len() <= LONGEST && end.path.len() < LONGEST && said["result"] == "complete",
            "{}",
            end.json.len()
        );
    }
}
