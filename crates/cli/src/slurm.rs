//! `icdc slurm submit`: a plan, and the jobs that carry it out.
//!
//! ```text
//! plan/slurm/shard.sh ─► sbatch --array ─► icdc copy --plan plan     one task for each shard
//! plan/slurm/join.sh ──► sbatch --dependency afterany ─► icdc plan join plan
//! ```
//!
//! What the user gives for sbatch comes last on its command line, where it counts.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, anyhow, bail, ensure};
use icdc_shards::Plan;
use serde_json::json;

use crate::arguments::{self, Command, SlurmArguments, SlurmCommand, SubmitArguments};
use crate::console::Console;
use crate::copy::summary::counted;
use crate::shards::{NO_RECEIPT, Wanted, make, states};
use crate::{exit, logs};

/// Exit code of a task that has stopped cleanly and goes on when it is started again.
const GOES_ON: u8 = exit::INTERRUPTED;
/// Most times that a task requeues itself.
const MOST_REQUEUES: u32 = 100;
/// Time between the signal to a task and its time limit, in seconds.
const NOTICE: u32 = 60;

/// Runs `icdc slurm submit` and returns the exit code.
pub(crate) fn run(arguments: SlurmArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    let SlurmCommand::Submit(arguments) = arguments.command;
    let options = match Options::new(&arguments) {
        Ok(options) => options,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let (plan, directory, errors) = match planned(&arguments, console) {
        Ok(planned) => planned,
        Err(code) => return code,
    };
    let code = match submit(&arguments, &options, &plan, &directory, console) {
        Ok(()) if errors > 0 => exit::FAILED,
        Ok(()) => 0,
        Err(error) => return console.give_up(&error, exit::FAILED),
    };
    console.flush();
    if console.has_lost_results() { code.max(exit::FAILED) } else { code }
}

/// Makes a plan or opens the named one; returns it with its directory, and the number of items that
/// cannot be copied. The error is an exit code; its reason was printed.
fn planned(arguments: &SubmitArguments, console: &Console) -> Result<(Plan, PathBuf, usize), u8> {
    let absolute = |path: &Path| {
        let found = path.canonicalize().with_context(|| path.display().to_string());
        found.map_err(|error| console.give_up(&error, exit::USAGE))
    };
    if let Some(directory) = &arguments.plan {
        let plan = Plan::open(directory).map_err(|error| console.give_up(&error.into(), exit::USAGE))?;
        return Ok((plan, absolute(directory)?, 0));
    }
    let SubmitArguments { places, out, content, .. } = arguments;
    let out = out.clone().unwrap_or_default();
    let shards = arguments.shards.unwrap_or(arguments.nodes);
    let wanted = Wanted { places, shards, out: &out, content: content.clone() };
    let (plan, errors) = make(wanted, console)?;
    Ok((plan, absolute(&out)?, errors))
}

/// Further options for the programs that the jobs run, and for sbatch, word by word.
struct Options {
    connection: Vec<String>,
    copy: Vec<String>,
    sbatch: Vec<String>,
}

impl Options {
    /// Splits the options into words by a shell's rules and checks them, so that errors show now
    /// and not in a job hours later.
    fn new(arguments: &SubmitArguments) -> anyhow::Result<Self> {
        let words = |option: &str, text: &str| shell_words::split(text).with_context(|| format!("{option}: {text}"));
        let options = Self {
            connection: words("--connection", &arguments.connection)?,
            copy: words("--copy", &arguments.copy)?,
            sbatch: words("--sbatch", &arguments.sbatch)?,
        };
        let check = |option: &str, first: &[&str], words: &[&[String]]| {
            let words = first.iter().map(|word| (*word).to_owned()).chain(words.concat());
            let parsed = arguments::parse_from(words);
            parsed.map_err(|error| {
                anyhow!("{option}: {}", error.render().to_string().trim_start_matches("error: ").trim())
            })
        };
        for word in &options.sbatch {
            let is_ours = ["--array", "--dependency", "--output", "-a", "-d", "-o"].iter().any(|ours| {
                word == ours
                    || word.strip_prefix(ours).is_some_and(|rest| rest.starts_with('=') || !ours.starts_with("--"))
            });
            ensure!(!is_ours, "--sbatch: {word} is for icdc to set");
        }
        check("--connection", &["icdc", "plan", "join", "."], &[&options.connection])?;
        let copy = check("--copy", &["icdc", "copy", "--plan", "."], &[&options.connection, &options.copy])?;
        if let Command::Copy(copy) = copy.command {
            ensure!(copy.shard.0.is_none(), "--copy: each task has a shard of its own; leave --shard out");
            ensure!(copy.receipt.is_none(), "--copy: {NO_RECEIPT}");
            ensure!(copy.report.is_none(), "--copy: all tasks would write the same report; leave --report out");
        }
        Ok(options)
    }
}

/// Writes the scripts, submits the array job that copies the shards that are left and the job that
/// joins them, and prints their numbers. With `--dry-run`, prints the commands only.
fn submit(
    arguments: &SubmitArguments,
    options: &Options,
    plan: &Plan,
    directory: &Path,
    console: &Console,
) -> anyhow::Result<()> {
    let left = left(plan)?;
    let icdc = std::env::current_exe().context("the path of this program cannot be found out")?;
    let scripts = directory.join("slurm");
    fs::create_dir_all(&scripts).with_context(|| scripts.display().to_string())?;
    let copy =
        words(&icdc, &["copy", "--progress", "never", "--plan"], directory, &[&options.connection, &options.copy])?;
    let join = words(&icdc, &["plan", "join"], directory, &[&options.connection])?;
    write(&scripts.join("shard.sh"), &shard_script(&copy))?;
    write(&scripts.join("join.sh"), &format!("#!/bin/sh\nexec {join}\n"))?;

    let commands = Commands { options, scripts: &scripts };
    let array = commands.array(&left, arguments.nodes)?;
    let join = |after: &str| commands.join(after);

    if arguments.dry_run {
        if !left.is_empty() {
            console.result(&format!("sbatch {}", shell_words::join(&array)));
        }
        console.result(&format!("sbatch {}", shell_words::join(join("JOB")?)));
        return Ok(());
    }
    if left.is_empty() {
        bail!("all shards are copied; join them: icdc plan join {}", directory.display());
    }
    let again = || {
        let (plan, nodes) = (directory.display(), arguments.nodes);
        format!("the plan is made; submit it with icdc slurm submit --plan {plan} --nodes {nodes}")
    };
    let shards = sbatch(&array).with_context(again)?;
    let join =
        sbatch(&join(&shards)?).with_context(|| format!("job {shards} copies the shards, but nothing joins them"))?;
    if arguments.json {
        let submitted = json!({
            "type": "slurm_submit", "plan": directory.display().to_string(), "shards": left, "array_job": shards, "join_job": join,
        });
        console.json(&submitted.to_string());
        return Ok(());
    }
    console.result(&format!(
        "job {shards} copies {}, {} at a time; job {join} joins them",
        counted(left.len() as u64, "shard"),
        arguments.nodes.min(left.len() as u32)
    ));
    console.result(&format!("to follow: icdc plan status {}; logs are in {}", directory.display(), scripts.display()));
    Ok(())
}

/// Maker of the sbatch command lines of a plan's jobs.
struct Commands<'a> {
    options: &'a Options,
    /// Directory of the scripts and logs.
    scripts: &'a Path,
}

