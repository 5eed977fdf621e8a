# shellcheck shell=sh disable=SC2154
# The site layer on the host. site.ts lists its values.
#
# - The web server finds a whole site at the web root at any moment: one call exchanges folder and link.
# - No file of a folder is lost unseen: where it holds files that the build does not make and `keep` does not name, they
#   are listed and nothing changes.
# - While root works on a site, no builder of that site runs.
# - The folder of the web root, and the site's own, belong to accounts that may exchange what is in them at any moment.
#   Root enters both by `enter` only (enter.sh), makes what goes there in a folder that root alone can enter, and moves
#   it by one rename. What becomes public is read as the builder's account.

# Runs a command as the builder's account, without groups and rights.
as_builder() {
  setpriv --reuid="$builder" --regid="$builder" --clear-groups --no-new-privs --inh-caps=-all -- "$@" 3>&-
}

# renameat2(2) with RENAME_EXCHANGE, by the architecture's number of the call; two renames where that fails.
exchange() {
  perl -MPOSIX -e '
    my %number = (x86_64 => 316, aarch64 => 276, riscv64 => 276, loongarch64 => 276, i686 => 353, armv7l => 382, ppc64le => 357, s390x => 347);
    my $number = $number{(POSIX::uname())[4]} or exit 1;
    exit(syscall($number, -100, $ARGV[0], -100, $ARGV[1], 2) == 0 ? 0 : 1)' "$1" "$2" && return
  say "this kernel or file system cannot exchange two paths in one call, so ${1#../} is missing for a moment"
  mv -T -- "$1" ./away || return 1
  if mv -T -- "$2" "$1"; then mv -T -- ./away "$2"; else mv -T -- ./away "$1" && return 1; fi
}

