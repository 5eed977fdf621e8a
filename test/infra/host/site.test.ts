/** The site layer's shell, as root of a namespace with a fake systemctl: web roots become links, and folders again. */
import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { siteLayer } from "../../../infra/host/site/site.ts";
import { rebuilt } from "../../fixtures.ts";
import { inNamespace, missing, Root } from "./namespace.ts";

const { script } = siteLayer(rebuilt);
const reason = missing("unshare", "perl");

/** A start of the builder's unit compares at once: status.json is the result. */
const fakeSystemctl = `#!/bin/sh
echo "$@" >>"$0.log"
[ "$*" != "start pushgate-build-docs.service" ] || cp "\${0%/*}/status.json" ${paths.sites}/docs/status.json
`;

describe("the web root of a site", () => {
  let root: Root;
  let bin: string;
  const at = (path: string) => root.at(path);
  const run = (calls: string) => {
    const shell = `${script}\nbuilder=root\n${calls}`.replaceAll("/usr/bin/node", process.execPath);
    return inNamespace(root.moved(shell, paths.requests, "/srv", "/etc/systemd"), bin);
  };
  const release = (text: string) => {
    root.write(`${paths.sites}/docs/releases/1/index.html`, text);
    symlinkSync("releases/1", at(`${paths.sites}/docs/current`));
  };
  const isLink = (path: string) => lstatSync(at(path)).isSymbolicLink();

  beforeEach(({ skip }) => {
    root = new Root();
    skip(reason !== undefined, reason);
    bin = join(root.folder, "bin");
    root.write("bin/systemctl", root.moved(fakeSystemctl), 0o755);
    mkdirSync(at("/srv/content"), { recursive: true });
    mkdirSync(at(paths.state), { recursive: true });
  });
  afterEach(() => root.remove());

  test("becomes a link if the path was free, and the site is built", () => {
    expect(run("serve docs /srv/www /srv/content 5")).toMatchObject({ status: 0, stderr: "" });
    expect(readlinkSync(at("/srv/www"))).toBe(at(`${paths.sites}/docs/current`));
    const log = readFileSync(`${bin}/systemctl.log`, "utf8");
    expect(log).toContain("start --no-block pushgate-reconcile-docs.service");
  });

  test("moves: the former path becomes a folder with the served files, the new one the link", () => {
    expect(run("serve docs /srv/www /srv/content 5").status).toBe(0);
    release("page");
    expect(run("serve docs /srv/new /srv/content 5").status).toBe(0);
    expect(isLink("/srv/www")).toBe(false);
    expect(readFileSync(at("/srv/www/index.html"), "utf8")).toBe("page");
    expect(readlinkSync(at("/srv/new"))).toBe(at(`${paths.sites}/docs/current`));
    expect(readFileSync(at(`${paths.state}/sites/docs`), "utf8")).toBe(`${at("/srv/new")}\nabsent\n`);
  });

  test("is removed if its hook has no site and published nothing, also with a name that a shell would expand", () => {
    expect(run("serve former '/srv/a&b' /srv/content 5").status).toBe(0);
    expect(run("remove_others")).toMatchObject({ status: 0 });
    expect(existsSync(at("/srv/a&b"))).toBe(false);
    expect(existsSync(at(`${paths.state}/sites`))).toBe(false);
  });

  test("stays a link that pushgate did not make", () => {
    mkdirSync(at("/srv/other"));
    symlinkSync(at("/srv/other"), at("/srv/www"));
    expect(run("serve docs /srv/www /srv/content 5")).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`${at("/srv/www")} is a link to ${at("/srv/other")}`),
    });
    expect(readlinkSync(at("/srv/www"))).toBe(at("/srv/other"));
  });

  describe("that is a folder", () => {
    const compared = (files: string[]) => {
      root.write("/srv/www/index.html", "former");
      root.write("/srv/www/uploads/photo", "photo");
      mkdirSync(at(`${paths.sites}/docs`), { recursive: true });
      mkdirSync(at(`${paths.requests}/docs`), { recursive: true });
      root.write("bin/status.json", JSON.stringify({ last: { kinds: ["adopt"] }, adoption: { files, more: 0 } }));
      return run("serve docs /srv/www /srv/content 5 uploads");
    };

    test("stays if the release would lose files, and the error lists them", () => {
      const { status, stderr } = compared(["left\nover.html"]);
      expect(status).toBe(1);
      expect(stderr).toContain(`${at("/srv/www")} holds 1 files that the build does not make and site.keep does not`);
      expect(stderr).toContain("\nsite:   left?over.html\n");
      expect(readFileSync(at("/srv/www/index.html"), "utf8")).toBe("former");
      expect(isLink("/srv/www")).toBe(false);
    });

    test("stays if a program writes a file during the copy", () => {
      root.write(
        "bin/cp",
        `#!/bin/sh\n/bin/cp "$@"\n[ "$1" != -a ] || echo late >>${at("/srv/www/uploads/photo")}\n`,
        0o755,
      );
      const { status, stderr } = compared([]);
      expect(status).toBe(1);
      expect(stderr).toContain("a program wrote uploads/photo into");
      expect(isLink("/srv/www")).toBe(false);
      expect(readFileSync(at("/srv/www/uploads/photo"), "utf8")).toBe("photolate\n");
    });

    test("becomes the first release, with the kept paths beside the releases", () => {
      expect(compared([])).toMatchObject({ status: 0 });
      expect(readlinkSync(at("/srv/www"))).toBe(at(`${paths.sites}/docs/current`));
      expect(readlinkSync(at(`${paths.sites}/docs/current`))).toBe("releases/000001-adopted");
      expect(readFileSync(at("/srv/www/index.html"), "utf8")).toBe("former");
      expect(isLink("/srv/www/uploads")).toBe(true);
      expect(readFileSync(at("/srv/www/uploads/photo"), "utf8")).toBe("photo");
    });
  });
});
