/** The site layer's shell, as root of a namespace with a fake systemctl: web roots become links, and folders again. */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { foldersOfSites, scheduleQuestion, siteLayer } from "../../../infra/host/site/site.ts";
import { rebuilt, serving } from "../../fixtures.ts";
import { inNamespace, needs, Root } from "./namespace.ts";

const { script } = siteLayer(rebuilt);

test("the probe looks whether a served folder is fit, each folder has its key, and each schedule is there once", () => {
  const folders = foldersOfSites(serving(rebuilt, { folders: { downloads: "/srv/downloads" } }));
  expect(folders.map(({ key }) => key)).toEqual([
    ...["webRoot", "content", "folders.downloads"].map((key) => `hooks[0].site.${key}`),
    ...["webRoot", "content", "writers"].map((key) => `hooks[1].site.${key}`),
  ]);
  const read = "served_folder '/srv/downloads' 'pushgate-nginx'";
  expect(folders[2]).toMatchObject({ path: "/srv/downloads", read });
  const twice = { ...rebuilt, hooks: [...rebuilt.hooks, rebuilt.hooks[1]!] };
  expect(scheduleQuestion(twice).facts.map(({ name }) => name)).toEqual(["Mon..Fri 06:00"]);
});

let root: Root;
const at = (path: string) => root.at(path);
const current = () => at(`${paths.sites}/docs/current`);
const run = (calls: string, text = script!) =>
  inNamespace(root.moved(`${text}\n${calls}`, "/srv", "/etc/systemd"), at("bin"));
const without = (words: string, instead = "") => {
  expect(script).toContain(words);
  return script!.replace(words, instead);
};
const release = (text: string) => {
  root.write(`${paths.sites}/docs/releases/000001-abc/index.html`, text);
  symlinkSync("releases/000001-abc", current());
};
const fails = (says: string) => ({ status: 1, stderr: expect.stringContaining(says) });

needs("unshare", "perl");
beforeEach(() => {
  root = new Root();
  root.write("bin/systemctl", '#!/bin/sh\necho "$@" >>"$0.log"\n', 0o755);
  // Every account can write a folder of temporary files, in which this root is.
  const open = `(${tmpdir()}|${dirname(tmpdir())})`;
  root.write("bin/find", `#!/bin/sh\n/usr/bin/find "$@" | grep -vxE '${open}'\n`, 0o755);
  for (const folder of ["/srv", paths.state, paths.sites]) mkdirSync(at(folder), { recursive: true });
});

test("a group that the host lacks is one fault, with or without a folder of content", () => {
  const { stdout } = run(`group root\ngroup missing\ncontent_folder /usr generator --groups=missing`);
  const fault = "a group that the host lacks. Run groupadd missing on it, or correct the name.";
  expect(stdout.split("\n")).toEqual(["fit", fault, "fit"]);
});

test("a web root becomes a link if the path was free, with the folders above; the site is built once; the link moves, and is corrected", () => {
  const calls = ["more/www", "more/www", "new"].map((path) => `serve docs /srv/${path}`);
  expect(run(calls.join("\n")).status).toBe(0);
  expect([readdirSync(at("/srv/more")), readlinkSync(at("/srv/new"))]).toEqual([[], current()]);
  expect(readFileSync(at(`${paths.state}/made`), "utf8")).toBe(`${at("/srv/more")}\n`);
  expect(readFileSync(at(`${paths.state}/sites/docs`), "utf8")).toBe(`${at("/srv/new")}\n`);
  const built = readFileSync(`${at("bin")}/systemctl.log`, "utf8").match(/start --no-block .*/g);
  // The first time, and at the new path.
  expect(built).toEqual(Array(2).fill("start --no-block pushgate-reconcile@docs.service"));
  rmSync(at("/srv/new"));
  symlinkSync(`${at(paths.sites)}/docs/releases/000001-abc`, at("/srv/new"));
  expect([run("serve docs /srv/new").status, readlinkSync(at("/srv/new"))]).toEqual([0, current()]);
});

test.each<[string, () => void]>([
  ["a folder", () => root.write("/srv/www/index.html", "former")],
  ["a link that pushgate did not make", () => symlinkSync("/srv/other", at("/srv/www"))],
])("a web root stays %s, and the error has the command that moves it away", (_, make) => {
  make();
  const www = at("/srv/www");
  expect(run("serve docs /srv/www")).toMatchObject(
    fails(`${www} is taken, and pushgate makes its own link there. Run mv ${www} ${www}.former on the host.`),
  );
  expect(existsSync(at(`${paths.state}/sites`))).toBe(false);
});