# Makes and enters a folder that root alone can enter, in the working folder and so on the same file system. The account
# that owns the working folder can rename the private folder, and no more.
private_folder() { # name of what is placed
  for left in "./.$1.pushgate-"*; do
    [ ! -d "$left" ] || (step_into "$left" && is_private && drop_private_folder) ||
      say "${PWD%/}/${left#./} holds what an interrupted \`pulumi up\` replaced. Compare it with the web root, then remove it."
  done
  private=$(mktemp -d "./.$1.pushgate-XXXXXX") && step_into "$private" && is_private
}
is_private() { case $(stat -c '%u %A' .) in "$(id -u) drwx--"[-S]---) ;; *) return 1 ;; esac; }
# Leaves the private folder and removes it; if it holds more than `new`, it stays.
drop_private_folder() {
  rm -rf --one-file-system -- ./new && left=${PWD##*/} && cd -P .. && rmdir -- "./$left"
}

# Puts a link at the web root. Runs in the web root's parent folder. What is at the web root must be absent or a link.
put_link() ( # hook name
  private_folder "$2" && ln -s "$sites/$1/current" ./new && mv -T -- ./new "../$2" || exit 1
  drop_private_folder || :
)

stop_building() { # hook
  systemctl stop "$(of_site "$siteTarget" "$1")" 2>/dev/null || :
}

# Notes where the site is served, and what was there before: "absent", or owner and mode of a folder.
write_note() { # hook web-root former
  mkdir -p -- "$notes"
  printf '%s\n%s\n' "$2" "$3" >"$notes/.$1.new"
  sync "$notes/.$1.new"
  mv -fT -- "$notes/.$1.new" "$notes/$1"
}

forget() { # hook
  rm -f -- "$notes/$1"
  rmdir -- "$notes" 2>/dev/null || :
}

# In a folder to be adopted: gives the builder the names of its files that are not kept.
list_files() { # hook keep...
  list=$sites/$1/work/listing
  shift
  for path; do
    shift
    set -- "$@" -path "./$(printf %s "$path" | sed 's/[][*?\\]/\\&/g')" -prune -o
  done
  # shellcheck disable=SC2016
  as_builder mkdir -p -- "${list%/*}" && as_builder rm -rf -- "$list" &&
    as_builder find . "$@" ! -type d -printf '%P\0' >"$scratch/listing" &&
    as_builder sh -c 'umask 077 && cat >"$1"' - "$list" <"$scratch/listing"
}

# Nothing may build a site before its web root leads to releases.
unless_built_before() { # hook
  systemctl is-enabled --quiet "$(of_site "$siteTarget" "$1")" || systemctl stop "$(of_site "$build" "$1")"
}

# Has the builder compare what it would publish with the folder. Lists files that would be lost, and fails if there are
# any, or if the builder does not answer.
compare() { # hook web-root seconds
  status=$sites/$1/status.json
  : >"$scratch/begun"
  : >"$rootRequests/.adopt-$1"
  mv -fT -- "$rootRequests/.adopt-$1" "$rootRequests/$1/adopt"
  systemctl reset-failed "$(of_site "$build" "$1")" 2>/dev/null || :
  systemctl start "$(of_site "$build" "$1")" || :
  deadline=$(($(date +%s) + $3))
  # Reads as the builder, which may put a link or a pipe there.
  until [ "$status" -nt "$scratch/begun" ] && as_builder timeout 5 cat -- "$status" >"$scratch/status" 2>/dev/null &&
    grep -q '"adopt"' "$scratch/status"; do
    [ "$(date +%s)" -le "$deadline" ] || {
      say "the builder did not report within $3 s what it would publish in place of $2. Its journal ends with:"
      journalctl -u "$(of_site "$build" "$1")" --since "-$3s" -n 10 -o cat --no-pager >&2
      rm -f -- "$rootRequests/$1/adopt"
      unless_built_before "$1"
      return 1
    }
    sleep 0.1
  done
  unless_built_before "$1"
  /usr/bin/node -e "$adoption" "$scratch/status" "$2" "$1"
}

# In the folder: copies what is not kept into the first release, as the builder and so only what every account can read.
# tar opens each folder and file without following a link.
copy_public() { # release keep...
  release=$1
  shift
  for path; do
    shift
    set -- "$@" "--exclude=./$path"
  done
  as_builder mkdir -p -- "$release" || return 1
  { as_builder tar --create --mode=u+rwX,go=rX --anchored --no-wildcards "$@" . || [ $? = 1 ] || : >"$scratch/unread"; } |
    as_builder tar --extract --directory="$release" || return 1
  [ ! -e "$scratch/unread" ] || {
    say "the files listed above are not readable by every account, which files of a release must be. Run chmod -R a+rX on them, or name them in \`site.keep\`."
    return 1
  }
}

# Copies one path from a folder to another as it is, with owner, mode and access list. tar follows no link.
copy_as_is() { # function that enters the folder, its argument, name; function and argument for the target
  unread=$(mktemp)
  { ("$1" "$2" && { tar --create --acls --xattrs --numeric-owner -- "./$3" || [ $? = 1 ]; }) && rm -f -- "$unread"; } |
    ("$4" "$5" && tar --extract --acls --xattrs --numeric-owner --same-owner --same-permissions) || return 1
  # A pipe returns its last command's status, so `unread` marks a fault of the first.
  [ ! -e "$unread" ] || { rm -f -- "$unread" && return 1; }
}

parent_of() { case $1 in */*) echo "${1%/*}" ;; *) echo . ;; esac; }

# In the folder: copies one kept path to its place beside the releases, and lists it in `placed`.
keep_path() { # site path
  from=$(parent_of "$2") name=${2##*/} to=$1/kept/$(parent_of "$2")
  [ ! -e "$1/kept/$2" ] || return 0
  rm -rf -- "$own/new" && mkdir -- "$own/new" && copy_as_is step_into "$from" "$name" cd "$own/new" &&
    as_builder mkdir -p -- "$to" && echo "$2" >>"$own/placed" &&
    (enter "$to" && mv -nT -- "$own/new/$name" "./$name") && [ ! -e "$own/new/$name" ]
}

