# A name is a hook's for its secrets, or `<hook>.deploy-key`, `<hook>.status`, `<hook>.notify`, `<hook>.purge`: after the
# dot, what a unit loads it as, and to which systemd-creds binds it.

# Sums of the encrypted files and of what they are decrypted with: they show whether a manual change or the configuration
# replaced a credential, and save decrypting all of them in each preview. Lines with a "#" have what `decrypted` printed.
written=$state/credentials.sha256
# systemd removes a key that was made under another ID of the host.
key_files="/var/lib/systemd/credential.secret /etc/machine-id"

# A deploy key has several lines, and arrives as base64.
plain_text() {
  case $name in
    *.deploy-key) printf '%s\n' "$current" | base64 -d ;;
    *) printf '%s\n' "$current${others:+ $others}" | tr ' ' '\n' ;;
  esac
}

# Reads a line for each credential: its name and its text. Nothing is replaced before all of them are encrypted.
activate() {
  umask 077
  make_folder "$etc" 0755
  make_folder "$credentials" 0700
  chmod 0700 "$credentials"
  rm -f "$credentials"/.*.new
  arrived=
  while read -r name current others; do
    among "$name" "$names" || { say "a secret arrived for a hook that is not declared. Nothing was replaced."; exit 1; }
    [ -n "$current" ] || { say "the secret that arrived for $name is empty. Nothing was replaced."; exit 1; }
    # A token, or the end of a URL, is as short as its server makes it.
    least=32
    case $name in *.status | *.notify | *.purge) least=16 ;; esac
    plain_text | systemd-creds encrypt --with-key=host --name="${name##*.}" - "$credentials/.$name.new"
    # An empty input encrypts without an error, and an empty HMAC key would let every sender in.
    [ "$(systemd-creds decrypt --name="${name##*.}" "$credentials/.$name.new" - | wc -c)" -gt "$least" ] || {
      say "the secret of $name does not decrypt to more than $least bytes. See systemd-creds(1)."
      exit 1
    }
    sync "$credentials/.$name.new"
    arrived="$arrived $name"
  done
  for name in $names; do
    among "$name" "$arrived" || { say "no secret arrived for $name. Nothing was replaced."; exit 1; }
  done
  for name in $names; do mv -fT "$credentials/.$name.new" "$credentials/$name"; done
  # shellcheck disable=SC2086
  (cd "$credentials" && sha256sum -- $names $key_files) >"$written.new"
  decrypted "$(od -An -vtx1 -N32 /dev/urandom | tr -d ' \n')" | sed 's/^/#/' >>"$written.new"
  replace "$written"
  # The receiver reads its secrets once, when it starts; its sockets hold new connections meanwhile.
  ! as_installed receiver || systemctl try-restart "$receiver"
  # An ssh-agent, too, has the key that it was started with.
  as_installed builder || return 0
  for name in $names; do
    case $name in *.deploy-key) systemctl try-restart "$(of_site "$agent" "${name%.*}")" ;; esac
  done
}

# shellcheck disable=SC2086
credential_modes() { cd "$credentials" 2>/dev/null && modes . $names; }

replaced() {
  checked=$(cd "$credentials" 2>/dev/null && sha256sum --check "$written" 2>/dev/null) && echo none && return
  failed=$(printf '%s\n' "$checked" | sed -n 's/: FAILED.*//p' | paste -sd ' ' -)
  echo "${failed:-unknown}"
}

# What the program compares with the configuration: the salt, and for each credential its name and the sum of salt and text.
decrypted() { # salt
  echo "salt $1"
  for name in $names; do
    sum=$({ printf %s "$1" && systemd-creds decrypt --name="${name##*.}" "$credentials/$name" - 2>/dev/null; } | sha256sum)
    echo "$name ${sum%% *}"
  done
}

sums() {
  if [ "$(replaced)" = none ]; then
    sed -n 's/^#//p' "$written"
  else
    salt=$(sed -n 's/^#salt //p' "$written" 2>/dev/null)
    [ -z "$salt" ] || decrypted "$salt"
  fi
}
before_facts() { summed=$(sums); }
# The salt, and the line of one credential: all lines may be longer than a fact.
sum_of() {
  printf '%s\n' "$summed" | {
    read -r salt && echo "$salt"
    while read -r name sum; do [ "$name" != "$1" ] || echo "$name $sum"; done
  }
}

retire() { rm -rf "$credentials" "$written" "$written.new"; }
