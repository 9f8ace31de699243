#!/bin/sh
# An ssh server with throw-away keys for a host that nobody else reaches: to be sourced.
#
# sshd_prepare DIRECTORY ADDRESS PORT: writes keys and configurations; sets $sshd, the server's program, $sshd_config, and $ssh_config
# for the client. Fails where there is no server. Start it on its host by `$sshd -D -e -f $sshd_config`; call sshd_forget at the end.

sshd_prepare() {
    # shellcheck disable=SC2034 # for whoever sources this
    sshd=$(command -v sshd) || return 1
    [ -d /run/sshd ] || { mkdir /run/sshd && sshd_made_directory=yes; } || return 1
    ssh-keygen -q -t ed25519 -N '' -f "$1/host-key" && ssh-keygen -q -t ed25519 -N '' -f "$1/user-key" || return 1
    sshd_config=$1/sshd_config
    cat >"$sshd_config" <<CONFIG
ListenAddress $2:$3
HostKey $1/host-key
AuthorizedKeysFile $1/user-key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
CONFIG
    ssh_config=$1/ssh_config
    cat >"$ssh_config" <<CONFIG
Host *
    Port $3
    User root
    IdentityFile $1/user-key
    IdentitiesOnly yes
    StrictHostKeyChecking accept-new
    UserKnownHostsFile $1/known_hosts
    LogLevel ERROR
CONFIG
}

sshd_forget() {
    [ -z "${sshd_made_directory:-}" ] || rmdir /run/sshd
}
