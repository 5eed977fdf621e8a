/** Hostile paths in the shell that root runs, in preview and in an apply: quoted at each use, so nothing of them runs. */
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { probeScript } from "../../../infra/apply/manifest.ts";
import { quote } from "../../../infra/apply/shell.ts";
import type { Settings } from "../../../infra/config/settings.ts";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { hostLayers } from "../../../infra/host/index.ts";
import { questionsOf } from "../../../infra/host/preflight.ts";
import { siteLayer } from "../../../infra/host/site/site.ts";
import { exampleHost, made } from "../../fixtures.ts";
import { hostile, hostilePath, siteAt } from "./hostile-paths.ts";
import { noHost, onHost } from "./lab/throwaway-host.ts";

// Units and nginx's file cannot hold these paths, and their renderers throw (paths.test.ts): here they let them pass.
vi.mock("../../../infra/host/kit.ts", async (original) => {
  const asItIs = (value: string) => value;
  return { ...(await original<object>()), unitWord: asItIs, nginxWord: asItIs };
});

const nothing = { activate: "", reactivate: "", retire: "", files: [] };
const questions = (settings: Settings) => questionsOf(exampleHost, settings).map((one) => ({ ...one, ...nothing }));

/** Every text of these settings that a shell of root reads. */
const shellOf = (settings: Settings): string[] =>
  [...Object.values(hostLayers(settings, exampleHost, made)), ...questions(settings)].flatMap(
    ({ script = "", activate, reactivate = "", retire, facts, files }) => [
      script,
      activate,
      reactivate,
      retire,
      ...facts.map(({ read }) => read),
      ...files.flatMap(({ check = "" }) => check),
    ],
  );

describe("in the shell of root", () => {
  test("each path is in single quotes, whatever it holds", () => {
    const uses = (path: string) => {
      const texts = shellOf(siteAt(path)).join("\n");
      const quoted = [path, `${path}.content`, `${path}.hugo`, `${path}.downloads`].map(quote);
      return {
        count: quoted.filter((one) => texts.includes(one)).length,
        rest: quoted.reduce((text, one) => text.replaceAll(one, ""), texts),
      };
    };
    fc.assert(
      fc.property(hostilePath, (path) => {
        const { count, rest } = uses(path);
        expect(count).toBe(4);
        expect(rest).not.toContain("/tmp/sites/");
        expect(rest).not.toContain("tmp/pwned");
      }),
      { seed: 1, numRuns: 30 },
    );
  });

  const paths = fc.sample(hostilePath, { numRuns: 12, seed: 4 }).concat(hostile.map((part) => `/tmp/sites/x${part}y`));
  /** Facts and activation as root, with the host's own shell and without systemd. */
  const run = (change: (text: string, path: string) => string) => {
    const calls = paths.map((path) => {
      const site = siteLayer(siteAt(path));
      const builder = builderLayer(siteAt(path), exampleHost);
      const { script } = site;
      const functions = `${script}\nsystemctl() { :; }\n`;
      const version = `${builder.script}\n${builder.facts[0]!.read}`;
      const texts = [
        `${functions}readlink() { echo "words: $#"; }\n${site.facts.map(({ read }) => read).join("\n")}`,
        version,
        `${functions}mkdir -p -- ${quote(`${path}.content`)}\n${site.activate}`,
      ];
      const begin = "rm -rf /srv/docs\n";
      return begin + texts.map((text) => `sh -c ${quote(change(text, path))} >>/tmp/out 2>&1 </dev/null`).join("\n");
    });
    return onHost(
      `mkdir -p /tmp/sites /etc/systemd/system; cd /tmp/sites\n${calls.join("\n")}\n[ ! -e /tmp/pwned ] || echo pwned\ngrep -c '^words: 2$' /tmp/out`,
    );
  };

  test("facts and activation run none of it, and to the facts each path is one word", ({ skip }) => {
    skip(noHost !== undefined, noHost);
    // Two sites for each path.
    expect(run((text) => text).stdout.trim()).toBe(String(2 * paths.length));
  });

  test("without the quotes it runs", ({ skip }) => {
    skip(noHost !== undefined, noHost);
    expect(run((text, path) => text.replaceAll(quote(path), path)).stdout).toContain("pwned");
  });

  test("the whole probe runs none of it", ({ skip }) => {
    skip(noHost !== undefined, noHost);
    const layers = Object.values(hostLayers(siteAt(`/tmp/sites/${hostile.join("")}`), exampleHost, made)).filter(
      ({ name }) => ["site", "builder"].includes(name),
    );
    const { stdout } = onHost(`${probeScript(layers)}\n[ ! -e /tmp/pwned ] || echo pwned`);
    expect(stdout).toContain('["end"]');
    expect(stdout).not.toContain("pwned");
  });
});
