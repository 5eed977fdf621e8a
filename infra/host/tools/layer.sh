# A release of a program is the folder $tools/<program>-<version>. Beside it, <program>-<version>.record has the SHA-256 of
# its archive, and one of the list of its files. The builder's layer removes what no site names any more, once no unit
# mounts it.
most_packed=268435456 most_unpacked=1073741824 # bytes
download_seconds=300 unpack_seconds=90

# $1 on amd64, $2 on arm64.
here() { case $(dpkg --print-architecture) in amd64) echo "$1" ;; arm64) echo "$2" ;; esac }

# No program can set a file's time of change (%C), so that a list shows each change, in 0.05 s. Reading all would take 1 s.
record() { # name, SHA-256 of its archive
  echo "$2 $(cd -- "$tools/$1" && find . -printf '%p %y %m %U:%G %s %C@ %l\n' | LC_ALL=C sort | sha256sum)"
}

tool_state() { # name, SHA-256 of its archive for amd64, for arm64
  if [ ! -d "$tools/$1" ]; then
    echo missing
  elif [ "$(record "$1" "$(here "$2" "$3")")" = "$(cat "$tools/$1.record" 2>/dev/null)" ]; then
    echo "as installed"
  else
    echo "another than was installed"
  fi
}

# Removes all but the installed releases, which stay as they were.
reject() {
  rm -rf -- "$tools/.new" "$tools/.download"
  say "$*"
  exit 1
}

# What an archive may not hold. Links stay where they are when the folder gets its name, so each must lead to a place in it.
foreign() ( # folder
  cd -- "$1" && top=$(pwd -P) || exit 1
  find . ! -type d ! -type f ! -type l
  find . -type l | while read -r link; do
    case $(readlink -- "$link"),$(readlink -m -- "$link") in /* | *,"$top") echo "$link" ;; *,"$top"/*) ;; *) echo "$link" ;; esac
  done
)

install_tool() { # name, hook, program, folders above it in the archive, URL and SHA-256 for amd64, for arm64
  [ "$(tool_state "$1" "$6" "$8")" != "as installed" ] || return 0
  url=$(here "$5" "$7") sum=$(here "$6" "$8") new=$tools/.new
  [ -n "$sum" ] || reject "$1 has archives for amd64 and arm64, and this host is $(dpkg --print-architecture). Remove it from site.tools."
  make_folder "$tools" 0755
  # What `npx pushgate tools --send` left.
  if [ -f "$tools/.sent-$sum" ]; then
    mv -fT -- "$tools/.sent-$sum" "$tools/.download"
  else
    # `head`: curl before 8.4 ends no download that is longer than its server announced.
    said=$({ curl -sSfL --proto =https --proto-redir =https --connect-timeout 20 --max-time "$download_seconds" \
      --max-filesize "$most_packed" -- "$url" | head -c "$most_packed" >"$tools/.download"; } 2>&1)
    [ -z "$said" ] || reject "$url was not downloaded: $said. Run npx pushgate tools $2 --send, which sends it from your computer, then npx pulumi up."
  fi
  found=$(sha256sum <"$tools/.download")
  [ "${found%% *}" = "$sum" ] || reject "$url has the SHA-256 ${found%% *}, and site.tools has $sum. Compare both with the release's page."
  rm -rf -- "$new"
  mkdir -m 0700 -- "$new"
  # Without their owners and special modes; tar itself makes no path outside of the folder.
  gzip -dc <"$tools/.download" | head -c "$most_unpacked" |
    timeout "$unpack_seconds" tar -x -C "$new" --strip-components="$4" --no-same-owner --no-same-permissions ||
    reject "$url cannot be unpacked, see above. It may have $most_unpacked bytes, and take $unpack_seconds s."
  chmod -R u=rwX,go=rX -- "$new"
  chown -hR root:root -- "$new"
  strange=$(foreign "$new" | head -n 1)
  [ -z "$strange" ] || reject "$url holds $strange, which is no file, no folder and no link in the archive. Use another release."
  [ -x "$new/$3" ] || reject "$url has no program $3. Use another release."
  sync -f -- "$new"
  rm -rf -- "$tools/.old" "$tools/.download"
  [ ! -e "$tools/$1" ] || mv -T -- "$tools/$1" "$tools/.old"
  mv -T -- "$new" "$tools/$1"
  record "$1" "$sum" >"$tools/$1.record.new"
  replace "$tools/$1.record"
  rm -rf -- "$tools/.old"
}

retire() {
  rm -rf -- "$tools"
  remove_empty "${tools%/*}"
}
