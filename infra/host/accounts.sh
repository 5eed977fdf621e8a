# The build accounts that pushgate made, except those that $1 lists: accounts of a site that left.

other_accounts() {
  sed -nE 's/^(pushgate-(build|generator|report)-[^:]*):([^:]*:){3}pushgate (builder|generator|reporter) of .*/\1/p' /etc/passwd |
    while read -r name; do among "$name" "$1" || echo "$name"; done
}

remove_other_accounts() {
  for account in $(other_accounts "$1"); do userdel "$account" || return 1; done
}