impl Commands<'_> {
    /// Arguments of sbatch for the array job that copies the shards `left`, at most `nodes` of them
    /// at a time.
    fn array(&self, left: &[u32], nodes: u32) -> anyhow::Result<Vec<String>> {
        let mut array = vec!["--parsable".to_owned(), "--job-name=icdc-shards".into()];
        array.push(format!("--array={}%{nodes}", ranges(left)));
        array.extend(["--requeue".into(), format!("--signal=B:USR1@{NOTICE}"), "--open-mode=append".into()]);
        array.push(format!("{}-%a.log", self.output("shard")?));
        array.extend(self.options.sbatch.iter().cloned());
        array.push(text(self.scripts.join("shard.sh"))?);
        Ok(array)
    }

    /// Arguments of sbatch for the job that joins the shards once the job `after` has ended.
    fn join(&self, after: &str) -> anyhow::Result<Vec<String>> {
        let mut join = vec!["--parsable".to_owned(), "--job-name=icdc-join".into(), "--open-mode=append".into()];
        join.extend([format!("--dependency=afterany:{after}"), self.output("join.log")?]);
        join.extend(self.options.sbatch.iter().cloned());
        join.push(text(self.scripts.join("join.sh"))?);
        Ok(join)
    }

    /// The option that names a log; sbatch takes `%` for the begin of a pattern.
    fn output(&self, name: &str) -> anyhow::Result<String> {
        Ok(format!("--output={}", text(self.scripts.join(name))?.replace('%', "%%")))
    }
}

