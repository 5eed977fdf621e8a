# The programs of a layer: `programs` holds path and SHA-256 of each in turns, and the layer's command sends their files
# into $incoming. A failed apply puts the former ones back; the layer removes $incoming at the end of its `activate`.
new_program=no

sum_of() { sum=$(sha256sum "$1" 2>/dev/null) && echo "${sum%% *}"; }

# What stood at path $1, or an empty file for nothing.
former_of() { echo "$incoming/former-${1##*/}"; }

# Calls $1 with path and SHA-256 of each.
each_program() {
  step=$1
  # shellcheck disable=SC2086
  set -- $programs
  while [ $# -gt 0 ]; do
    "$step" "$1" "$2"
    shift 2
  done
}

install_program() { # path, SHA-256
  # An apply that was killed leaves it.
  rm -f "$(former_of "$1")"
  if [ "$(sum_of "$1")" != "$2" ]; then
    echo "$2  $incoming/$2.cjs" | sha256sum -c --status - || {
      say "$incoming/$2.cjs is missing or has another hash. Run \`npx pulumi up\` again, which sends it."
      exit 1
    }
    make_folder "${1%/*}" 0755
    cp -p "$1" "$(former_of "$1")" 2>/dev/null || : >"$(former_of "$1")"
    mv "$incoming/$2.cjs" "$1.new"
    replace "$1"
    # shellcheck disable=SC2034 # the receiver's layer reads it
    new_program=yes
  fi
  chown root:root "$1"
  chmod 0644 "$1"
}

restore_program() { # path
  former=$(former_of "$1")
  if [ -s "$former" ]; then
    mv "$former" "$1.new" && replace "$1"
  elif [ -e "$former" ]; then
    rm -f "$1"
  fi
}

remove_program() { # path
  rm -rf "$1" "$1.new"
  remove_empty "${1%/*}"
}

install_programs() { each_program install_program; }
restore_programs() { each_program restore_program; }
remove_programs() {
  each_program remove_program
  rm -rf "$incoming"
}
