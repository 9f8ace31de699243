# For the scripts here. Prints the machine that a program is for, by its ELF header, as uname -m names it.
# shellcheck shell=sh
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
