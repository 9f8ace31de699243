# For the scripts here: the programs to package.
# shellcheck shell=sh

# unpacked PROGRAM DIRECTORY: prints where the program is. PROGRAM is one, or a tar of make dist, which is unpacked in DIRECTORY.
unpacked() {
    [ -r "$1" ] || {
        echo "packages: $1 is not there: run make dist first" >&2
        return 1
    }
    case $1 in
    *.tar.gz) mkdir -p "$2" && tar -xzf "$1" -C "$2" && echo "$2/$(basename "$1" .tar.gz)/bin/icdc" ;;
    *) realpath "$1" ;;
    esac
}

# Prints the machine that a program is for, by its ELF header, as uname -m names it.
architecture() {
    case $(od -An -tx1 -j18 -N2 "$1" | tr -d ' ') in
    3e00) echo x86_64 ;;
    b700) echo aarch64 ;;
    *)
        echo "packages: $1 is no program for x86-64 or aarch64" >&2
        return 1
        ;;
    esac
}
