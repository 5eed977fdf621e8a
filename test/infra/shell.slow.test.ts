/** shellcheck and dash accept every shell script that reaches a host, alone and with its values. */
import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { expect, test } from "vitest";
import { requestScript } from "../../infra/cli/site/build.ts";
import { listScript } from "../../infra/cli/site/deploys.ts";
import { reportScript } from "../../infra/cli/site/host-report.ts";
import { logsScript } from "../../infra/cli/site/logs.ts";
import { testScript } from "../../infra/cli/site/notify.ts";
import { pingScript } from "../../infra/cli/webhook/ping-on-host.ts";
import { hostLayers } from "../../infra/host/index.ts";
import { exampleHost, made, rebuilt, served } from "../fixtures.ts";
import { lintShell, needs } from "./host/namespace.ts";

needs("shellcheck", "dash");

test("shellcheck finds no fault in a script of infra/", () => {
  const root = new URL("../../", import.meta.url).pathname;
  const files = globSync("infra/**/*.sh", { cwd: root }).sort();
  expect(files.length).toBeGreaterThan(5);
  expect(spawnSync("shellcheck", ["--shell=dash", ...files], { cwd: root, encoding: "utf8" }).stdout).toBe("");
});

test.for([
  ["one site", served],
  ["two sites with every option", rebuilt],
] as const)("shellcheck and dash find no fault in the scripts of a host's layers: %s", ([, settings]) => {
  const texts = Object.values(hostLayers(settings, exampleHost, made)).map(
    ({ script, activate, reactivate = ":", retire, facts }) =>
      // One text for each layer, as starting shellcheck costs more than its work.
      [
        // SC2016: `quote` puts values into single quotes. SC2317: apply.sh calls the steps.
        "# shellcheck disable=SC2016,SC2034,SC2317",
        // apply.sh sets it in the environment of `activate`.
        "changed=",
        script,
        ...[activate, reactivate, retire, ...facts.map(({ read }) => read)].map((text) => `(\n${text}\n)`),
      ].join("\n"),
  );
  expect(texts.map(lintShell).join("")).toBe("");
});

test("shellcheck and dash find no fault in the scripts of npx pushgate", () => {
  const sources = ["receiver", "builder", "nginx", "guard"] as const;
  const scripts = [
    reportScript([{ name: "site", site: {} }, { name: "docs" }]),
    requestScript("site", { file: "build", seconds: 90, verb: "start" }),
    testScript("site"),
    listScript(["site", "docs"]),
    logsScript({ sources, lines: 5, since: "1 hour ago", deliveries: ["x"], follow: true }),
    pingScript("POST / HTTP/1.1\r\n\r\n", "127.0.0.2", 9461),
  ];
  expect(scripts.map(lintShell).join("")).toBe("");
});