/// A path as text, as sbatch takes it.
fn text(path: PathBuf) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).context("sbatch needs names in UTF-8")
}

/// Numbers of the shards that are not copied yet.
fn left(plan: &Plan) -> anyhow::Result<Vec<u32>> {
    let states = (0..).zip(states(plan)?);
    Ok(states.filter(|(_, state)| !state.is_done()).map(|(shard, _)| shard).collect())
}

/// Shard numbers as Slurm writes them: `0-3,7`.
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

/// A command line of icdc on the plan, quoted for a shell: the program, `command`, the plan's
/// directory, and `options`.
fn words(icdc: &Path, command: &[&str], plan: &Path, options: &[&[String]]) -> anyhow::Result<String> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a script needs names in UTF-8");
    let mut words = vec![text(icdc)?];
    words.extend(command.iter().map(|word| (*word).to_owned()));
    words.push(text(plan)?);
    words.extend(options.concat());
    Ok(shell_words::join(words))
}

/// Shell script of a task that runs the command `copy`. Slurm sends it SIGUSR1 when the time is
/// nearly over; a task that has stopped for that, or whose connection was lost for too long, is put
/// back into the queue. SIGTERM comes when a job is cancelled or when Slurm itself puts it back.
fn shard_script(copy: &str) -> String {
    format!(
        "#!/bin/sh\n\
         {copy} &\n\
         copy=$!\n\
         ended=\n\
         trap 'kill -TERM $copy 2>/dev/null' USR1\n\
         trap 'ended=yes; kill -TERM $copy 2>/dev/null' TERM\n\
         while :; do\n    \
             wait $copy\n    \
             code=$?\n    \
             [ $code -gt 128 ] && kill -0 $copy 2>/dev/null || break\n\
         done\n\
         if [ $code = {GOES_ON} ] && [ -z \"$ended\" ] && [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {MOST_REQUEUES} ]; then\n    \
             scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"\n\
         fi\n\
         exit $code\n"
    )
}

/// Writes an executable script that only its owner can read.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = fs::write(path, text).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)));
    written.with_context(|| path.display().to_string())
}

/// Submits a job by sbatch and returns its number.
fn sbatch(words: &[String]) -> anyhow::Result<String> {
    let output = process::Command::new("sbatch").args(words).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow!("sbatch is not found: run this on a host that submits to Slurm, or with --dry-run")
        }
        _ => anyhow!("sbatch: {error}"),
    })?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        bail!("sbatch failed: {}", if said.is_empty() { output.status.to_string() } else { said });
    }
    // "JOB" or "JOB;CLUSTER".
    let job = String::from_utf8_lossy(&output.stdout).trim().split(';').next().unwrap_or_default().to_owned();
    let is_number = !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { Ok(job) } else { bail!("sbatch answered {job:?} in place of the number of a job") }
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn numbers_are_written_as_slurm_reads_them() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
    }
}
