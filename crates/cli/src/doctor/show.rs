//! Results of an examination as text.

use icdc_doctor::remedy::Undone;
use icdc_doctor::{Finding, Group, Severity};

use super::examination::Examination;
use crate::copy::summary::counted;

/// Width of the column of severities, in characters.
const MARGIN: usize = 9;

/// All lines about an examination for the terminal. Commands that need root begin with `sudo`
/// unless `is_root`.
pub(super) fn lines(examination: &Examination, is_root: bool) -> Vec<String> {
    let Examination { aim, path, findings, .. } = examination;
    let mut lines = vec![format!(
        "host, for {} over {}: {} in flight, buffers of {}",
        aim.rate,
        aim.round_trip,
        aim.in_flight(),
        aim.buffer()
    )];
    let of = |group| findings.iter().filter(move |finding| finding.group == group);
    lines.extend(of(Group::Host).flat_map(|finding| told(finding, examination, is_root)));
    if let Some(path) = path {
        lines.push(format!("path to {}", path.target));
        lines.extend(of(Group::Path).flat_map(|finding| told(finding, examination, is_root)));
    }
    lines.push(conclusion(examination, is_root));
    lines
}

/// Lines about a finding: what was found and, unless that is as it should be, why it matters and
/// the commands that fix it, ready to be pasted.
fn told(finding: &Finding, examination: &Examination, is_root: bool) -> Vec<String> {
    let mut lines = vec![format!("  {:<MARGIN$}{}", mark(finding.severity), finding.found)];
    if finding.severity > Severity::Ok {
        let applied = is_applied(finding, examination);
        let margin = MARGIN + 2;
        lines.push(format!("{:margin$}{}", "", finding.why));
        lines.extend(finding.fix.iter().map(|command| {
            let done = if applied { "  # applied" } else { "" };
            format!("{:margin$}{}{done}", "", as_user(command, is_root))
        }));
    }
    lines
}

/// Word for a severity at the beginning of a line.
fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Problem => "PROBLEM",
        other => name(other),
    }
}

/// Name of a severity, in one word.
pub(super) fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "ok",
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

/// Whether this run has applied the change that a finding proposes.
pub(super) fn is_applied(finding: &Finding, examination: &Examination) -> bool {
    let change = finding.change.as_ref();
    change.is_some_and(|change| examination.applied.iter().any(|set| set.name == change.name))
}

/// The command, with `sudo` before it if it needs root and this user is not.
fn as_user(command: &str, is_root: bool) -> String {
    if is_root || command.starts_with("icdc copy") { command.to_owned() } else { format!("sudo {command}") }
}

/// The last line: how many findings there are, and the command that applies or undoes changes.
fn conclusion(examination: &Examination, is_root: bool) -> String {
    let Examination { aim, findings, applied, .. } = examination;
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    let kinds = [Severity::Problem, Severity::Warning, Severity::Note];
    let counts = kinds.into_iter().filter(|severity| count(*severity) > 0);
    let counts: Vec<String> = counts.map(|severity| counted(count(severity), name(severity))).collect();
    let counts = if counts.is_empty() { "nothing to complain about".to_owned() } else { counts.join(", ") };
    let open = findings.iter().filter(|finding| finding.change.is_some()).count();
    if !applied.is_empty() {
        let undo = as_user("icdc doctor --undo", is_root);
        return format!("{counts}; {} applied, `{undo}` takes them back", counted(applied.len() as u64, "setting"));
    }
    if open == 0 {
        return counts;
    }
    let settings = format!("icdc doctor --rate {} --rtt {} --apply", aim.rate.to_argument(), aim.round_trip);
    let apply = as_user(&settings, is_root);
    format!("{counts}; `{apply}` settles {open} of them")
}

/// Lines about the changes that `--undo` has undone, and those that it left because they were
/// changed since.
pub(super) fn undone(undone: &Undone) -> Vec<String> {
    let restored = undone.restored.iter().map(|set| format!("{} is {} again", set.name, set.now));
    let left = undone.left.iter().map(|set| {
        format!("{} stays {}: it was changed after --apply had set it to {}", set.name, set.now, set.before)
    });
    let lines: Vec<String> = restored.chain(left).collect();
    if lines.is_empty() { vec!["there is nothing to undo".to_owned()] } else { lines }
}

#[cfg(test)]
mod tests {
    use icdc_doctor::remedy::{Change, Set, Setting};
    use icdc_doctor::{Aim, HostFacts, PathFacts};

    use super::super::examination::Troubles;
    use super::*;

    fn finding(group: Group, severity: Severity, fix: &[&str], change: bool) -> Finding {
        Finding {
            id: "id",
            group,
            subject: None,
            severity,
            found: "what is".to_owned(),
            why: "why it matters",
            fix: fix.iter().map(|command| (*command).to_owned()).collect(),
            change: change.then_some(Change { name: "net.ipv4.tcp_sack", to: Setting::Exactly(1) }),
        }
    }

    fn examination() -> Examination {
        let host = HostFacts::default();
        let findings = vec![
            finding(Group::Host, Severity::Problem, &["sysctl -w net.ipv4.tcp_sack=1"], true),
            finding(Group::Host, Severity::Ok, &[], false),
            finding(Group::Path, Severity::Note, &["icdc copy --rate 1mbit"], false),
        ];
        let path = Some(PathFacts { target: "far".to_owned(), ..PathFacts::default() });
        let aim = Aim::new(None, None, &host, None);
        Examination { host, path, aim, findings, applied: Vec::new(), troubles: Troubles::default() }
    }

    #[test]
    fn findings_come_with_commands_to_paste() {
        let expected = "\
host, for 1 Gbit/s over 300ms: 37.5MB in flight, buffers of 112.5MB
  PROBLEM  what is
           why it matters
           sudo sysctl -w net.ipv4.tcp_sack=1
  ok       what is
path to far
  note     what is
           why it matters
           icdc copy --rate 1mbit
1 problem, 1 note; `sudo icdc doctor --rate 1gbit --rtt 300ms --apply` settles 1 of them";
        assert_eq!(lines(&examination(), false).join("\n"), expected);
    }

    #[test]
    fn what_was_applied_is_marked() {
        let set = Set { name: "net.ipv4.tcp_sack", before: "0".to_owned(), now: "1".to_owned() };
        let lines = lines(&Examination { applied: vec![set], ..examination() }, true);
        assert_eq!(lines[3].trim_start(), "sysctl -w net.ipv4.tcp_sack=1  # applied");
        assert_eq!(lines.last().unwrap(), "1 problem, 1 note; 1 setting applied, `icdc doctor --undo` takes them back");
    }

    #[test]
    fn nothing_to_undo_is_said() {
        assert_eq!(undone(&Undone::default()), ["there is nothing to undo"]);
    }
}
