/** How a layer's files are made of templates, and where systemd looks for drop-ins. */
import { execFileSync, spawnSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { file, layerOf, layerScript, template } from "../../../infra/host/kit.ts";
import { Root } from "./namespace.ts";

/** The `base` of a layer whose folder has these files. */
function baseWith(files: Readonly<Record<string, string>>): string {
  const root = new Root();
  onTestFinished(() => root.remove());
  for (const [name, text] of Object.entries(files)) root.write(name, text);
  return pathToFileURL(root.at("layer.ts")).href;
}

const filled = (text: string, values: Parameters<typeof template>[2]): string =>
  template(baseWith({ unit: text }), "unit", values);

test("a line that is a placeholder goes when its value is empty, and any other line stays", () => {
  expect(filled("a @one@ b\n@two@\n@gone@\nend @gone@\n", { one: "1", two: "2\n3", gone: "" })).toBe(
    "a 1 b\n2\n3\nend \n",
  );
  // A value may hold what looks like one.
  expect(filled("@path@ @path@\n", { path: "/srv/@web@" })).toBe("/srv/@web@ /srv/@web@\n");
});

test("a placeholder without a value, and a value without a place, are mistakes", () => {
  expect(() => filled("@one@\n", {})).toThrow("unit: @one@ has no value");
  expect(() => filled("text\n", { one: "1", two: "" })).toThrow("unit has no place for one, two");
});

test("a layer's script has its values and its own text at the end", () => {
  const { script, functions } = layerScript(baseWith({ "layer.sh": "own\n" }), "name", { one: "it's" });
  for (const line of ["layer='name'", "units='/etc/systemd/system'", "one='it'\\''s'"])
    expect(script.split("\n")).toContain(line);
  expect(script).toMatch(/\nown\n$/);
  expect(script.endsWith(`\n${functions}`)).toBe(true);
  expect(functions).not.toContain("one='it");
});

test("a layer owns its files and the drop-ins of its units, and its steps are functions of its script", () => {
  const base = baseWith({ "layer.sh": "activate() {\n:\n}\n" });
  const files = [file("/etc/systemd/system/a.service", "a"), file("/etc/other.conf", "b")];
  const { script, functions: _, ...layer } = layerOf(base, "name", { files, facts: [] });
  const before = ["/etc/systemd/system.control", "/run/systemd/system.control"];
  const after = ["/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"];
  expect(layer).toEqual({
    ...{ name: "name", files, facts: [], timeout: 60 },
    ...{ activate: "activate", reactivate: "reactivate", retire: "retire" },
    owns: [
      ...["/etc/systemd/system/a.service", "/etc/other.conf"],
      ...["/etc/systemd/system", ...before, ...after].map((folder) => `${folder}/a.service.d/*.conf`),
      ...before.map((folder) => `${folder}/a.service`),
    ],
  });
  const steps = (text = "") =>
    execFileSync("sh", ["-ec", `${text}\nactivate\nreactivate\nretire`], { encoding: "utf8" });
  expect(steps(script)).toBe("");
  expect(steps(`${script}\nretire() { echo own; }`)).toBe("own\n");
  expect(layerOf(base, "name", { facts: [] })).toMatchObject({ files: [], owns: [] });
  const more = { owns: ["/x"], timeout: 5 };
  expect(layerOf(base, "name", { files, facts: [], ...more })).toMatchObject(more);
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
  const { status } = spawnSync("sh", ["-ec", layerScript(baseWith({ "layer.sh": own }), "name").script]);
  expect(status).toBe(code);
});
