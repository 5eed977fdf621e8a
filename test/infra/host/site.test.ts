/** The site layer's shell, as root of a namespace with a fake systemctl: web roots become links, and folders again. */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { folderQuestion, scheduleQuestion, siteLayer } from "../../../infra/host/site/site.ts";
import { rebuilt } from "../../fixtures.ts";
import { inNamespace, missing, Root } from "./namespace.ts";

const { script } = siteLayer(rebuilt);
const reason = missing("unshare", "perl");

/** A start of the builder's unit compares at once: status.json is the result. */
const fakeSystemctl = `#!/bin/sh
echo "$@" >>"$0.log"
[ "$*" != "start pushgate-build@docs.service" ] || cp "\${0%/*}/status.json" ${paths.sites}/docs/status.json
`;

describe("the layer", () => {
  const { activate, facts, timeout } = siteLayer(rebuilt);

  test("serves each site with its content folder, time and kept paths, after other sites' units are gone", () => {
    expect(activate.split("\n")).toEqual([
      "remove_others",
      "builder=pushgate-build-site",
      "serve 'site' '/var/www/site' '' '1200'",
      "builder=pushgate-build-docs",
      "serve 'docs' '/home/docs/www' '/home/docs/content' '1200' '.well-known/acme-challenge'",
      'remove_other_accounts "$accounts"',
    ]);
    expect(timeout).toBe(120 + 1200 + 1200);
  });

  test("looks at each web root, content folder, target of a site, and at accounts of former sites", () => {
    expect(facts.map(({ name, read, want }) => [name, read, want])).toEqual([
      ["web root /var/www/site", "web_root 'site' '/var/www/site'", "leads to the current release of site"],
      ["web root /home/docs/www", "web_root 'docs' '/home/docs/www'", "leads to the current release of docs"],
      [
        "content folder /home/docs/content",
        "hugo=pushgate-hugo-docs\ncontent '/home/docs/content' '--groups=docs'",
        "readable",
      ],
      ...["site", "docs"].map((name) => [`pushgate-site@${name}.target is`, expect.any(String), "enabled active"]),
      ["build accounts of no site", 'other_accounts "$accounts" | grep . || echo none', "none"],
    ]);
    const [site, docs] = rebuilt.hooks;
    const { writers: _, ...without } = docs!.site!;
    const unshared = siteLayer({ ...rebuilt, hooks: [site!, { ...docs!, site: without }] });
    expect(unshared.facts[2]!.read).toMatch(/'\/home\/docs\/content' '--clear-groups'$/);
  });

  test("has the probe look at folders and schedules, each once", () => {
    const { facts: asked, script: others, ...rest } = folderQuestion(rebuilt);
    expect(rest).toEqual({ name: "folders", files: [], owns: [] });
    expect(others).toContain("\nothers_above() {");
    expect(asked).toEqual(
      ["/var/www/site", "/home/docs/www", "/home/docs/content"].map((path) => ({
        name: path,
        read: `others_above '${path}'`,
      })),
    );
    const twice = { ...rebuilt, hooks: [...rebuilt.hooks, rebuilt.hooks[1]!] };
    const schedule = "Mon..Fri 06:00";
    const read = `systemd-analyze calendar -- '${schedule}' 2>&1 | sed -n 's/^ *Next elapse: *//p'`;
    expect(scheduleQuestion(twice)).toEqual({
      ...{ name: "schedules", script: "", files: [], owns: [] },
      facts: [{ name: schedule, read }],
    });
  });
});

