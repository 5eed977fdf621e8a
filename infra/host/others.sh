# Each file, link and folder on the way to path $1 that an account other than root can write or exchange.
written_by_others() {
  way='' rest=$1 links=0
  shift
  while [ -n "$rest" ]; do
    step=${rest%%/*} rest=${rest#"${rest%%/*}"}
    rest=${rest#/}
    case $step in "" | .) continue ;; ..) way=${way%/*} && continue ;; esac
    if [ -L "$way/$step" ] && [ $((links += 1)) -le 40 ]; then
      target=$(readlink -- "$way/$step") rest=$target/$rest
      case $target in /*) way='' ;; esac
    else
      way=$way/$step
      set -- "$@" "$way"
    fi
  done
  # Of root's own, without the right to write for its group and others, nothing.
  [ $# = 0 ] || find "$@" -maxdepth 0 \( ! -user root -o -perm /022 \) 2>/dev/null || :
}

# The account as which folder $1 is opened: root, or the one account that can exchange what is on the way to it. Where
# several can, one could lead another to a folder that it may not read: prints which folder they can write.
opener_of() {
  opener=root
  for folder in $(written_by_others "${1%/*}"); do
    owner=$(stat -c %U -- "$folder")
    case "$opener $owner $(stat -c %A -- "$folder")" in
      "root $owner "?????-??-? | "$owner $owner "?????-??-?) opener=$owner ;;
      *) echo "$folder" && return 1 ;;
    esac
  done
  echo "$opener"
}
