# shellcheck shell=sh disable=SC2154
# The site layer on the host. site.ts lists its values.
#
# - The web server finds a whole site at the web root at any moment: one call exchanges folder and link.
# - No file of a folder is lost unseen: where it holds files that the build does not make and `keep` does not name, they
#   are listed and nothing changes.
# - While root writes into a site's folder, which belongs to the builder's account, no builder of that site runs.

# renameat2(2) with RENAME_EXCHANGE, by the architecture's number of the call; two renames where that fails.
exchange() {
  perl -MPOSIX -e '
    my %number = (x86_64 => 316, aarch64 => 276, riscv64 => 276, loongarch64 => 276, i686 => 353, armv7l => 382, ppc64le => 357, s390x => 347);
    my $number = $number{(POSIX::uname())[4]} or exit 1;
    exit(syscall($number, -100, $ARGV[0], -100, $ARGV[1], 2) == 0 ? 0 : 1)' "$1" "$2" && return
  say "this kernel or file system cannot exchange two paths in one call, so $1 is missing for a moment"
  mv -T -- "$1" "$1.pushgate-away" && mv -T -- "$2" "$1" && mv -T -- "$1.pushgate-away" "$2"
}

link_web_root() { # hook web-root, at which nothing but a link may be
  rm -rf -- "$2.pushgate-new"
  ln -s "$sites/$1/current" "$2.pushgate-new"
  mv -T -- "$2.pushgate-new" "$2"
}

stop_building() { # hook
  systemctl stop "pushgate-build-$1.path" "pushgate-reconcile-$1.timer" "pushgate-build-$1.service" 2>/dev/null || :
}

# Records where the site is served, and what was there before: "absent", or owner and mode of a folder.
record() { # hook web-root former
  mkdir -p -- "$records"
  printf '%s\n%s\n' "$2" "$3" >"$records/.$1.new"
  sync "$records/.$1.new"
  mv -fT -- "$records/.$1.new" "$records/$1"
}

# Has the builder compare what it would publish with the folder. Fails where files would be lost, and lists them, and
# where the builder does not answer.
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
      say "the builder did not report within $3 s what it would publish in place of $2. Its journal ends with:"
      journalctl -u "pushgate-build-$1.service" --since "-$3s" -n 10 -o cat --no-pager >&2
      rm -rf -- "$scratch" "$requests/$1/adopt"
      # Where the site was not built before, nothing else may start a build either.
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

# Copies the folder into the first release, and its kept paths beside the releases with their owners: each release has
# links to them.
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

