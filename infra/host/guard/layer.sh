activate() {
  enable_units "$service" "$timer"
  systemctl restart "$timer"
  # The proof is part of the apply: on a host that cannot enforce the allowlist the apply fails here, with the verdict.
  systemctl start "$service" || {
    cat "$run/verdict" >&2
    exit 1
  }
}

reactivate() {
  forget_missing "$timer" "$service"
  if [ -x "$program" ]; then
    systemctl start "$service"
  else
    # Without a guard a reboot must not open a socket that was just found open to a foreign source.
    [ ! -s "$run/closed" ] || xargs -r systemctl disable --quiet <"$run/closed"
    rm -rf "$run"
  fi
}

retire() {
  remove_units "$timer" "$service"
  nft delete table inet pushgate_trial 2>/dev/null
  rm -rf "$run"
}

verdict() {
  verdict=$(cat "$run/verdict" 2>/dev/null || echo "the guard has not run")
  [ "$verdict" != proven ] || case $(systemctl is-active "$service") in
    inactive | activating | deactivating) ;;
    *) verdict="the guard's last run did not end" ;;
  esac
  echo "$verdict"
}