# In the folder: copies it into the first release, and its kept paths beside the releases with their owners: each release
# has links to them.
first_release() { # site keep...
  site=$1 adopted=$1/releases/000001-adopted
  shift
  remove_release "$adopted" && as_builder rm -rf -- "$site/current.new" && as_builder mkdir -p -- "$site/releases" "$site/kept" &&
    copy_public "$adopted" "$@" || return 1
  for path; do
    { [ -e "./$path" ] || [ -L "./$path" ]; } || continue
    keep_path "$site" "$path" && as_builder mkdir -p -- "$adopted/$(parent_of "$path")" &&
      as_builder ln -s -- "$(realpath -m -s --relative-to="$adopted/$(parent_of "$path")" -- "$site/kept/$path")" "$adopted/$path" ||
      return 1
  done
  as_builder find "$adopted" -type d -exec chmod 00555 {} + && as_builder find "$adopted" -type f -exec chmod 0444 {} + &&
    as_builder sync -f "$adopted" || return 1
  [ -L "$site/current" ] || {
    as_builder ln -s releases/000001-adopted "$site/current.new" && as_builder mv -T -- "$site/current.new" "$site/current"
  } || return 1
  as_builder sync "$site"
}

# Removes what a rejected adoption made.
undo_release() { # site
  [ ! -f "$own/placed" ] || while read -r path; do
    (enter "$1/kept/$(parent_of "$path")" && rm -rf --one-file-system -- "./${path##*/}")
  done <"$own/placed"
  adopted=releases/000001-adopted
  [ "$(as_builder readlink -- "$1/current")" != "$adopted" ] || as_builder rm -f -- "$1/current"
  remove_release "$1/$adopted"
}
remove_release() {
  as_builder find "$1" -type d -exec chmod u+rwx {} + 2>/dev/null || :
  as_builder rm -rf -- "$1"
}

mounts_in() { # folder, itself included
  findmnt -rno TARGET | while read -r target; do
    case $target in "$1" | "$1"/*) echo "$target" ;; esac
  done
}

# In the folder of the web root: turns the folder at the web root into the first release and a link.
adopt() { # hook web-root seconds keep...
  hook=$1 root=$2 seconds=$3 name=${2##*/}
  shift 3
  mounts=$(mounts_in "$root" | head -n 1)
  [ -z "$mounts" ] || {
    say "a file system is mounted at $mounts, and a mount cannot become a link. Mount it elsewhere, or set \`site.webRoot\` to a folder without a mount."
    return 1
  }
  say "$root is a folder; the builder builds what would replace it, and compares the two"
  rm -rf --one-file-system -- "${sites:?}/.$hook.pushgate-"*
  scratch=$(mktemp -d) && own=$(mktemp -d "$sites/.$hook.pushgate-XXXXXX") || return 1
  is_adopted=no
  if adopt_folder "$@"; then is_adopted=yes; else undo_release "$sites/$hook" 2>/dev/null; fi
  as_builder rm -f -- "$sites/$hook/work/listing"
  rm -rf --one-file-system -- "$scratch" "$own"
  [ "$is_adopted" = yes ] || return 1
  say "$root leads to releases now; its former files are in $sites/$hook/releases/000001-adopted"
}

is_folder_seen() { [ "$(stat -c %d:%i .)" = "$folder" ]; }

