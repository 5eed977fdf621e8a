/** What golden.test.ts and layers.test.ts do not show of the kit: a renderer's mistakes, and a service that answers late. */
import { spawnSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { layerScript, template } from "../../../infra/host/kit.ts";
import { Root } from "./namespace.ts";

function baseWith(name: string, text: string): string {
  const root = new Root();
  root.write(name, text);
  return pathToFileURL(root.at("layer.ts")).href;
}

test("a placeholder without a value, and a value without a place, are mistakes", () => {
  expect(() => template(baseWith("unit", "@one@\n"), "unit", {})).toThrow("unit: @one@ has no value");
  const values = { one: "1", two: "" };
  expect(() => template(baseWith("unit", "text\n"), "unit", values)).toThrow("unit has no place for one, two");
});

test.each([
  ["success", 0],
  ["exit-code", 1],
])("a restarted service may answer late, and an apply fails at once where it failed: %s", (result, code) => {
  const own = `systemctl() { [ "$1" != show ] || echo ${result}; }
say() { :; }
lines_of() { :; }
tries=0
serves() { tries=$((tries + 1)); [ $tries = 3 ]; }
restart_and_watch x`;
  const { status } = spawnSync("sh", ["-ec", layerScript(baseWith("layer.sh", own), "name").script]);
  expect(status).toBe(code);
});
