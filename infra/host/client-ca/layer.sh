# A removal reloads nothing: the proxy layer leaves right after.
reactivate() { ! systemctl is-active --quiet "$nginx" || systemctl reload "$nginx"; }

activate() { [ -z "$changed" ] || reactivate; }