adopt_folder() { # keep...
  folder=$(stat -c %d:%i -- "./$name")
  (step_into "$name" && is_folder_seen && list_files "$hook" "$@") || {
    say "$root cannot be read by the builder, which compares its files. Run chmod -R a+rX $root, or name what is closed in \`site.keep\`."
    return 1
  }
  compare "$hook" "$root" "$seconds" || return 1
  stop_building "$hook"
  : >"$scratch/copied"
  owner=$(stat -c '%u:%g %a' -- "./$name")
  (step_into "$name" && is_folder_seen && first_release "$sites/$hook" "$@") || {
    say "$root could not be copied into $sites/$hook, and is as it was. See the error above, and df -h $sites."
    return 1
  }
  (
    private_folder "$name" && ln -s "$sites/$hook/current" ./former && write_note "$hook" "$root" "$owner" || exit 1
    exchange "../$name" ./former || {
      rm -f -- ./former
      say "$root could not be exchanged for a link, and is as it was. See the error above."
      drop_private_folder
      exit 1
    }
    # Undo the exchange if the folder was replaced or changed during the copy.
    late=$(find ./former -newercm "$scratch/copied" ! -type d -printf '%P\n' | head -n 1)
    [ "$(stat -c %d:%i ./former)" = "$folder" ] || late="another folder"
    [ -z "$late" ] || {
      exchange "../$name" ./former || mv -nT -- ./former "../$name"
      rm -f -- ./former
      say "a program wrote $late into $root while it was copied, so $root is a folder as before. Run npx pulumi up again when no program writes there."
      drop_private_folder
      exit 1
    }
    # From here on the folder is adopted, whatever remains of it.
    rm -rf --one-file-system -- ./former && drop_private_folder || :
  ) || { forget "$hook"; return 1; }
}

# The builder's account by its folder, as the configuration does not name that of a site that left.
find_builder() { builder=$(stat -c %U -- "$sites/$1" 2>/dev/null) || builder=65534; }

# Turns the link back into a folder with the current release, which the web server goes on serving.
give_back() ( # hook
  [ -f "$notes/$1" ] || exit 0
  hook=$1
  { read -r former && read -r owner; } <"$notes/$1"
  name=${former##*/}
  stop_building "$1"
  # Where the folder is gone, or the path leads elsewhere, pushgate has no link there any more.
  if ! enter "${former%/*}" || [ "$(readlink -- "./$name")" != "$sites/$hook/current" ]; then
    forget "$1"
    exit 0
  fi
  find_builder "$hook"
  as_builder true || {
    say "the account $builder cannot read the releases. Run systemd-sysusers, then \`npx pulumi up\` again."
    exit 1
  }
  private_folder "$name" && mkdir -- ./new || exit 1
  is_served=no
  if as_builder test -d "$sites/$hook/current/"; then
    is_served=yes
    fill "$sites/$hook" "$owner" || { drop_private_folder; exit 1; }
  elif [ "$owner" != absent ]; then
    chown -- "${owner% *}" ./new && chmod -- "${owner#* }" ./new || exit 1
  fi
  exchange "../$name" ./new || { drop_private_folder; exit 1; }
  [ "$(readlink ./new)" = "$sites/$hook/current" ] || {
    exchange "../$name" ./new
    say "$former is no longer pushgate's link, and stays as it is. Run \`npx pulumi up\` again."
    drop_private_folder
    exit 1
  }
  drop_private_folder || :
  if [ "$is_served" = yes ]; then
    say "$former is a folder again, with the release that was served; pushgate no longer changes it"
  elif [ "$owner" = absent ]; then
    (enter "${former%/*}" && rmdir -- "./$name")
  fi
  forget "$1"
)

# In a private folder: fills `new` with the current release, and gives it to the owner that the note has, or to root.
fill() { # site, owner and mode
  chown -- "$builder:" ./new || return 1
  # cp runs as the builder, so a link in its folders cannot make root read another file.
  # shellcheck disable=SC2016
  (cd -P ./new && as_builder sh -c 'umask 022 && cp -dR --preserve=timestamps --no-preserve=mode,ownership -- "$1/." .' - "$1/current") ||
    return 1
  # With --from chown changes no file of another account.
  case $2 in
    absent) chown -Rh --from="$builder" root:root -- ./new && chmod 0755 ./new ;;
    *) chown -Rh --from="$builder" "${2% *}" -- ./new && chmod -- "${2#* }" ./new ;;
  esac || return 1
  # Kept paths are beside the releases, with owners of their own; a release has links to them.
  find ./new -type l -lname '*/kept/*' -printf '%P\n' | while read -r path; do
    into=./new/$(parent_of "$path")
    (step_into "$into" && rm -f -- "./${path##*/}") || exit 1
    [ ! -e "$1/kept/$path" ] ||
      copy_as_is enter "$1/kept/$(parent_of "$path")" "${path##*/}" step_into "$into" || exit 1
  done || return 1
  sync -f ./new
}

