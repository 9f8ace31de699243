#!/bin/bash
# pairs.sh NEW OLD DIR: copies on one host by two builds in turn, 9 pairs of each case.
# DIR has many (20,000 files of 16 KiB) and lots (100,000 files of 100 bytes), each in one directory.
# Prints: case, pair, build, seconds, processor seconds of both ends, greatest memory of the
# near end in KiB, of the far end in KiB.
set -e
new=$1 old=$2 dir=$3
out=$dir/out
cat > "$dir/ssh" <<S
#!/bin/sh
shift
exec /usr/bin/time -q -o $dir/far -f '%U %S %M' sh -c "\$*"
S
chmod +x "$dir/ssh"
one() { # case pair build path source mode
  rm -rf "$out" "$dir/far"; mkdir "$out"
  case $6 in
    local) set -- "$@" "$out/" ;;
    tcp) set -- "$@" --ssh "$dir/ssh" --remote-icdc "$4" "127.0.0.1:$out/" ;;
  esac
  local name=$1 pair=$2 build=$3 icdc=$4 source=$5; shift 6
  # The near end's figures include its children, so the far end's are among them.
  /usr/bin/time -q -o "$dir/near" -f '%e %U %S %M' "$icdc" copy --progress never "${@:1:$#-1}" "$source" "${@: -1}" > /dev/null
  read -r wall user system memory < "$dir/near"
  far=-; [ -e "$dir/far" ] && read -r _ _ far < "$dir/far"
  echo "$name $pair $build $wall $(echo "$user + $system" | bc) $memory $far"
}
for case in many-tcp lots-tcp many-local lots-local; do
  source=$dir/${case%-*} mode=${case#*-}
  one $case 0 new "$new" "$source" "$mode" > /dev/null; one $case 0 old "$old" "$source" "$mode" > /dev/null
  for pair in $(seq 9); do
    if [ $((pair % 2)) = 1 ]; then order="new old"; else order="old new"; fi
    for build in $order; do one $case "$pair" $build "${!build}" "$source" "$mode"; done
  done
done
rm -rf "$out" "$dir/ssh" "$dir/near" "$dir/far"
