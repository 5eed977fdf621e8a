# shellcheck shell=sh
# Who besides root can change what a path leads to. Only for reports: root enters such a path by enter.sh.

# Each file, link and folder on the way to path $1 that an account other than root can write or exchange.
written_by_others() {
  way='' rest=$1 links=0
  while [ -n "$rest" ]; do
    step=${rest%%/*} rest=${rest#"${rest%%/*}"}
    rest=${rest#/}
    case $step in "" | .) continue ;; ..) way=${way%/*} && continue ;; esac
    if [ -L "$way/$step" ] && [ $((links += 1)) -le 40 ]; then
      target=$(readlink -- "$way/$step") rest=$target/$rest
      case $target in /*) way='' ;; esac
    else
      way=$way/$step
      case $(stat -c '%u %A' -- "$way" 2>/dev/null) in "" | "0 "?????-??-?) ;; *) echo "$way" ;; esac
    fi
  done
}

# The folders above path $1 that an account other than root can write, with mode and owner.
others_above() {
  written_by_others "${1%/*}" | while read -r folder; do stat -c '%n (%A %U:%G)' -- "$folder"; done | paste -sd , - | sed 's/,/, /g'
}
