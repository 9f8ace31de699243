//! The shards of this process: by `--shard`, or by a scheduler's variables.
//!
//! | variable | who sets it | shards |
//! |---|---|---|
//! | `SLURM_ARRAY_TASK_ID` | Slurm, for a task of a job array | the one of this number |
//! | `JOB_COMPLETION_INDEX` | Kubernetes, for a pod of an indexed job | the one of this number |
//! | `OMPI_COMM_WORLD_RANK`, `…_SIZE` | Open MPI's mpirun | number rank, rank + size, … |
//! | `PMI_RANK`, `PMI_SIZE` | MPICH's and Intel MPI's mpirun | likewise |
//! | `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` | Slurm's srun | likewise |
//!
//! A batch script has `SLURM_PROCID` and `SLURM_NTASKS` as well, but is no task of a step.

use anyhow::{Context, bail, ensure};

/// Environment variables in which a scheduler gives a job the number of its single shard.
const NUMBERED: [&str; 2] = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"];
/// Environment variables in which a launcher gives a process its rank, and the number of processes.
const RANKED: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
];

/// Numbers of the shards that this process copies, of `shards` in the plan: the one that is `asked`
/// for, or those that the scheduler's variables give it. `variable` reads the environment.
pub(super) fn of_process(
    asked: Option<u32>,
    shards: u32,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<u32>> {
    let number = |name: &str| {
        let text = variable(name).filter(|text| !text.is_empty())?;
        Some(text.trim().parse::<u32>().with_context(|| format!("{name} is {text:?}, which is no number")))
    };
    if let Some(shard) = asked {
        return Ok(vec![within(shard, shards)?]);
    }
    for name in NUMBERED {
        if let Some(shard) = number(name) {
            return Ok(vec![within(shard?, shards).context(name)?]);
        }
    }
    for (rank, size) in RANKED {
        if let (Some(first), Some(step)) = (number(rank), number(size)) {
            let (first, step) = (first?, step?);
            ensure!(first < step, "{rank} is {first}, and {size} only {step}");
            return Ok((first..shards).step_by(step as usize).collect());
        }
    }
    bail!(
        "which shard? Nothing here tells; give --shard N, from 0 to {}, or start this by a job array, srun or mpirun",
        shards - 1
    )
}

/// The number of a shard; an error if the plan does not have it.
fn within(shard: u32, shards: u32) -> anyhow::Result<u32> {
    ensure!(shard < shards, "there is no shard {shard}: the plan has 0 to {}", shards - 1);
    Ok(shard)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    fn shards(asked: Option<u32>, environment: &[(&str, &str)]) -> Result<Vec<u32>, String> {
        let variable =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        of_process(asked, 8, variable).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_number_is_taken_before_anything_else() {
        assert_eq!(shards(Some(3), &[("SLURM_ARRAY_TASK_ID", "5")]), Ok(vec![3]));
        assert!(shards(Some(8), &[]).unwrap_err().contains("no shard 8"));
    }

    #[test]
    fn schedulers_tell_which_shard() {
        assert_eq!(
            shards(None, &[("SLURM_ARRAY_TASK_ID", "5"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]),
            Ok(vec![5])
        );
        assert_eq!(shards(None, &[("JOB_COMPLETION_INDEX", "7")]), Ok(vec![7]));
        assert_eq!(shards(None, &[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "3")]), Ok(vec![1, 4, 7]));
        assert_eq!(shards(None, &[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4")]), Ok(vec![1, 5]));
        let in_a_batch_script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
        assert!(shards(None, &in_a_batch_script).is_err());
        assert_eq!(shards(None, &[("PMI_RANK", "9"), ("PMI_SIZE", "10")]), Ok(vec![]));
    }

    #[test]
    fn nonsense_is_named() {
        assert!(shards(None, &[]).unwrap_err().contains("--shard N, from 0 to 7"));
        assert!(shards(None, &[("SLURM_ARRAY_TASK_ID", "x")]).unwrap_err().contains("SLURM_ARRAY_TASK_ID"));
        assert!(shards(None, &[("PMI_RANK", "3"), ("PMI_SIZE", "3")]).unwrap_err().contains("PMI_RANK is 3"));
        assert!(shards(None, &[("JOB_COMPLETION_INDEX", "8")]).unwrap_err().contains("no shard 8"));
    }
}
