/**
 * A site whose content is in its repository, in a folder, with a theme as a submodule and a schedule. The tests run on one
 * host, in this order.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import type { Files } from "../../fakes/git-repository.ts";
import type { Host } from "../lab/host.ts";
import { deployedRebuild } from "./deployed.ts";
import { page, siteFiles } from "./site.ts";
import { idle, nextResult, published, statusOf, timersBegin, timersEnd } from "./status.ts";
import type { Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;

beforeAll(async () => {
  rebuild = await deployedRebuild("owncontent");
  ({ host } = rebuild);
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

const timer = units.scheduleTimer("site");
const timers = () => host.read("systemctl list-timers --all --no-legend 'pushgate-schedule@*'");
const inFolder = (files: Files) =>
  Object.fromEntries(Object.entries(files).map(([path, file]) => [`web/${path}`, file]));

test("up moves the site there, without the units of a content folder, and the builder publishes it without a push", async () => {
  await idle(host);
  const theme = rebuild.git.repository("example/plain").push({ "layouts/partials/theme.html": "theme-of-a-submodule" });
  const { "themes/plain/layouts/partials/theme.html": _, ...files } = siteFiles("in-folder");
  const former = Object.keys({ ...siteFiles(), ...files }).map((path) => [path, null]);
  const commit = rebuild.repositories.site.push({
    ...Object.fromEntries(former),
    ...inFolder({
      ...files,
      "hugo.toml": `contentDir = "texts"\n${files["hugo.toml"]}`,
      "texts/_index.md": page("Home"),
      "texts/posts/first.md": page("First"),
    }),
    "web/themes/plain": { submodule: theme },
    ".gitmodules": '[submodule "plain"]\n\tpath = web/themes/plain\n\turl = ../plain.git\n',
  });
  rebuild.configure("site", { content: undefined, folder: "web", schedule: "Mon *-01-01 05:00" });
  await rebuild.up();
  expect(await host.read(`ls -d ${paths.units}/${units.content("site")}.d 2>/dev/null || :`)).toBe("");
  await rebuild.request("tick");
  const { last } = await published(host, commit, { timeout: 60_000 });
  expect(last!.reason).toMatch(/^site\.folder was not set for 0/);
  const { body } = await rebuild.visit();
  for (const words of ["layout-in-folder", "theme-of-a-submodule", "/posts/first/"]) expect(body).toContain(words);
});

test("a pushed post is published, and a push outside the site's folder builds nothing", async () => {
  const commit = await rebuild.push({ "web/texts/posts/second.md": page("Second", "pushed words") });
  const { last } = await published(host, commit);
  expect(last!.reason).toBe("changed: web/texts/posts/second.md");
  expect((await rebuild.visit("/posts/second/")).body).toContain("pushed words");
  await idle(host);
  const before = statusOf(host)!;
  const other = await rebuild.push({ "README.md": "Another.\n", "content/x.md": page("X"), "static/x.css": "" });
  const status = await nextResult(host, before, "nothing");
  expect(status).toMatchObject({ head: other, deployed: before.deployed });
  expect(status.last!.reason).toContain("nothing of the content or site.paths");
});

test("the timer publishes a post whose date has come, and makes no release while nothing changes", async () => {
  // A minute after boot the other timer's request would join the schedule's.
  await timersEnd(host);
  await idle(host);
  // The first build, and the schedule's that changes nothing, must come before the date: ten builds' time.
  const began = performance.now();
  await published(host, await rebuild.push({ "web/texts/posts/now.md": page("Now") }), { timeout: 60_000 });
  await idle(host);
  const soon = new Date(Date.now() + Math.max(15_000, 10 * (performance.now() - began)));
  const post = `---\ntitle: Later\ndate: ${soon.toISOString()}\n---\nwords of the future\n`;
  const commit = await rebuild.push({ "web/texts/posts/later.md": post });
  const first = await published(host, commit);
  expect((await rebuild.visit("/posts/later/")).status).toBe(404);
  // The declared units, with another time.
  await host.writeFile(`/run/systemd/system/${timer}.d/soon.conf`, "[Timer]\nOnCalendar=*:*:0/2\n");
  await host.inside(`systemctl daemon-reload && systemctl restart ${timer}`);
  const same = await nextResult(host, first, "nothing");
  expect(same.last).toMatchObject({
    trigger: ["schedule"],
    reason: expect.stringContaining("scheduled: the build is the same"),
  });
  expect(same.releases).toEqual(first.releases);
  const status = await nextResult(host, same, "published", { timeout: 120_000 });
  await host.inside(`rm -r /run/systemd/system/${timer}.d && systemctl daemon-reload && systemctl restart ${timer}`);
  await timersBegin(host);
  expect(status).toMatchObject({ deployed: { commit }, last: { reason: "scheduled" } });
  expect((await rebuild.visit("/posts/later/")).body).toContain("words of the future");
});

test("up rejects a schedule that never comes again, before it changes anything", async () => {
  rebuild.configure("site", { schedule: "Mon 2020-01-06" });
  const rejected = await rebuild.world.stack.up();
  expect(rejected.code).toBe(1);
  expect(rejected.stdout + rejected.stderr).toContain('the schedule "Mon 2020-01-06" never comes again.');
  expect(await timers()).toContain(timer);
});

test("preview prints a manual change of the timer, and up removes the timer of a schedule that is dropped", async () => {
  rebuild.configure("site", { schedule: "Mon *-01-01 05:00" });
  await host.inside(`sed -i s/05:00/04:00/ ${paths.units}/${timer}.d/site.conf && systemctl stop ${timer}`);
  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(7);
  const said = preview.diagnostics.map(({ message }) => message).join("\n");
  expect(said).toContain("- OnCalendar=Mon *-01-01 04:00");
  expect(said).toContain(
    `units of ${units.site("site")} that are not active: declared is "none", the host reports "${timer}"`,
  );
  await host.inside(`systemctl start ${timer}`);
  rebuild.configure("site", { schedule: undefined });
  await rebuild.up();
  expect(await timers()).toBe("");
  expect(await host.read("find /etc/systemd /var/lib/systemd/timers -name '*pushgate-schedule@site*'")).toBe("");
});
