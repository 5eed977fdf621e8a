# shellcheck shell=sh disable=SC2154
# The site layer on the host. Values: sites, requests, records and state (folders), hooks (names of those with a site),
# builder and hugo (accounts), adoption (adoption.cjs).
#
# Rules: the web server finds a whole site at the web root's path at any moment, as folder and link are exchanged by one
# call. Nothing that the folder holds is lost unseen: what neither the build makes nor `keep` names is listed, and
# nothing is changed. While root writes into a site's folder, which is the builder's, no builder of it runs.

# renameat2(2) with RENAME_EXCHANGE; the kernel's number for it, by machine. Where a file system can't, two renames.
exchange() {
  perl -MPOSIX -e '
    my %number = (x86_64 => 316, aarch64 => 276, riscv64 => 276, loongarch64 => 276, i686 => 353, armv7l => 382, ppc64le => 357, s390x => 347);
    my $number = $number{(POSIX::uname())[4]} or exit 1;
    exit(syscall($number, -100, $ARGV[0], -100, $ARGV[1], 2) == 0 ? 0 : 1)' "$1" "$2" && return
  say "no exchange in one call here; $1 is away for a moment"
  mv -T -- "$1" "$1.pushgate-away" && mv -T -- "$2" "$1" && mv -T -- "$1.pushgate-away" "$2"
}

parents() { # of a path
  case $1 in */?*) ;; *) return 0 ;; esac
  [ -n "${1%/*}" ] && [ ! -d "${1%/*}" ] || return 0
  parents "${1%/*}"
  mkdir -m 0755 -- "${1%/*}" && echo "${1%/*}" >>"$state/made"
}

lead() { # hook web-root: the link, at a path where nothing is
  rm -rf -- "$2.pushgate-new"
  ln -s "$sites/$1/current" "$2.pushgate-new"
  mv -T -- "$2.pushgate-new" "$2"
}

halt() { # hook: neither builds nor begins to
  systemctl stop "pushgate-build-$1.path" "pushgate-reconcile-$1.timer" "pushgate-build-$1.service" 2>/dev/null || :
}

note() { # hook web-root what-it-was
  mkdir -p -- "$records"
  printf '%s\n%s\n' "$2" "$3" >"$records/.$1.new"
  sync "$records/.$1.new"
  mv -fT -- "$records/.$1.new" "$records/$1"
}

# Has the builder compare what it would publish with the folder; prints what would be lost, one a line, and fails
# where there is anything, or no answer.
compare() { # hook web-root seconds
  status=$sites/$1/status.json
  scratch=$(mktemp -d)
  : >"$scratch/begun"
  : >"$requests/.adopt-$1"
  mv -fT -- "$requests/.adopt-$1" "$requests/$1/adopt"
  systemctl reset-failed "pushgate-build-$1.service" 2>/dev/null || :
  systemctl start "pushgate-build-$1.service" || :
  deadline=$(($(date +%s) + $3))
  until [ "$status" -nt "$scratch/begun" ] && cp -- "$status" "$scratch/status" 2>/dev/null && grep -q '"adopt"' "$scratch/status"; do
    [ "$(date +%s)" -le "$deadline" ] || {
      say "the builder did not say what it would publish in place of $2. It says:"
      journalctl -u "pushgate-build-$1.service" --since "-$3s" -n 10 -o cat --no-pager >&2
      rm -rf -- "$scratch" "$requests/$1/adopt"
      # Nothing else is to be built here either.
      systemctl is-enabled --quiet "pushgate-build-$1.path" || systemctl stop "pushgate-build-$1.service"
      return 1
    }
    sleep 0.1
  done
  answer=0
  /usr/bin/node -e "$adoption" "$scratch/status" "$2" "$1" || answer=1
  rm -rf -- "$scratch"
  return "$answer"
}