mounts_in() { # folder, itself included
  findmnt -rno TARGET | while read -r target; do
    case $target in "$1" | "$1"/*) echo "$target" ;; esac
  done
}

# Turns the folder at the web root into the first release and a link.
adopt() { # hook web-root seconds keep...
  hook=$1 root=$2 seconds=$3
  shift 3
  mounts=$(mounts_in "$root" | head -n 1)
  [ -z "$mounts" ] || {
    say "a file system is mounted at $mounts, and a mount cannot become a link. Mount it elsewhere, or set \`site.webRoot\` to a folder without a mount."
    return 1
  }
  say "$root is a folder; the builder builds what would replace it, and compares the two"
  compare "$hook" "$root" "$seconds" || return 1
  stop_building "$hook"
  owner=$(stat -c '%u:%g %a' -- "$root")
  begun=$(mktemp)
  first_release "$hook" "$root" "$@" || {
    rm -f -- "$begun"
    say "$root could not be copied into $sites/$hook, and is as it was. See the error above, and df -h $sites."
    return 1
  }
  new=$root.pushgate-new
  rm -rf -- "$new"
  ln -s "$sites/$hook/current" "$new"
  record "$hook" "$root" "$owner"
  exchange "$root" "$new" || {
    rm -f -- "$begun" "$new"
    say "$root could not be exchanged for a link, and is as it was. See the error above."
    return 1
  }
  late=$(find "$new" -newercm "$begun" ! -type d -printf '%P\n' | head -n 1)
  rm -f -- "$begun"
  [ -z "$late" ] || {
    exchange "$root" "$new" && rm -f -- "$new"
    say "a program wrote $late into $root while it was copied, so $root is a folder as before. Run pulumi up again when no program writes there."
    return 1
  }
  rm -rf --one-file-system -- "$new"
  say "$root leads to releases now; its former files are in $sites/$hook/releases/000001-adopted"
}

# Turns the link back into a folder with the current release, which the web server goes on serving.
give_back() { # hook
  [ -f "$records/$1" ] || return 0
  { read -r former && read -r owner; } <"$records/$1"
  stop_building "$1"
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
      # Kept paths are beside the releases, with owners of their own; a release has links to them.
      find "$copy" -type l -lname '*/kept/*' -printf '%P\n' | while read -r path; do
        rm -f -- "$copy/$path"
        [ ! -e "$sites/$1/kept/$path" ] || cp -a -- "$sites/$1/kept/$path" "$copy/$path" || return 1
      done || return 1
      sync -f "$copy"
      exchange "$former" "$copy" || return 1
      rm -f -- "$copy"
      say "$former is a folder again, with the release that was served; pushgate no longer changes it"
    else
      rm -f -- "$former"
      [ "$owner" = absent ] || { mkdir -- "$former" && chown "${owner% *}" -- "$former" && chmod "${owner#* }" -- "$former"; }
    fi
  fi
  rm -f -- "$records/$1"
  rmdir -- "$records" 2>/dev/null || :
}

remove_site() { # hook
  stop_building "$1"
  give_back "$1" || return 1
  [ ! -d "$sites/$1" ] || rm -rf --one-file-system -- "${sites:?}/$1"
}

# Called once for each site.
serve() { # hook web-root content seconds keep...
  hook=$1 root=$2 content=$3 seconds=$4
  shift 4
  [ -d "$content" ] || {
    say "the content folder $content is missing. Set \`site.content\` to the folder that holds the content; pushgate does not make it."
    return 1
  }
  if [ -f "$records/$hook" ]; then
    read -r former <"$records/$hook"
    [ "$former" = "$root" ] || give_back "$hook" || return 1
  fi
  is_new=yes
  if [ -L "$root" ]; then
    is_new=no
    target=$(readlink -- "$root")
    case $target in
      "$sites/$hook/current") ;;
      # A manual link to one release, which would not change with the next one.
      "$sites/$hook"/*) link_web_root "$hook" "$root" || return 1 ;;
      *)
        say "$root is a link to $target, which pushgate did not make. Set \`site.webRoot\` to another path, or replace the link with the folder itself."
        return 1
        ;;
    esac
    [ -f "$records/$hook" ] || record "$hook" "$root" absent
  elif [ ! -e "$root" ]; then
    make_folder "${root%/*}" 0755 || return 1
    record "$hook" "$root" absent
    link_web_root "$hook" "$root" || return 1
  elif [ ! -d "$root" ]; then
    say "$root is neither a folder nor a link. Set \`site.webRoot\` to another path, or move what is there."
    return 1
  elif owner=$(stat -c '%u:%g %a' -- "$root") && rmdir -- "$root" 2>/dev/null; then
    record "$hook" "$root" "$owner"
    link_web_root "$hook" "$root" || return 1
  else
    adopt "$hook" "$root" "$seconds" "$@" || return 1
  fi
  systemctl enable --quiet "pushgate-build-$hook.path" "pushgate-reconcile-$hook.timer"
  systemctl start "pushgate-build-$hook.path" "pushgate-reconcile-$hook.timer"
  # A new site is built at once, not when its timer elapses.
  [ "$is_new" = no ] || systemctl start --no-block "pushgate-reconcile-$hook.service"
}

remove_others() {
  for file in "$records"/*; do
    [ -f "$file" ] || continue
    case " $hooks " in *" ${file##*/} "*) ;; *) remove_site "${file##*/}" ;; esac
  done
}

retire() {
  for unit in "$units"/pushgate-build-*.path "$units"/pushgate-reconcile-*.timer; do
    [ ! -e "$unit" ] || systemctl disable --quiet --now "${unit##*/}" || exit 1
  done
  for file in "$records"/* "$sites"/*; do
    [ ! -e "$file" ] || remove_site "${file##*/}" || exit 1
  done
  [ ! -d "$sites" ] || rmdir --ignore-fail-on-non-empty "$sites"
}

# Facts

web_root() { # hook web-root
  target=$(readlink -- "$2")
  if [ "$target" = "$sites/$1/current" ]; then
    echo "leads to the current release of $1"
  elif [ -L "$2" ]; then
    echo "a link to $target"
  elif [ ! -e "$2" ]; then
    echo "absent, to become a link"
  elif [ ! -d "$2" ]; then
    echo "neither a folder nor a link"
  else
    echo "a folder with $(find "$2" -xdev ! -type d -printf . | wc -c) files, to become the first release"
  fi
}

# Whether Hugo's account can read the folder. From inside it: Hugo's unit mounts it alone, so the folders above do not count.
content() { # folder, option of setpriv for the account's groups
  if [ ! -d "$1" ]; then
    echo "missing; set \`site.content\` to the folder that holds the content, as pushgate does not make it"
  elif cd "$1" && setpriv --reuid "$hugo" --regid "$hugo" "$2" test -r . -a -x . 2>/dev/null; then
    echo readable
  else
    echo "$(stat -c '%A %U:%G' .), which $hugo cannot read; run chmod o+rX, or give it to the group of \`site.writers\`"
  fi
}
