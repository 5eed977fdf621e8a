# The client-ca layer on the host. Value: nginx (its unit). A removal reloads nothing: the proxy layer leaves right after.
reload() { ! systemctl is-active --quiet "$nginx" || systemctl reload "$nginx"; }

activate() { [ -z "$changed" ] || reload; }
reactivate() { reload; }
