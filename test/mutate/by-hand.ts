/**
 * Mutants that Stryker does not make: of the scripts on a host, and of the programs' first files and resource hooks, which
 * run in a process of their own. Each weakens one protection, and names the test file that has to fail. A protection that
 * its own test removes has no row, nor have scripts that only a booted host executes, such as the layer.sh of builder, egress,
 * firewall, guard and receiver, and short ones whose results a test compares.
 */

export type ByHand = readonly [file: string, from: string, to: string, test: string];

const within = (file: string, test: string, rows: readonly (readonly [from: string, to: string])[]): ByHand[] =>
  rows.map(([from, to]) => [file, from, to, test]);

export const byHand: readonly ByHand[] = [
  ...within("infra/apply/apply.sh", "test/infra/apply/apply.test.ts", [
    // A file's mode or owner that was changed by hand.
    ['[ "0$(stat -c \'%a %U:%G\' -- "$1")" = "$2 $3" ]', "true"],
    // A link at the temporary name.
    ['{ rm -rf -- "$temp" && (umask', "{ (umask"],
    // The parser's check, the facts, a failed step's way back.
    ['sh -ec "$script$nl$4" check', 'true "$4" check'],
    ['[ "$out" = "$3" ] && ', ""],
    ["  files_changed=1\n  walk rename", "  walk rename"],
    ["    facts_hold || fail", "    facts_hold || : fail"],
    ['[ "$complete" = 1 ]; then\n    say "the former files are back', 'true; then\n    say "the former files are back'],
    // What a layer no longer declares.
    ['  remove_strays\n  sync_folders "$touched"', '  sync_folders "$touched"'],
    ['    exists "$path" || continue\n    { mkdir', "    continue\n    { mkdir"],
    // A removal.
    ["  write_stamp removing ''", "  :"],
    ['sh >&2 </dev/null || fail "retire"', 'sh >&2 </dev/null || : fail "retire"'],
    ['sh -ec "$take_changed', 'sh -c "$take_changed'],
  ]),
  ...within("infra/apply/apply.sh", "test/infra/apply/apply-interrupted.test.ts", [
    ['  { rm -rf -- "$state/stamps/$layer" && printf %s "$touched"', '  { printf %s "$touched"'],
    ['changes=$(sort -u "$state/pending/$layer")', "changes=$touched"],
    ['  trap \'fail "being stopped"', '  : \'fail "being stopped"'],
  ]),
  ...within("infra/apply/fact.sh", "test/infra/apply/probe.test.ts", [
    ['[ -z "$newer" ] && all_read', "all_read"],
    ["find -L ", "find "],
    ["-maxdepth 2 -newerct", "-maxdepth 1 -newerct"],
    ["-newerct", "-newermt"],
    ["&& set -- &&", "&&"],
    ["[ ${#fact_output} -le 2048 ] ||", "true ||"],
  ]),
  ...within("infra/apply/probe.sh", "test/infra/apply/probe.slow.test.ts", [["timeout -s KILL 30", "timeout 30"]]),
  ...within("infra/apply/receive.sh", "test/infra/apply/ship.test.ts", [
    ["sha256sum --check --status || {", "true || {"],
    ["trap 'rm -f \"$file.new\"' EXIT", ":"],
  ]),
  ...within("infra/apply/run-in-unit.sh", "test/infra/apply/ship.test.ts", [
    ["exit 75; }", "}"],
    ["[ $tries -le 5 ]", "[ $tries -le 500 ]"],
  ]),
  ...within("infra/edge/zone/lock.ts", "test/engine/lock.test.ts", [
    ["if (lost.length > 0) throw", "if (false) throw"],
    ['id === "" ? all : ', 'id === "" ? [] : '],
    ["if (!isDeepStrictEqual(await foreignIn({ zoneId, id }), foreignRules(carried)))", "if (false)"],
    ["records.length > 0 ? { beforeDelete: [beforeDelete] } : {}", "{}"],
    [
      "{ hooks: { ...hooks, beforeDelete: [beforeDelete] } } : { hooks, retainOnDelete: true }",
      "{ hooks } : { hooks }",
    ],
  ]),
  ...within("infra/edge/zone/lock.ts", "test/engine/hosts-leave.test.ts", [
    ["throw new Error(\n        `${host} would keep", "String(\n        `${host} would keep"],
    ['one.host.state !== "present")) return;', "false)) return;"],
  ]),
  ...within("infra/host/guard/guard.sh", "test/infra/host/guard.test.ts", [
    ['printf \'%s\\n\' "$open" >"$run/closed"', ":"],
    ['systemctl stop $open "$receiver"', "systemctl stop $open"],
    ["meta skuid != 0 drop", "meta skuid != 0 accept"],
    ["\nfirewall\negress\n", "\negress\n"],
    ['[ "$trial" = 0 ] || nft delete', '[ "$trial" = 0 ] || : nft delete'],
    ['systemctl is-enabled --quiet "$unit" && closed', "closed"],
    ["*-*) slice=${slice%-*}.slice ;;", "*-*) slice= ;;"],
    ["systemctl stop $builds", ": $builds"],
  ]),
  ...within("infra/host/guard/prober.pl", "test/infra/host/guard.test.ts", [
    ["$first, $last eq $first ? () : $last", "$first"],
    ["usable($_) } beside($first, -1), beside($last, 1)", "usable($_) } beside($first, -1)"],
    ["[0] // () } @units;", "[0] // () } ();"],
    ["map { packed($_) } @ARGV;", "();"],
    ['print "could not look: @_\\n"; exit 2', 'print "could not look: @_\\n"; exit 0'],
    ["exit($open ? 5 : @unproven ? 4", "exit($open ? 5 : @unproven ? 3"],
    ["exit($open ? 5 : @unproven", "exit($open ? 3 : @unproven"],
  ]),
  ...within("infra/host/egress/egress.sh", "test/infra/host/egress.test.ts", [
    ["text=$(table) || exit 1", "text=$(table)"],
    ["|| return 1\n  cat <<TABLE", "\n  cat <<TABLE"],
    ['*%*) echo "egress', '*%%*) echo "egress'],
    ["delete table inet pushgate_egress\n", ""],
  ]),
  ...within("infra/host/firewall/drift.sh", "test/infra/host/firewall.test.ts", [
    ['live=$(nft -s list table inet "$table" 2>/dev/null) || live=absent', "live=$declared"],
    ['elif [ "$live" = absent ]; then', "elif false; then"],
  ]),
  ...within("infra/host/routing/routing.sh", "test/infra/host/routing.test.ts", [
    ["|| at=$((lowest - 1))", "|| :"],
    ['! stays "$@" || ', ""],
    ['|| strays "$1"; then', "; then"],
    ['ip "-$1" rule del pref', ': ip "-$1" rule del pref'],
    ["assert 4 @loopback4@ @visitor4@ || exit 1", ": @loopback4@ @visitor4@"],
    ["! has_ipv6 || assert 6 @loopback6@ @visitor6@ || ! has_ipv6", ": @loopback6@ @visitor6@"],
  ]),
  ...within("infra/host/secrets/layer.sh", "test/infra/host/secrets.test.ts", [
    ["  umask 077\n", "  umask 022\n"],
    ['-gt "$least" ] ||', "-ge 0 ] ||"],
    ['  chmod 0700 "$credentials"\n', ""],
    ['[ -n "$current" ] ||', "true ||"],
    ['among "$name" "$arrived" ||', "true ||"],
    ["sha256sum -- $names $key_files", "sha256sum -- $names"],
    ["credential.secret /etc/machine-id", "credential.secret"],
    ['--name="${name##*.}" "$credentials/.$name.new"', '"$credentials/.$name.new"'],
    ["; } | sha256sum)", "; })"],
    ['{ printf %s "$1" && systemd-creds', "{ systemd-creds"],
    ['if [ "$(replaced)" = none ]; then', "if true; then"],
    ['"${failed:-unknown}"', '"${failed:-none}"'],
  ]),
  ...within("infra/host/proxy/layer.sh", "test/infra/host/proxy-shell.test.ts", [
    // What a reload without an error can hide.
    ['[ -z "$fresh" ] || break', "return 0"],
    ['if noted "$service.loaded" "$loaded"', "if true"],
  ]),
  ...within("infra/host/common.sh", "test/infra/host/proxy-shell.test.ts", [
    ['if [ "$(stale "$1")" != none ] || ! noted', "if ! noted"],
    ['|| ! noted "$1" "$2"; then', "; then"],
  ]),
  ...within("infra/host/proxy/check.sh", "test/infra/host/proxy-shell.test.ts", [
    ["$staged&|", "&|"],
    ["s|$logs/[^ ;]*|/dev/null|; ", ""],
    ["s|$cache|$scratch|; ", ""],
  ]),
  ...within("infra/host/origin-key/layer.sh", "test/infra/host/origin-key.test.ts", [
    ['  chmod 0600 "$key"\n', ""],
    ['[ "${said#*"${public%%-----END*}"}" = "$said" ]', "false"],
    ["-verify 2>&1) || :", "-verify 2>&1)"],
    ["grep -qE '^(Certificate request self-signature )?verify OK$'", "true"],
    ['!= "DNS:$hostname" ]; then', "= never ]; then"],
    ["*'ASN1 OID: prime256v1'*) ;;", "*) ;;"],
    ['[ ! -f "$key" ] || [ -L "$key" ]; then', '[ ! -f "$key" ]; then'],
  ]),
  ...within("infra/host/packages/layer.sh", "test/infra/host/packages.test.ts", [
    ["s/^installed //p", "s/^[a-z-]* //p"],
    ["exit 101", "exit 0"],
    ["    trap shim_out EXIT\n", ""],
    ["! grep -qs '^# pushgate' \"$shim\" && return", "false && return"],
    ["--no-remove", ""],
    ["case $missing in *nginx*)", "case $missing in *)"],
  ]),
  ...within("infra/host/programs/programs.sh", "test/infra/host/programs.test.ts", [
    ["sha256sum -c --status - || {", "true || {"],
    ['cp -p "$path" "$(former_of "$path")" 2>/dev/null || ', ""],
    ['&& replace "$path"', ""],
  ]),
  ...within("infra/host/site/layer.sh", "test/infra/host/site.test.ts", [
    ['[ "$found" = fit ] || {', "true || {"],
    ['is_link_of "$1" "$root" || exit 0', ":"],
    ['  [ -z "$others" ] || {', "  true || {"],
  ]),
  ["service/settings.ts", 'process.stdout.on("error", () => {});', "", "test/service/receiver/process.test.ts"],
  ["service/settings.ts", "? 78 : 1", "? 1 : 1", "test/infra/host/programs.test.ts"],
  ...within("service/receiver/main.ts", "test/service/receiver/process.test.ts", [
    ["void drain(servers).then(() => process.exit(0))", "process.exit(0)"],
    [", metrics.count)", ")"],
  ]),
  ...within("service/metrics/metrics.ts", "test/service/receiver/process.test.ts", [
    ['once(server, "listening")', 'once(server, "")'],
  ]),
  ...within("service/receiver/server.ts", "test/service/receiver/process.test.ts", [
    ["setInterval(() => servers.map((server) => server.closeIdleConnections()), 50).unref();", ""],
    ["await Promise.all(closed);", ""],
  ]),
  ...within("service/builder/main.ts", "test/service/builder/run/build-pending.test.ts", [
    ["  removeLeftovers(places);\n", ""],
  ]),
];
