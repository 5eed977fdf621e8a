# A removal reloads nothing: the proxy layer leaves right after.
reload() { ! systemctl is-active --quiet "$nginx" || systemctl reload "$nginx"; }

activate() { [ -z "$changed" ] || reload; }
reactivate() { reload; }