describe("the web root of a site", () => {
  let root: Root;
  let bin: string;
  const at = (path: string) => root.at(path);
  /** `instead`: shell in place of functions of the layer, for what would happen without them. */
  const run = (calls: string, instead = "") => {
    // The namespace has one account.
    const shell = `${script}\nbuilder=root\nas_builder() { "$@"; }\n${instead}\n${calls}`.replaceAll(
      "/usr/bin/node",
      process.execPath,
    );
    return inNamespace(root.moved(shell, paths.rootRequests, "/srv", "/etc/systemd"), bin);
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
    expect(log).toContain("start --no-block pushgate-reconcile@docs.service");
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
    const compared = (files: string[], status: object = { adoption: { files, more: 0 } }) => {
      root.write("/srv/www/index.html", "former");
      root.write("/srv/www/uploads/photo", "photo");
      mkdirSync(at(`${paths.sites}/docs`), { recursive: true });
      mkdirSync(at(`${paths.rootRequests}/docs`), { recursive: true });
      root.write("bin/status.json", JSON.stringify({ last: { kinds: ["adopt"], reason: "Hugo failed" }, ...status }));
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

    test("stays if the release would lose more files than the builder lists", () => {
      const { status, stderr } = compared([], { adoption: { files: [], more: 2 } });
      expect(status).toBe(1);
      expect(stderr).toContain(`${at("/srv/www")} holds 2 files that the build does not make`);
      expect(stderr).toContain("\nsite:   and 2 more\n");
      expect(isLink("/srv/www")).toBe(false);
    });

    test("stays if the builder made nothing to compare, and the error has the builder's reason", () => {
      const { status, stderr } = compared([], {});
      expect(status).toBe(1);
      expect(stderr).toContain("stays a folder, as the builder has made nothing to replace it: Hugo failed");
      expect(isLink("/srv/www")).toBe(false);
    });

    test("stays if a program writes a file during the copy", () => {
      root.write(
        "bin/tar",
        `#!/bin/sh\n/bin/tar "$@"\n[ "$1" != --create ] || echo late >>${at("/srv/www/uploads/photo")}\n`,
        0o755,
      );
      const { status, stderr } = compared([]);
      expect(status).toBe(1);
      expect(stderr).toContain("a program wrote uploads/photo into");
      expect(isLink("/srv/www")).toBe(false);
      expect(readFileSync(at("/srv/www/uploads/photo"), "utf8")).toMatch(/^photo(late\n)+$/);
      // Nothing of the attempt is left: neither the release, nor what was kept, nor a folder beside the web root.
      expect(readdirSync(at(`${paths.sites}/docs/releases`))).toEqual([]);
      expect(readdirSync(at(`${paths.sites}/docs/kept`))).toEqual([]);
      expect(readdirSync(at(`${paths.sites}/docs`)).sort()).toEqual(["kept", "releases", "status.json", "work"]);
      expect(readdirSync(at(paths.sites))).toEqual(["docs"]);
      expect(readdirSync(at("/srv")).sort()).toEqual(["content", "www"]);
      expect(existsSync(at(`${paths.state}/sites`))).toBe(false);
    });

    test("becomes the first release, with the kept paths beside the releases", () => {
      expect(compared([])).toMatchObject({ status: 0 });
      expect(readlinkSync(at("/srv/www"))).toBe(at(`${paths.sites}/docs/current`));
      expect(readlinkSync(at(`${paths.sites}/docs/current`))).toBe("releases/000001-adopted");
      expect(readFileSync(at("/srv/www/index.html"), "utf8")).toBe("former");
      expect(isLink("/srv/www/uploads")).toBe(true);
      expect(readFileSync(at("/srv/www/uploads/photo"), "utf8")).toBe("photo");
      expect(readdirSync(at(paths.sites))).toEqual(["docs"]);
      expect(readdirSync(at("/srv")).sort()).toEqual(["content", "www"]);
    });

    test("becomes a release and a folder again where no call exchanges two paths", () => {
      root.write("bin/perl", "#!/bin/sh\nexit 1\n", 0o755);
      expect(compared([])).toMatchObject({ status: 0, stderr: expect.stringContaining("cannot exchange two paths") });
      expect(isLink("/srv/www")).toBe(true);
      expect(run("give_back docs")).toMatchObject({ status: 0 });
      expect(readFileSync(at("/srv/www/index.html"), "utf8")).toBe("former");
      expect(readFileSync(at("/srv/www/uploads/photo"), "utf8")).toBe("photo");
      expect(readdirSync(at("/srv")).sort()).toEqual(["content", "www"]);
    });

    test("stays if a file cannot be read by every account, and the error says what to do", () => {
      root.write(
        "bin/tar",
        '#!/bin/sh\n[ "$1" != --extract ] || exec /bin/tar "$@"\n/bin/tar "$@"\necho "tar: ./closed: Cannot open: Permission denied" >&2\nexit 2\n',
        0o755,
      );
      const { status, stderr } = compared([]);
      expect(status).toBe(1);
      expect(stderr).toMatch(/\.\/closed: Cannot open[\s\S]*Run chmod -R a\+rX on them, or name them in `site\.keep`/);
      expect(isLink("/srv/www")).toBe(false);
      expect(readdirSync(at(`${paths.sites}/docs/releases`))).toEqual([]);
    });

    test("stays if another folder takes its place while it is copied", () => {
      root.write(
        "bin/sync",
        `#!/bin/sh
[ "$1" != -f ] || [ -e ${at("/srv/aside")} ] || { mv ${at("/srv/www")} ${at("/srv/aside")} && mkdir ${at("/srv/www")}; }
`,
        0o755,
      );
      const { status, stderr } = compared([]);
      expect(status).toBe(1);
      expect(stderr).toContain("a program wrote another folder into");
      expect(isLink("/srv/www")).toBe(false);
      expect(existsSync(at("/srv/aside/index.html"))).toBe(true);
    });
  });

  /** The namespace has one account: a folder that every account can write belongs to the attacker. */
  describe("in a folder that another account can write", () => {
    const victim = () => readdirSync(at("/victim"));
    beforeEach(() => {
      mkdirSync(at("/srv/open/site"), { recursive: true });
      chmodSync(at("/srv/open"), 0o777);
      mkdirSync(at("/victim"));
    });

    test("a link on the way to the web root is rejected, and would lead root elsewhere if root followed it", () => {
      rmdirSync(at("/srv/open/site"));
      symlinkSync(at("/victim"), at("/srv/open/site"));
      const serve = "serve docs /srv/open/site/www /srv/content 5";
      expect(run(serve)).toMatchObject({
        status: 1,
        stderr: expect.stringContaining(`${at("/srv/open")}/site is a link that the account`),
      });
      expect(victim()).toEqual([]);
      expect(run(serve, 'enter() { cd -- "$1"; }').status).toBe(0);
      expect(victim()).toEqual(["www"]);
    });

    test("a link that root made in its own folder is followed", () => {
      symlinkSync("open/site", at("/srv/alias"));
      expect(run("serve docs /srv/alias/www /srv/content 5")).toMatchObject({ status: 0, stderr: "" });
      expect(isLink("/srv/open/site/www")).toBe(true);
    });

    test("a folder that is exchanged for a link right after root looked is noticed, and would be entered without the second look", () => {
      root.write(
        "bin/stat",
        `#!/bin/sh
/usr/bin/stat "$@"
case $* in *"-- ./site") mv ${at("/srv/open/site")} ${at("/srv/open/aside")} && ln -s ${at("/victim")} ${at("/srv/open/site")} ;; esac
`,
        0o755,
      );
      const serve = "serve docs /srv/open/site/www /srv/content 5";
      expect(run(serve)).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("was exchanged for another folder"),
      });
      expect(victim()).toEqual([]);
      rmSync(at("/srv/open/site"));
      renameSync(at("/srv/open/aside"), at("/srv/open/site"));
      const second = ' && [ "$(stat -c \'%F %d:%i\' .)" = "$found" ]';
      expect(script).toContain(second);
      expect(run(serve, script!.replace(second, "")).status).toBe(0);
      expect(victim()).toEqual(["www"]);
    });

    test("a missing folder is not made, as it would be the account's to make", () => {
      expect(run("serve docs /srv/open/site/more/www /srv/content 5").status).toBe(0);
      expect(readFileSync(at(`${paths.state}/made`), "utf8")).toBe(`${at("/srv/open/site/more")}\n`);
      expect(run("serve docs /srv/open/more/www /srv/content 5")).toMatchObject({
        status: 1,
        stderr: expect.stringContaining(`${at("/srv/open")}/more is missing. Make it as the account`),
      });
      expect(readdirSync(at("/srv/open"))).toEqual(["site"]);
    });

    test("a link in place of root's copy gets nothing when the folder is given back, and would get the site", () => {
      expect(run("serve docs /srv/open/www /srv/content 5").status).toBe(0);
      release("page");
      // The former name of the copy, which root removed and made again.
      const plant = `plant() { ln -s "${at("/victim")}" /srv/open/www.pushgate-new; }`;
      const former = `give_back() {
        rm -rf -- /srv/open/www.pushgate-new && plant
        cp -a -- ${paths.sites}/docs/current/. /srv/open/www.pushgate-new
      }`;
      expect(run("plant\ngive_back docs", plant).status).toBe(0);
      expect(victim()).toEqual([]);
      expect(readFileSync(at("/srv/open/www/index.html"), "utf8")).toBe("page");
      rmSync(at("/srv/open/www.pushgate-new"));
      run("give_back docs", `${plant}\n${former}`);
      expect(victim()).toEqual(["index.html"]);
    });

    test("a folder that takes the link's place while root copies stays, and root's copy goes", () => {
      expect(run("serve docs /srv/open/www /srv/content 5").status).toBe(0);
      release("page");
      const swap = "sync() { rm -f /srv/open/www && mkdir /srv/open/www && echo own >/srv/open/www/own; }";
      expect(run("give_back docs", swap)).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("is no longer pushgate's link"),
      });
      expect(readdirSync(at("/srv/open/www"))).toEqual(["own"]);
      expect(readdirSync(at("/srv/open")).sort()).toEqual(["site", "www"]);
    });
  });

  test("an interrupted copy beside the web root is removed, and the former folder is kept and reported", () => {
    root.write("/srv/.www.pushgate-aaaaaa/new/half", "copy");
    root.write("/srv/.www.pushgate-bbbbbb/former/page", "former");
    for (const name of ["aaaaaa", "bbbbbb"]) chmodSync(at(`/srv/.www.pushgate-${name}`), 0o700);
    expect(run("serve docs /srv/www /srv/content 5")).toMatchObject({
      status: 0,
      stderr: expect.stringContaining(".www.pushgate-bbbbbb holds what an interrupted `pulumi up` replaced."),
    });
    expect(readdirSync(at("/srv")).sort()).toEqual([".www.pushgate-bbbbbb", "content", "www"]);
  });
});
