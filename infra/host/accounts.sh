# shellcheck shell=sh disable=SC2154
# The build accounts that pushgate made, except those that $1 lists: accounts of a site that left.

other_accounts() {
  while IFS=: read -r name _ _ _ about _; do
    case $name:$about in
      pushgate-build-*:"pushgate builder of "*) ;;
      pushgate-generator-*:"pushgate generator of "*) ;;
      pushgate-report-*:"pushgate reporter of "*) ;;
      *) continue ;;
    esac
    case " $1 " in *" $name "*) ;; *) echo "$name" ;; esac
  done </etc/passwd
}

remove_other_accounts() {
  for account in $(other_accounts "$1"); do userdel "$account" || return 1; done
}