remove_site() { # hook
  systemctl disable --quiet --now "$(of_site "$siteTarget" "$1")" 2>/dev/null || :
  give_back "$1" || return 1
  rm -rf --one-file-system -- "${sites:?}/$1" "$sites/.$1.pushgate-"*
}

# Called once for each site.
serve() ( # hook web-root content seconds keep...
  hook=$1 root=$2 content=$3 seconds=$4 name=${2##*/}
  shift 4
  # Where the repository has the content, there is no such folder.
  [ -z "$content" ] || [ -d "$content" ] || {
    say "the content folder $content is missing. Set \`site.content\` to the folder that holds the content; pushgate does not make it."
    exit 1
  }
  [ -z "$content" ] || (enter "$content") || exit 1
  if [ -f "$notes/$hook" ]; then
    read -r former <"$notes/$hook"
    [ "$former" = "$root" ] || give_back "$hook" || exit 1
  fi
  enter "${root%/*}" make || exit 1
  is_new=yes
  if [ -L "./$name" ]; then
    is_new=no
    target=$(readlink -- "./$name")
    case $target in
      "$sites/$hook/current") ;;
      # A manual link to one release, which would not change with the next one.
      "$sites/$hook"/*) put_link "$hook" "$name" || exit 1 ;;
      *)
        say "$root is a link to $target, which pushgate did not make. Set \`site.webRoot\` to another path, or replace the link with the folder itself."
        exit 1
        ;;
    esac
    [ -f "$notes/$hook" ] || write_note "$hook" "$root" absent
  elif [ ! -e "./$name" ]; then
    write_note "$hook" "$root" absent
    put_link "$hook" "$name" || exit 1
  elif [ ! -d "./$name" ]; then
    say "$root is neither a folder nor a link. Set \`site.webRoot\` to another path, or move what is there."
    exit 1
  elif owner=$(stat -c '%u:%g %a' -- "./$name") && rmdir -- "./$name" 2>/dev/null; then
    write_note "$hook" "$root" "$owner"
    put_link "$hook" "$name" || exit 1
  else
    adopt "$hook" "$root" "$seconds" "$@" || exit 1
  fi
  systemctl enable --quiet --now "$(of_site "$siteTarget" "$hook")"
  # A new site is built at once, not when its timer elapses.
  [ "$is_new" = no ] || systemctl start --no-block "$(of_site "$reconcile" "$hook")"
)

remove_others() {
  for file in "$notes"/*; do
    [ -f "$file" ] || continue
    case " $hooks " in *" ${file##*/} "*) ;; *) remove_site "${file##*/}" ;; esac
  done
}

retire() {
  for file in "$notes"/* "$sites"/*; do
    [ ! -e "$file" ] || remove_site "${file##*/}" || exit 1
  done
  [ ! -d "$sites" ] || rmdir --ignore-fail-on-non-empty "$sites"
}

# Facts

# What `enter` reports of the path of folder $1, if it cannot be entered; the folder itself may be missing.
on_the_way() {
  found=$(enter "$1" 2>&1) || { [ ! -e "$1" ] && [ ! -L "$1" ]; } || { echo "${found#*: }" && return 1; }
}

web_root() { # hook web-root
  on_the_way "${2%/*}" || return
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

# Prints whether Hugo's account can read the folder. Tries from inside the folder, as Hugo's unit mounts only that: the
# folders above do not count.
content() { # folder, option of setpriv for the account's groups
  if [ ! -d "$1" ]; then
    echo "missing; set \`site.content\` to the folder that holds the content, as pushgate does not make it"
    return
  fi
  on_the_way "$1" || return
  if cd "$1" && setpriv --reuid "$hugo" --regid "$hugo" "$2" test -r . -a -x . 2>/dev/null; then
    echo readable
  else
    echo "$(stat -c '%A %U:%G' .), which $hugo cannot read; run chmod o+rX, or give it to the group of \`site.writers\`"
  fi
}
