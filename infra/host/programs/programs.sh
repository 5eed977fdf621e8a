# The programs of a layer: each word of `programs` is a path and a SHA-256, and the layer's command sends their files into
# $incoming. A failed apply puts the former ones back; the layer removes $incoming at the end of its `activate`.
new_program=no

# What stood at path $1, or an empty file for nothing.
former_of() { echo "$incoming/former-${1##*/}"; }

install_programs() {
  for program in $programs; do
    path=${program%:*} sum=${program##*:}
    # An apply that was killed leaves it.
    rm -f "$(former_of "$path")"
    if ! echo "$sum  $path" | sha256sum -c --status - 2>/dev/null; then
      echo "$sum  $incoming/$sum.cjs" | sha256sum -c --status - || {
        say "$incoming/$sum.cjs is missing or has another hash. Run \`npx pulumi up\` again, which sends it."
        exit 1
      }
      make_folder "${path%/*}" 0755
      cp -p "$path" "$(former_of "$path")" 2>/dev/null || : >"$(former_of "$path")"
      mv "$incoming/$sum.cjs" "$path.new"
      replace "$path"
      # shellcheck disable=SC2034 # the receiver's layer reads it
      new_program=yes
    fi
    chown root:root "$path"
    chmod 0644 "$path"
  done
}

restore_programs() {
  for program in $programs; do
    path=${program%:*}
    former=$(former_of "$path")
    if [ -s "$former" ]; then
      mv "$former" "$path.new" && replace "$path"
    elif [ -e "$former" ]; then
      rm -f "$path"
    fi
  done
}

remove_programs() {
  for program in $programs; do
    path=${program%:*}
    rm -rf "$path" "$path.new"
    remove_empty "${path%/*}"
  done
  rm -rf "$incoming"
}