test("a web root is made in no folder that another account can write, which could lead root elsewhere", () => {
  for (const folder of ["/srv/open", "/victim"]) mkdirSync(at(folder));
  symlinkSync(at("/victim"), at("/srv/open/site"));
  chmodSync(at("/srv/open"), 0o777);
  const open = "serve docs /srv/open/site/www";
  expect(run(open)).toMatchObject(
    fails(`is below ${at("/srv/open")} (drwxrwxrwx root:root), which accounts other than root can write. Use a path`),
  );
  expect(readdirSync(at("/victim"))).toEqual([]);
  expect(run(open, `${script}\nwritten_by_others() { :; }`).status).toBe(0);
  expect(readdirSync(at("/victim"))).toEqual(["www"]);
});

describe("a web root whose site leaves", () => {
  beforeEach(() => {
    symlinkSync(current(), at("/srv/a&b"));
    root.write(`${paths.state}/sites/docs`, `${at("/srv/a&b")}\n`);
    mkdirSync(at(`${paths.sites}/docs`));
  });
  const left = () => [existsSync(at(`${paths.state}/sites`)), existsSync(at(`${paths.sites}/docs`))];

  test("is gone if nothing was published, also with a name that a shell would expand", () => {
    expect(run("remove_others", without("site docs", "site"))).toMatchObject({ status: 0, stderr: "" });
    expect(readdirSync(at("/srv"))).toEqual([]);
    expect(left()).toEqual([false, false]);
  });

  test("becomes the release itself, not a copy, which root can write", () => {
    release("page");
    const folder = at(`${paths.sites}/docs/releases/000001-abc`);
    chmodSync(join(folder, "index.html"), 0o4444);
    chmodSync(folder, 0o555);
    const before = [folder, join(folder, "index.html")].map((path) => statSync(path).ino);
    expect(run("retire")).toMatchObject({ status: 0, stderr: expect.stringContaining("is a folder now") });
    const now = ["/srv/a&b", "/srv/a&b/index.html"].map((path) => lstatSync(at(path)));
    expect(now.map(({ ino }) => ino)).toEqual(before);
    expect(now.map(({ mode }) => (mode & 0o7777).toString(8))).toEqual(["755", "644"]);
    expect(readdirSync(at("/srv"))).toEqual(["a&b"]);
    expect(left()).toEqual([false, false]);
  });

  test("becomes a copy on another file system", () => {
    release("page");
    const other = 'case $* in "-c %d -- "*/srv) echo 1 ;; *) exec /usr/bin/stat "$@" ;; esac';
    root.write("bin/stat", `#!/bin/sh\n${other}\n`, 0o755);
    expect(run("give_back docs").status).toBe(0);
    expect(readFileSync(at("/srv/a&b/index.html"), "utf8")).toBe("page");
    expect(existsSync(at(`${paths.sites}/docs/releases/000001-abc`))).toBe(true);
  });

  test("becomes the release after a removal that was killed before or after it moved the release", () => {
    release("page");
    root.write("/srv/.a&b.pushgate-new/half", "copy");
    expect(run("retire", without("perl -e", "exit 1 #")).status).toBe(1);
    expect([lstatSync(at("/srv/a&b")).isSymbolicLink(), existsSync(current())]).toEqual([true, false]);
    expect(run("retire").status).toBe(0);
    expect(readdirSync(at("/srv/a&b"))).toEqual(["index.html"]);
  });

  test("becomes no folder that the builder's account put in place of a release; it would without the look", () => {
    root.write("/victim/000001-abc/secret", "secret");
    symlinkSync(at("/victim"), at(`${paths.sites}/docs/releases`));
    symlinkSync("releases/000001-abc", current());
    const look = '[ ! -L "$site/releases" ] && ';
    expect(run("give_back docs").status).toBe(0);
    expect(readdirSync(at("/srv"))).toEqual([]);
    symlinkSync(current(), at("/srv/a&b"));
    expect(run("give_back docs", without(look)).status).toBe(0);
    expect(readdirSync(at("/srv/a&b"))).toEqual(["secret"]);
  });

  test("stays if another account can write above it by now", () => {
    release("page");
    chmodSync(at("/srv"), 0o777);
    expect(run("retire")).toMatchObject(fails(`is below ${at("/srv")}, which accounts other than root can write.`));
    expect(readFileSync(at("/srv/a&b/index.html"), "utf8")).toBe("page");
  });

  test("stays if it is no longer pushgate's link", () => {
    rmSync(at("/srv/a&b"));
    root.write("/srv/a&b/own", "own");
    expect(run("retire")).toMatchObject({ status: 0, stderr: "" });
    expect(readdirSync(at("/srv/a&b"))).toEqual(["own"]);
    expect(left()).toEqual([false, false]);
  });
});
