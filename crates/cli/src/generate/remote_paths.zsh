# Paths on other hosts, HOST:PATH and icdc://HOST/PATH: names by icdc ls, without a question and
# within some seconds.
(( $+functions[_icdc_paths] )) ||
_icdc_paths() {
    local word=${(Q)PREFIX}
    if [[ $word != *:* ]]; then
        _files
        return
    fi
    local -a names
    names=(${(f)"$(command icdc ls --complete -- "$word" </dev/null 2>/dev/null)"})
    (( $#names )) || return 1
    compadd -S '' -- ${(M)names:#*/}
    compadd -- ${names:#*/}
    return 0
}

