/** How a layer's files are made of templates, and where systemd looks for drop-ins. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import {
  enabledAndActive,
  file,
  layerOf,
  layerScript,
  oneshotLayer,
  program,
  template,
  unitFile,
} from "../../../infra/host/kit.ts";

/** The `base` of a layer whose folder has these files. */
function baseWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-kit-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return pathToFileURL(join(folder, "layer.ts")).href;
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

test("a file is root's and public, a program can be run and is checked, a unit is a filled template", () => {
  const root = { path: "/etc/x", text: "text", mode: "0644", owner: "root:root" } as const;
  expect(file("/etc/x", "text")).toEqual(root);
  expect(file("/etc/x", "text", { mode: "0600", check: "true" })).toEqual({ ...root, mode: "0600", check: "true" });
  expect(program("/etc/x", "text")).toEqual({ ...root, mode: "0755", check: 'sh -n "$1"' });
  const base = baseWith({ "a.service": "a @one@\n", "b.service": "b @one@\n" });
  expect(unitFile(base, "a.service", { one: "1" })).toEqual(file("/etc/systemd/system/a.service", "a 1\n"));
  expect(unitFile(base, "a.service", { one: "1" }, "b.service").text).toBe("b 1\n");
});

test("the fact of a unit is systemd's answer, whether it is enabled and active", () => {
  expect(enabledAndActive("a.timer")).toEqual({
    about: "a.timer",
    name: "a.timer is",
    read: 'echo "$(systemctl is-enabled a.timer 2>/dev/null) $(systemctl is-active a.timer)"',
    want: "enabled active",
  });
});

test("a layer's script has its values, what all layers share, and then its own text", () => {
  const script = layerScript(baseWith({ "layer.sh": "own\n" }), "name", { one: "it's" }, ["oneshot.sh"]);
  expect(script).toMatch(/^layer='name'\n/);
  expect(script).toContain("units='/etc/systemd/system'\n");
  expect(script).toContain("one='it'\\''s'\n");
  expect(script.indexOf("\nactivate() {")).toBeGreaterThan(script.indexOf("one='"));
  expect(script).toMatch(/\nown\n$/);
  expect(layerScript(baseWith({ "layer.sh": "own\n" }), "name")).not.toContain("\nactivate() {");
});

test("a layer owns its files and the drop-ins of its units, and its steps are functions of its script", () => {
  const base = baseWith({ "layer.sh": "activate() {\n:\n}\n" });
  const files = [file("/etc/systemd/system/a.service", "a"), file("/etc/other.conf", "b")];
  const { script, ...layer } = layerOf(base, "name", { files, facts: [] });
  const folders = ["/etc/systemd/system", "/etc/systemd/system.control", "/run/systemd/system"];
  expect(layer).toEqual({
    ...{ name: "name", files, facts: [], timeout: 60 },
    ...{ activate: "activate", reactivate: "reactivate", retire: "retire" },
    owns: [
      ...["/etc/systemd/system/a.service", "/etc/other.conf"],
      ...[...folders, "/run/systemd/system.control"].map((folder) => `${folder}/a.service.d/*.conf`),
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

test("a layer of one unit has the steps of all such layers", () => {
  const base = baseWith({ "layer.sh": "own\n" });
  const values = { unit: "a.service", needs: "" };
  const { script } = oneshotLayer(base, "name", { values, facts: [] });
  for (const step of ["activate", "reactivate", "retire"])
    expect(script!.lastIndexOf(`\n${step}() {`)).toBeGreaterThan(script!.indexOf("take_out"));
  expect(oneshotLayer(base, "name", { values, facts: [], reactivate: "other" }).reactivate).toBe("other");
});
