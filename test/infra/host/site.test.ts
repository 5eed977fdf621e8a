/** Web roots become links and folders again: the layer's own shell, as root of a namespace, with a fake systemctl. */
import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { site } from "../../../infra/host/site/site.ts";
import { rebuilt } from "../../example.ts";
import { inNamespace, missing, Root } from "./namespace.ts";

const { script } = site(rebuilt);
const reason = missing("unshare", "perl");

describe("the web root of a site", () => {
  let root: Root;
  let bin: string;
  const at = (path: string) => root.at(path);
  const run = (calls: string) =>
    inNamespace(root.moved(`${script}\nbuilder=root\n${calls}`, paths.asks, "/srv", "/etc/systemd"), bin);
  const release = (text: string) => {
    root.write(`${paths.sites}/docs/releases/1/index.html`, text);
    symlinkSync("releases/1", at(`${paths.sites}/docs/current`));
  };
  const isLink = (path: string) => lstatSync(at(path)).isSymbolicLink();

  beforeEach(({ skip }) => skip(reason !== undefined, reason));
  beforeEach(() => {
    root = new Root();
    bin = join(root.folder, "bin");
    root.write("bin/systemctl", '#!/bin/sh\necho "$@" >>"$0.log"\n', 0o755);
    mkdirSync(at("/srv/content"), { recursive: true });
    mkdirSync(at(paths.state), { recursive: true });
  });
  afterEach(() => root.remove());

  test("is made as a link where there was nothing, and the site is built", () => {
    expect(run("serve docs /srv/www /srv/content 5")).toMatchObject({ status: 0, stderr: "" });
    expect(readlinkSync(at("/srv/www"))).toBe(at(`${paths.sites}/docs/current`));
    const log = readFileSync(`${bin}/systemctl.log`, "utf8");
    expect(log).toContain("start --no-block pushgate-reconcile-docs.service");
  });

  test("moves: the former path is a folder with what was served, the new one is the link", () => {
    expect(run("serve docs /srv/www /srv/content 5").status).toBe(0);
    release("page");
    expect(run("serve docs /srv/new /srv/content 5").status).toBe(0);
    expect(isLink("/srv/www")).toBe(false);
    expect(readFileSync(at("/srv/www/index.html"), "utf8")).toBe("page");
    expect(readlinkSync(at("/srv/new"))).toBe(at(`${paths.sites}/docs/current`));
    expect(readFileSync(at(`${paths.state}/sites/docs`), "utf8")).toBe(`${at("/srv/new")}\nabsent\n`);
  });

  test("goes once its hook has no site and nothing was published, also with a name that a shell would read", () => {
    expect(run("serve former '/srv/a&b' /srv/content 5").status).toBe(0);
    expect(run("forget_others")).toMatchObject({ status: 0 });
    expect(existsSync(at("/srv/a&b"))).toBe(false);
    expect(existsSync(at(`${paths.state}/sites`))).toBe(false);
  });

  test("stays as it is where it is a link that pushgate did not make", () => {
    mkdirSync(at("/srv/other"));
    symlinkSync(at("/srv/other"), at("/srv/www"));
    expect(run("serve docs /srv/www /srv/content 5")).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`${at("/srv/www")} is a link to ${at("/srv/other")}`),
    });
    expect(readlinkSync(at("/srv/www"))).toBe(at("/srv/other"));
  });
});
