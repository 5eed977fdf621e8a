# Web roots and releases are below folders that root alone can write. While root works on a site, no builder of it runs.

# Whether the path $2 is the link to the releases of hook $1.
is_link_of() { [ "$(readlink -- "$2")" = "$sites/$1/current" ]; }

# Fact: where the web root $2 leads to, if the note of hook $1 names it.
link_of() {
  grep -qxF -- "$2" "$notes/$1" 2>/dev/null || echo "note missing"
  readlink -- "$2"
}

# The current release takes the link's place: a folder of root's, which the web server goes on serving.
give_back() ( # hook
  read -r root <"$notes/$1"
  is_link_of "$1" "$root" || exit 0
  others=$(written_by_others "${root%/*}" | head -n 1)
  [ -z "$others" ] || {
    say "$root is below $others, which accounts other than root can write. Run chown root:root $others && chmod go-w $others, then npx pulumi up."
    exit 1
  }
  site=$sites/$1 new=${root%/*}/.${root##*/}.pushgate-new
  # The builder's account wrote this, so it may be no release.
  release=$(readlink -- "$site/current" | grep -xE 'releases/[0-9]{6}-[0-9a-z]+') || release=none
  if [ ! -L "$site/releases" ] && [ ! -L "$site/$release" ] && [ -d "$site/$release" ]; then
    rm -rf --one-file-system -- "$new" && chmod -R u=rwX,go=rX -- "$site/$release" &&
      chown -hR --from="$(stat -c %u -- "$site")" root:root -- "$site/$release" || exit 1
    if [ "$(stat -c %d -- "$site/$release")" = "$(stat -c %d -- "${root%/*}")" ]; then
      mv -T -- "$site/$release" "$new"
    else
      cp -a -- "$site/$release" "$new"
    fi || exit 1
  fi
  # A removal that was interrupted here has no release any more.
  if [ -d "$new" ]; then
    # One process, so that the web server misses the path for microseconds.
    perl -e 'unlink($ARGV[1]) && rename($ARGV[0], $ARGV[1]) or die "$ARGV[1]: $!\n"' -- "$new" "$root" || exit 1
    sync -f -- "$root"
    say "$root is a folder now, with the release that was served; pushgate no longer changes it"
  else
    rm -f -- "$root"
  fi
)

remove_site() { # hook
  systemctl disable --quiet --now "$(of_site "$siteTarget" "$1")" 2>/dev/null || :
  [ ! -f "$notes/$1" ] || give_back "$1" || return 1
  rm -f -- "$notes/$1"
  rmdir -- "$notes" 2>/dev/null || :
  rm -rf --one-file-system -- "${sites:?}/$1"
}

serve() ( # hook, web root
  hook=$1 root=$2
  found=$(web_root "$hook" "$root")
  [ "$found" = fit ] || { say "$root is $found"; exit 1; }
  if [ -f "$notes/$hook" ]; then
    read -r former <"$notes/$hook"
    [ "$former" = "$root" ] || ! is_link_of "$hook" "$former" || rm -f -- "$former"
  fi
  is_new=$([ -L "$root" ] || echo yes)
  make_folder "${root%/*}" 0755
  mkdir -p -- "$notes"
  printf '%s\n' "$root" >"$notes/$hook.new"
  replace "$notes/$hook"
  ln -sfT -- "$sites/$hook/current" "$root"
  systemctl enable --quiet --now "$(of_site "$siteTarget" "$hook")"
  # A new site is built at once, not when its timer elapses.
  [ -z "$is_new" ] || systemctl start --no-block "$(of_site "$reconcile" "$hook")"
)

remove_others() {
  for file in "$notes"/*; do
    [ ! -f "$file" ] || among "${file##*/}" "$hooks" || remove_site "${file##*/}"
  done
}

retire() {
  for file in "$notes"/* "$sites"/*; do
    [ ! -e "$file" ] || remove_site "${file##*/}" || exit 1
  done
  remove_empty "$sites"
}
