# Runs a program as a container runtime does: in a root directory of its own, which is read-only, with a system from this host, the
# volumes of a pod, and no privileges. To be started in a mount namespace of its own.
#
#   container.sh ROOT HOSTNAME ICDC USER GROUP FSGROUP [VOLUME MOUNTPOINT ro|rw]... -- PROGRAM [ARGUMENT]...
set -eu
root=$1 user=$4 group=$5 fs_group=$6
mount -t tmpfs -o mode=755 tmpfs "$root"
echo "$2" >/proc/sys/kernel/hostname
mkdir -p "$root/image"
for directory in bin dev lib lib64 proc usr; do
    [ -d "/$directory" ] || continue
    mkdir -p "$root/$directory"
    mount --rbind "/$directory" "$root/$directory"
done
touch "$root/image/icdc"
mount --bind "$3" "$root/image/icdc"
shift 6
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
    shift 3
done
shift
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$group" --groups "$fs_group" --inh-caps=-all --bounding-set=-all \
    --no-new-privs "$@"