# The folder as the first release; its kept paths beside it with their owners, as each release links to them.
first_release() ( # hook web-root keep...
  hook=$1 root=$2
  shift 2
  set -e
  umask 022
  cd "$sites/$hook"
  release=releases/000001-adopted
  install -d -o "$builder" -g "$builder" releases kept
  rm -rf -- "$release" current.new
  cp -a -- "$root" "$release"
  for path; do
    { [ -e "$release/$path" ] || [ -L "$release/$path" ]; } || continue
    case $path in */*) mkdir -p -- "kept/${path%/*}" ;; esac
    [ -e "kept/$path" ] || mv -T -- "$release/$path" "kept/$path"
    rm -rf -- "${release:?}/$path"
    ln -s -- "$(realpath -m -s --relative-to="$release/$(dirname -- "$path")" -- "kept/$path")" "$release/$path"
  done
  chown -hR "$builder:$builder" -- "$release"
  find "$release" -type d -exec chmod 00555 {} +
  find "$release" -type f -exec chmod 0444 {} +
  sync -f "$release"
  [ -L current ] || {
    ln -s "$release" current.new
    chown -h "$builder:$builder" current.new
    mv -T current.new current
  }
  sync .
)

mounted() { # path: what is mounted at it or below
  findmnt -rno TARGET | while read -r target; do
    case $target in "$1" | "$1"/*) echo "$target" ;; esac
  done
}

adopt() { # hook web-root seconds keep...
  hook=$1 root=$2 seconds=$3
  shift 3
  mounts=$(mounted "$root" | head -n 1)
  [ -z "$mounts" ] || {
    say "a file system is mounted at $mounts, and a mount can't become a link. Cure: mount it elsewhere, or name a folder without one as webRoot"
    return 1
  }
  say "$root is a folder: what would be published is built and compared with it"
  compare "$hook" "$root" "$seconds" || return 1
  halt "$hook"
  owner=$(stat -c '%u:%g %a' -- "$root")
  begun=$(mktemp)
  first_release "$hook" "$root" "$@" || {
    rm -f -- "$begun"
    say "$root could not be copied into $sites/$hook; it is as it was. Cure: see what stands above, and df -h $sites"
    return 1
  }
  new=$root.pushgate-new
  rm -rf -- "$new"
  ln -s "$sites/$hook/current" "$new"
  note "$hook" "$root" "$owner"
  exchange "$root" "$new" || {
    rm -f -- "$begun" "$new"
    say "$root could not be exchanged for a link; it is as it was"
    return 1
  }
  late=$(find "$new" -newercm "$begun" ! -type d | head -n 1)
  rm -f -- "$begun"
  [ -z "$late" ] || {
    exchange "$root" "$new" && rm -f -- "$new"
    say "somebody wrote ${late#"$new"/} into $root while it was copied, so it is a folder as before. Cure: again, when nobody does"
    return 1
  }
  rm -rf --one-file-system -- "$new"
  say "$root leads to releases now; what it held is $sites/$hook/releases/000001-adopted"
}

# The link becomes a folder with what is served, and goes on being served.
give_back() { # hook
  [ -f "$records/$1" ] || return 0
  { read -r former && read -r owner; } <"$records/$1"
  halt "$1"
  if [ "$(readlink -- "$former")" = "$sites/$1/current" ]; then
    copy=$former.pushgate-new
    rm -rf -- "$copy"
    if [ -d "$sites/$1/current/" ]; then
      cp -a -- "$sites/$1/current/." "$copy" || return 1
      find "$copy" -type d -exec chmod u+rwx {} + && find "$copy" -type f -exec chmod u+rw {} + || return 1
      case $owner in
        absent) chown -Rh root:root -- "$copy" ;;
        *) chown -Rh "${owner% *}" -- "$copy" && chmod "${owner#* }" -- "$copy" ;;
      esac || return 1
      # What is kept lies beside the releases, with owners of its own, and is led to by links.
      find "$copy" -type l -lname '*/kept/*' -printf '%P\n' | while read -r path; do
        rm -f -- "$copy/$path"
        [ ! -e "$sites/$1/kept/$path" ] || cp -a -- "$sites/$1/kept/$path" "$copy/$path" || return 1
      done || return 1
      sync -f "$copy"
      exchange "$former" "$copy" || return 1
      rm -f -- "$copy"
      say "$former is a folder again, with what was served; nothing of ours changes it any more"
    else
      rm -f -- "$former"
      [ "$owner" = absent ] || { mkdir -- "$former" && chown "${owner% *}" -- "$former" && chmod "${owner#* }" -- "$former"; }
    fi
  fi
  rm -f -- "$records/$1"
  rmdir -- "$records" 2>/dev/null || :
}

# Nobody asks for this site any more.
forget() { # hook
  halt "$1"
  give_back "$1" || return 1
  [ ! -d "$sites/$1" ] || rm -rf --one-file-system -- "${sites:?}/$1"
}

serve() { # hook web-root content seconds keep...
  hook=$1 root=$2 content=$3 seconds=$4
  shift 4
  [ -d "$content" ] || {
    say "the content folder $content is not there. Cure: name the one that holds the content in \`site.content\`; pushgate makes none"
    return 1
  }
  if [ -f "$records/$hook" ]; then
    read -r former <"$records/$hook"
    [ "$former" = "$root" ] || give_back "$hook" || return 1
  fi
  fresh=yes
  if [ -L "$root" ]; then
    fresh=no
    target=$(readlink -- "$root")
    case $target in
      "$sites/$hook/current") ;;
      # By hand to one release, where no publish would be seen.
      "$sites/$hook"/*) lead "$hook" "$root" || return 1 ;;
      *)
        say "$root is a link to $target, which somebody else made. Cure: name another webRoot, or put the folder itself in its place"
        return 1
        ;;
    esac
    [ -f "$records/$hook" ] || note "$hook" "$root" absent
  elif [ ! -e "$root" ]; then
    parents "$root" || return 1
    note "$hook" "$root" absent
    lead "$hook" "$root" || return 1
  elif [ ! -d "$root" ]; then
    say "$root is neither a folder nor a link. Cure: move it away, or name another webRoot"
    return 1
  elif owner=$(stat -c '%u:%g %a' -- "$root") && rmdir -- "$root" 2>/dev/null; then
    note "$hook" "$root" "$owner"
    lead "$hook" "$root" || return 1
  else
    adopt "$hook" "$root" "$seconds" "$@" || return 1
  fi
  systemctl enable --quiet "pushgate-build-$hook.path" "pushgate-reconcile-$hook.timer"
  systemctl start "pushgate-build-$hook.path" "pushgate-reconcile-$hook.timer"
  # A site that is new here is published now, and not when its timer first asks.
  [ "$fresh" = no ] || systemctl start --no-block "pushgate-reconcile-$hook.service"
}

# Gives back the web roots of hooks that have no site any more.
forget_others() {
  for record in "$records"/*; do
    [ -f "$record" ] || continue
    case " $hooks " in *" ${record##*/} "*) ;; *) forget "${record##*/}" ;; esac
  done
}

