
# Paths on other hosts, HOST:PATH and icdc://HOST/PATH: names by icdc ls, without a question and
# within some seconds.
function __icdc_is_remote
    contains -- (commandline -opc)[2] @COMMANDS@
    and string match -q -- '*:*' (commandline -ct)
end

function __icdc_remote
    set -l word (commandline -ct | string unescape)
    command icdc ls --complete -- "$word" </dev/null 2>/dev/null
end

complete -c icdc -n __icdc_is_remote -f -a '(__icdc_remote)'
