#!/bin/bash
# A Slurm cluster on this host for tests and demonstrations: slurmctld, several slurmd and a munged, in a network namespace of their
# own, so that any number of clusters can be there at a time and nothing is heard from outside. Needs root and the package slurm-wlm.
#
#   scripts/slurm.sh up DIR [NODES]      starts one with nodes n1 to nNODES (4); its files are in DIR
#   scripts/slurm.sh run DIR COMMAND...  runs a command in it: sbatch, srun, squeue, scontrol
#   scripts/slurm.sh down DIR            ends it and what runs on it
set -u
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
patience=60 # seconds

main() {
    action=${1:?up, run or down}
    directory=$(mkdir -p "${2:?DIR}" && cd "$2" && pwd) || exit 1
    shift 2
    export SLURM_CONF=$directory/slurm.conf
    case $action in
    up) up "${1:-4}" || {
        down
        return 1
    } ;;
    run) within "$@" ;;
    down) down ;;
    *)
        echo "slurm: there is no '$action'" >&2
        return 2
        ;;
    esac
}

# The network only: Slurm looks at the control groups of this host.
within() { nsenter --net="/run/netns/$(cat "$directory/namespace")" -- "$@"; }

up() {
    nodes=$1
    host=$(hostname)
    echo "icdc-slurm-$$" >"$directory/namespace"
    ip netns add "icdc-slurm-$$" || return 1
    # An address besides the loopback's: without one, the C library looks up no names.
    within ip link set lo up && within ip address add 10.88.0.1/32 dev lo || return 1
    mkdir -p "$directory/munge" "$directory/state" "$directory/spool" && chmod 755 "$directory" "$directory/munge" || return 1
    # The daemons read the key; it is worth nothing outside of the namespace.
    (umask 077 && head -c 128 /dev/urandom >"$directory/munge/key") || return 1
    cat >"$SLURM_CONF" <<CONF
ClusterName=icdc
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17000
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$directory/munge/socket,cred_expire=10
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
KillWait=5
SchedulerParameters=batch_sched_delay=1,sched_interval=2,bf_interval=2
SlurmctldPidFile=$directory/slurmctld.pid
SlurmctldLogFile=$directory/slurmctld.log
SlurmdPidFile=$directory/slurmd-%n.pid
SlurmdLogFile=$directory/slurmd-%n.log
SlurmdSpoolDir=$directory/spool/%n
StateSaveLocation=$directory/state
NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17001-$((17000 + nodes))] CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
CONF
    within munged --force --key-file="$directory/munge/key" --socket="$directory/munge/socket" \
        --pid-file="$directory/munge/pid" --log-file="$directory/munge/log" --seed-file="$directory/munge/seed" || return 1
    within slurmctld || return 1
    for node in $(seq "$nodes"); do
        within slurmd -N "n$node" || return 1
    done
    for _ in $(seq $((patience * 5))); do
        [ "$(within sinfo -h -N -t idle 2>/dev/null | wc -l)" = "$nodes" ] && return 0
        sleep 0.2
    done
    echo "slurm: the nodes did not become idle within $patience s; see the logs in $directory" >&2
    within sinfo >&2
    for log in "$directory"/*.log; do
        echo "$log" >&2
        tail -n 5 "$log" >&2
    done
    return 1
}

down() {
    within scancel --full --signal=KILL --user=root 2>/dev/null
    for file in "$directory"/slurmd-*.pid "$directory/slurmctld.pid" "$directory/munge/pid"; do
        [ -f "$file" ] && stop "$(cat "$file")"
    done
    # What a job has left runs on in the namespace.
    for process in $(ip netns pids "$(cat "$directory/namespace")" 2>/dev/null); do
        kill -KILL "$process" 2>/dev/null
    done
    ip netns delete "$(cat "$directory/namespace")"
}

# stop PID: asks it to end, and ends it if it does not.
stop() {
    kill "$1" 2>/dev/null
    for _ in $(seq 50); do
        kill -0 "$1" 2>/dev/null || return
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null
}

main "$@"