retire() {
  for path in "$units"/pushgate-build-*.path "$units"/pushgate-reconcile-*.timer; do
    [ ! -e "$path" ] || systemctl disable --quiet --now "${path##*/}" || exit 1
  done
  for folder in "$records"/* "$sites"/*; do
    [ ! -e "$folder" ] || forget "${folder##*/}" || exit 1
  done
  [ ! -d "$sites" ] || rmdir --ignore-fail-on-non-empty "$sites"
}

# Facts

web_root() { # hook web-root
  if [ -L "$2" ]; then
    target=$(readlink -- "$2")
    if [ "$target" = "$sites/$1/current" ]; then echo "leads to the current release of $1"; else echo "a link to $target, which somebody else made"; fi
  elif [ ! -e "$2" ]; then
    echo "absent, to become a link"
  elif [ ! -d "$2" ]; then
    echo "neither a folder nor a link"
  else
    echo "a folder with $(find "$2" -xdev ! -type d -printf . | wc -c) files, to become the first release"
  fi
}

# As the account that reads it, from within: the folders above it are bound away, so only it itself counts.
content() { # folder, option of setpriv for the account's groups
  if [ ! -d "$1" ]; then
    echo "missing: name the folder that holds the content, pushgate makes none"
  elif cd "$1" && setpriv --reuid "$hugo" --regid "$hugo" "$2" test -r . -a -x . 2>/dev/null; then
    echo readable
  else
    echo "$(stat -c '%A %U:%G' .), which $hugo cannot read: chmod o+rX, or give it to the group of \`site.writers\`"
  fi
}
