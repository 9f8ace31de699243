
# Paths on other hosts, HOST:PATH and icdc://HOST/PATH: names by icdc ls, without a question and
# within some seconds. Nothing that is typed or listed is evaluated.
_icdc_remote() {
    local line=${COMP_LINE:0:COMP_POINT} word= last= quote= char= name= kept=0 i
    case ${COMP_WORDS[1]-} in @COMMANDS@) ;; *) return 1 ;; esac
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1}
        case $quote$char in
            "''") return 1 ;;
            \'*) word+=$char ;;
            '""' | '"$' | '"`') return 1 ;;
            '"\') ((i += 1)); word+=${line:i:1} ;;
            \"*) word+=$char ;;
            ' ' | $'\t') last=${word:-$last} word= kept=0 ;;
            \\) ((i += 1)); word+=${line:i:1} ;;
            [\$\`\;\&\|\<\>\(\)]) return 1 ;;
        esac
        [[ -n $quote ]] && continue
        case $char in
            \' | \") quote=$char kept=${#word} ;;
            [\ \\$'\t']) ;;
            *)
                word+=$char
                [[ $COMP_WORDBREAKS == *"$char"* ]] && kept=${#word}
                ;;
        esac
    done
    [[ $word == *:* && $word != -* ]] || return 1
    case $last in @VALUED@) return 1 ;; esac
    COMPREPLY=()
    compopt +o default +o bashdefault 2>/dev/null
    while IFS= read -r name; do
        name=${name:kept}
        case $quote in
            \') [[ $name == *\'* ]] && continue ;;
            \") [[ $name == *[\"\\\$\`!]* ]] && continue ;;
            *) printf -v name %q "$name" ;;
        esac
        COMPREPLY+=("$name")
    done < <(command icdc ls --complete -- "$word" </dev/null 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
    return 0
}

_icdc_or_remote() {
    _icdc_remote || _icdc "$@"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _icdc_or_remote -o nosort -o bashdefault -o default icdc
else
    complete -F _icdc_or_remote -o bashdefault -o default icdc
fi
