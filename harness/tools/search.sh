# One search, for search.py. Reads the pattern on standard input; from the environment: WORKDIR, WHERE (file or directory),
# GLOB and GLOBS (the same, one alternative of its braces a line), FLAGS (options rg and grep share), MAX, NO_RG (to test).
# Prints at most MAX lines of the answer, then one line "\001STATUS TOTAL": 0 found, 1 not found, 2 failed; lines in all.

cd "$WORKDIR" || exit 2

with_rg() {
    rg --no-config --color never --sort path --no-messages -H -n $FLAGS ${GLOB:+--glob "$GLOB"} -f - -- "$WHERE" 2>&1
}

fits_glob() { # a glob without a slash is about the name, one with a slash about the end of the path
    [ -n "$GLOBS" ] || return 0
    while IFS= read -r glob; do
        case $glob in
            */*) case /$1 in */${glob#"**/"}) return 0 ;; esac ;;
            *) case ${1##*/} in $glob) return 0 ;; esac ;;
        esac
    done <<EOF
$GLOBS
EOF
    return 1
}

list_files() { # what is neither ignored nor hidden, in path order
    if [ ! -d "$WHERE" ]; then printf '%s\n' "$WHERE"; return; fi
    (
        cd "$WHERE" || exit
        if git -c safe.directory='*' rev-parse --is-inside-work-tree > /dev/null 2>&1; then
            git -c safe.directory='*' ls-files -coz --exclude-standard | tr '\0' '\n'
        else
            find . -type f | sed 's|^\./||'
        fi
    ) | LC_ALL=C sort -u | while IFS= read -r file; do
        case /$file in */.*) continue ;; esac
        [ -f "$WHERE/$file" ] && fits_glob "$file" && printf '%s\n' "$WHERE/$file"
    done
}

with_grep() {
    [ -e "$WHERE" ] || { echo "$WHERE: no such file or directory"; return 2; }
    work=$(mktemp -d) || return 2
    trap 'rm -rf "$work"' EXIT
    cat > "$work/pattern"
    dialect=-E
    printf x | grep -P x > /dev/null 2>&1 && dialect=-P # nearer to ripgrep's: \d, \b, lazy repetition
    case " $FLAGS " in *" -F "*) dialect= ;; esac
    printf '' | grep $dialect $FLAGS -f "$work/pattern" > /dev/null 2> "$work/error"
    [ $? -le 1 ] || { cat "$work/error"; return 2; }
    list_files | tr '\n' '\0' > "$work/files"
    [ -s "$work/files" ] || return 1
    xargs -0 grep $dialect -s -I -H -n $FLAGS -f "$work/pattern" -- < "$work/files" 2>&1 || return 1
}

{
    if command -v rg > /dev/null 2>&1 && [ -z "$NO_RG" ]; then with_rg; else ( with_grep ); fi
    printf '\001%d\n' $?
} | awk -v max="$MAX" '
    /^\001/ { status = substr($0, 2); next }
    n++ < max { print substr($0, 1, 2000) }
    END { printf "\001%d %d\n", status, n }'
