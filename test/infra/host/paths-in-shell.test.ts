/** Hostile paths in the shell that root runs, in preview and in an apply: quoted at each use, so nothing of them runs. */
import { expect, test, vi } from "vitest";
import { quote } from "../../../infra/apply/shell.ts";
import type { Settings } from "../../../infra/config/settings.ts";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { hostLayers } from "../../../infra/host/index.ts";
import { questionsOf } from "../../../infra/host/preflight.ts";
import { siteLayer } from "../../../infra/host/site/site.ts";
import { exampleHost, made } from "../../fixtures.ts";
import { hostile, siteAt } from "./hostile-paths.ts";
import { noHost, onHost } from "./lab/throwaway-host.ts";

// Units and nginx's file cannot hold these paths, and their renderers throw (paths.test.ts): here they let them pass.
vi.mock("../../../infra/host/kit.ts", async (original) => {
  const asItIs = (value: string) => value;
  return { ...(await original<object>()), unitWord: asItIs, nginxWord: asItIs };
});

const nothing = { activate: "", reactivate: "", retire: "", files: [] };
const questions = (settings: Settings) => questionsOf(exampleHost, settings).map((one) => ({ ...one, ...nothing }));

/** Every text of these settings that a shell of root reads. */
const shellOf = (settings: Settings): string =>
  [...Object.values(hostLayers(settings, exampleHost, made)), ...questions(settings)]
    .flatMap(({ script = "", activate, reactivate = "", retire, facts, files }) => [
      ...[script, activate, reactivate, retire],
      ...facts.map(({ read }) => read),
      ...files.flatMap(({ check = "" }) => check),
    ])
    .join("\n");

test("each path is in single quotes, whatever it holds", () => {
  for (const path of [...hostile, hostile.join("")].map((part) => `/tmp/sites/x${part}y`)) {
    const text = shellOf(siteAt(path));
    const quoted = [path, `${path}.content`, `${path}.hugo`, `${path}.downloads`].map(quote);
    for (const one of quoted) expect(text).toContain(one);
    const rest = quoted.reduce((left, one) => left.replaceAll(one, ""), text);
    expect(rest).not.toMatch(/\/tmp\/sites\/|tmp\/pwned/);
  }
});

/** Facts and activation as root, with the host's own shell and without systemd. */
const activated = (paths: readonly string[], change: (text: string, path: string) => string) => {
  const calls = paths.map((path) => {
    const site = siteLayer(siteAt(path));
    const builder = builderLayer(siteAt(path), exampleHost);
    const text = `${builder.script}
(${builder.facts[0]!.read})
${site.script}
systemctl() { :; }
(readlink() { echo "words: $#"; }; ${site.facts.map(({ read }) => read).join("\n")}
)
mkdir -p -- ${quote(`${path}.content`)}\n${site.activate}`;
    return `rm -rf /srv/docs\nsh -c ${quote(change(text, path))} >>/tmp/out 2>&1 </dev/null`;
  });
  const begin = "mkdir -p /tmp/sites /etc/systemd/system; cd /tmp/sites";
  return onHost(
    `${begin}\n${calls.join("\n")}\n[ ! -e /tmp/pwned ] || echo pwned\ngrep -c '^words: 2$' /tmp/out`,
  ).stdout.trim();
};

test("root runs none of it in facts and activation, where each path is one word; without the quotes it runs", ({
  skip,
}) => {
  skip(noHost !== undefined, noHost);
  // Few, because each starts hundreds of programs.
  const paths = [0, 7, 14].map((at) => `/tmp/sites/x${hostile.slice(at, at + 7).join("")}y`);
  // Two sites for each path.
  expect(activated(paths, (text) => text)).toBe(String(2 * paths.length));
  const unquoted = (text: string, path: string) => text.replaceAll(quote(path), path);
  expect(activated([`/tmp/sites/x${hostile[0]}y`], unquoted)).toContain("pwned");
});
