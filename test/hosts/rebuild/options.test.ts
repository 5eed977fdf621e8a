/**
 * What the configuration adds to a published site: its folder in the repository and a schedule; results at the git host,
 * through the reporter's unit; metrics as docs/metrics.md says to serve them. The tests run on one host, in this order.
 */
import { describe, expect, test } from "vitest";
import { builderUser, generatorUser, paths, reporterUser, units } from "../../../infra/host/paths.ts";
import { metricsGroup } from "../../../infra/host/receiver/receiver.ts";
import { folderOf } from "../../../service/builder/run/previews.ts";
import { pushPayload } from "../../fakes/deliveries.ts";
import type { Files } from "../../fakes/git-repository.ts";
import { socketOfSite } from "../attackers.ts";
import { until } from "../lab/process.ts";
import { type Answer, zoneName } from "../world.ts";
import { deployedRebuild } from "./deployed.ts";
import { startPrometheus, valuesOf } from "./prometheus.ts";
import { front, page, siteFiles } from "./site.ts";
import { idle, nextResult, published, statusOf, timersEnd } from "./status.ts";
import { ofDocs, withDropIn } from "./world.ts";

const rebuild = await deployedRebuild("options");
const { host } = rebuild;
const queue = "/var/spool/nullmailer/queue";
const previews = { hostname: `preview.${zoneName}`, branches: ["feature/*", "staging"] };

test("up moves a site into a folder of its repository, without the units of a content folder, and it is published without a push, with its history", async () => {
  const inFolder = (files: Files) =>
    Object.fromEntries(Object.entries(files).map(([path, file]) => [`web/${path}`, file]));
  const history = "{{ range .Site.RegularPages }}{{ with .GitInfo }}{{ .Hash }}{{ end }} {{ .CodeOwners }}{{ end }}";
  const files = siteFiles(`in-folder ${history}`);
  const commit = rebuild.repositories.site.push({
    ...Object.fromEntries(Object.keys(siteFiles()).map((path) => [path, null])),
    ...inFolder({
      ...files,
      "hugo.toml": `contentDir = "texts"\nenableGitInfo = true\n${files["hugo.toml"]}`,
      CODEOWNERS: "* @owner\n",
      "texts/_index.md": page("Home"),
      "texts/posts/first.md": page("First"),
    }),
  });
  rebuild.configure("site", { content: undefined, folder: "web", schedule: "Mon *-01-01 05:00" });
  const to = (name: string) => ({ name, url: `https://git.example.net/hooks/${name}`, format: "standard" });
  rebuild.configure("docs", {
    notify: [
      ...[to("team"), { ...to("all"), published: true }],
      { name: "mail", url: "mailto:team@example.org,ops@example.org", format: "email" },
    ],
    previews,
  });
  const { token, key } = rebuild.git.status;
  await rebuild.world.stack.setSecrets({
    "pushgate:secrets": { docs: { status: token, notify: { team: key, all: key } } },
  });
  // Hugo lists the pages where this file is not there, as for a first release.
  const pages = `${paths.sites}/site/work/cache/pages.csv`;
  expect(await host.read(`cat ${pages} && rm ${pages}`)).toMatch(/^\/content\/.*,https:\/\/www\.example\.org\//m);
  const { stdout, stderr } = await rebuild.world.stack.preview();
  expect(stdout + stderr).toContain("/usr/sbin/sendmail is missing. Run apt install nullmailer");
  // Its messages stay in the queue.
  await host.inside(
    "systemctl mask nullmailer.service && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install nullmailer",
  );
  await rebuild.up();
  expect(await host.read(`ls -d ${paths.units}/${units.content("site")}.d 2>/dev/null || :`)).toBe("");
  await timersEnd(host);
  await rebuild.request("tick");
  await published(host, commit, { timeout: 60_000 });
  expect(await host.read(`cat ${pages}`)).toContain("texts/posts/first.md,");
  const { body } = await rebuild.visit();
  for (const words of [`layout-in-folder ${commit} [@owner]`, "/posts/first/"]) expect(body).toContain(words);
});

test("the timer starts a scheduled build, which makes no release while nothing changes", async () => {
  await idle(host);
  const former = statusOf(host)!;
  // The declared units, with another time.
  const timer = units.scheduleTimer("site");
  await host.writeFile(`/run/systemd/system/${timer}.d/soon.conf`, "[Timer]\nOnCalendar=*:*:0/2\n");
  await host.inside(`systemctl daemon-reload && systemctl restart ${timer}`);
  const same = await nextResult(host, former, "nothing");
  await host.inside(`rm -r /run/systemd/system/${timer}.d && systemctl daemon-reload && systemctl restart ${timer}`);
  expect(same).toMatchObject({ last: { trigger: ["schedule"] }, releases: former.releases });
});

describe("results", () => {
  const unit = units.report("docs");
  const pushed = async (mark: string) => {
    const commit = await rebuild.push({ "layouts/index.html": front(mark) }, "docs");
    await published(host, commit, { hook: "docs" });
    return commit;
  };
  const resultOf = (commit: string, state: string) =>
    until(
      `${commit.slice(0, 12)} is a ${state}`,
      () => rebuild.git.status.results.find((one) => one.commit === commit && one.state === state),
      { timeout: 60_000 },
    );

  // gitea.test.ts has the results on commits at a real git host.
  test("site.notify gets each turn, over TLS", async () => {
    await resultOf(await pushed("result"), "success");
    const broken = await rebuild.push({ "layouts/index.html": "{{ nothing }}" }, "docs");
    await resultOf(broken, "failure");
    await resultOf(await pushed("repaired"), "success");
    const { notifications } = rebuild.git.status;
    const sent = (name: string) => notifications.filter(({ path }) => path === `/hooks/${name}`);
    await until("both got two turns", () => (sent("team").length >= 2 && sent("all").length >= 3) || undefined);
    const turns = [{ state: "failing", commit: broken }, { state: "succeeding" }];
    expect(sent("team")).toMatchObject(turns);
    expect(sent("all").slice(-3)).toMatchObject([{ state: "published" }, ...turns]);
  });

  test("mail is in the queue of the host's sendmail after each turn, and with NoNewPrivileges=yes is not", async () => {
    expect(await host.read(`cat $(ls -tr ${queue}/* | head -n 1)`)).toMatch(
      /\nteam@example\.org\nops@example\.org\n\n/,
    );
    const tested = async () => (await rebuild.world.stack.pushgate("notify", "docs", "--test")).stderr;
    const queued = () => host.read(`ls ${queue} | wc -l`);
    const before = await until("both turns are there", async () => ((await queued()) === "2" ? "2" : undefined));
    const said = await withDropIn(host, units.mail("docs"), "NoNewPrivileges=yes", tested);
    expect(said).toContain("deployed: mail at sendmail: failed: sendmail did not take it");
    expect(await queued()).toBe(before);
    expect(await host.read(`journalctl -u '${units.mail("docs", "*")}'`)).toMatch(/nullmailer|status=1|exit-code/);
    expect(await tested()).toBe("");
  });

  // Each package removes the one before. No mail leaves, as exim's smarthost is not there and Postfix defers all.
  test.each([
    {
      name: "exim4-daemon-light",
      prepare: `sed -i "s/^\\(dc_eximconfig_configtype\\)=.*/\\1='smarthost'/; s/^\\(dc_smarthost\\)=.*/\\1='127.0.0.1::2525'/" /etc/exim4/update-exim4.conf.conf && update-exim4.conf`,
      read: "cat /var/spool/exim4/input/*-H /var/spool/exim4/input/*-D && grep '== team@example.org' /var/log/exim4/mainlog",
      sender: /^<pushgate-report-docs@deployed>$/m,
      recipients: /^team@example\.org\nops@example\.org$/m,
    },
    {
      name: "postfix",
      prepare: "postconf -e defer_transports=smtp && systemctl restart postfix",
      read: 'postqueue -j | sed -n \'s/.*"queue_id": "\\([^"]*\\)".*/\\1/p\' | xargs -n 1 postcat -q',
      sender: /^sender: pushgate-report-docs@deployed$/m,
      recipients: /^recipient: team@example\.org$[\s\S]*^recipient: ops@example\.org$/m,
    },
  ])("mail is in the queue of $name, with envelope, headers and text", async ({ name, prepare, read, ...envelope }) => {
    const install = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install";
    await host.inside(`${install} ${name} && ${prepare}`);
    expect((await rebuild.world.stack.pushgate("notify", "docs", "--test")).stdout).toContain(
      "deployed: mail at sendmail: took it: sent\n",
    );
    // exim tries to send the mail after the unit's end; Postfix's own daemon takes it.
    const mail = await until("the queue has the mail", async () => {
      const { code, stdout } = await host.inside(read, { check: false });
      return code === 0 && stdout !== "" ? stdout : undefined;
    });
    for (const pattern of Object.values(envelope)) expect(mail).toMatch(pattern);
    expect(mail).toMatch(/To: team@example\.org,\s+ops@example\.org\n[\s\S]*Subject: =\?utf-8\?B\?/);
    expect(mail).toMatch(/From: pushgate reporter of docs <pushgate-report-docs@deployed>\n/);
    const text = Buffer.from("docs: a test of site.notify\r\nnpx pushgate notify").toString("base64").slice(0, 60);
    expect(mail).toContain(text);
  });

  test("where Postfix has no queue its postdrop ends with the unit, and without timeout stays", async () => {
    const folder = "/var/spool/postfix/maildrop";
    const tried = async () => {
      const { stderr } = await rebuild.world.stack.pushgate("notify", "docs", "--test");
      expect(stderr).toContain("deployed: mail at sendmail: failed: sendmail did not take it");
      return host.read("pgrep --count postdrop || :");
    };
    await host.inside(`mv ${folder} ${folder}.aside`);
    expect(await tried()).toBe("0");
    const without = "ExecStart=\nExecStart=/usr/sbin/sendmail -i team@example.org\nExecStart=/bin/echo sent";
    expect(await withDropIn(host, units.mail("docs"), without, tried)).toBe("1");
    await host.inside(`pkill postdrop; mv ${folder}.aside ${folder}`);
  });

  test("while the API hangs a push is published, and no account but the reporter's reads the token", async () => {
    const { faults, requests, token } = rebuild.git.status;
    faults.hangs = true;
    const commit = await rebuild.push({ "layouts/index.html": front("hanging") }, "docs");
    await until("the reporter waits for the API", () => rebuild.git.status.requests > requests || undefined);
    await published(host, commit, { hook: "docs" });
    const read = async (user: string) =>
      (await host.inside(`runuser -u ${user} -- cat /run/credentials/${unit}/status`, { check: false })).stdout.trim();
    for (const user of [builderUser("docs"), generatorUser("docs"), builderUser("site"), "guest"])
      expect(await read(user)).toBe("");
    expect(await read(reporterUser("docs"))).toBe(token);
    const shown = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; journalctl --boot --no-pager";
    const stored = "find /etc /var/lib/pushgate* /var/spool /run/pushgate* -type f -exec cat {} +";
    await host.writeFile("/root/token", token);
    const search = `{ ${shown}; ${stored}; } | grep -a -c -F -f /root/token`;
    expect((await host.inside(search, { check: false })).stdout.trim()).toBe("0");
    faults.hangs = false;
    await resultOf(commit, "success");
  });
});

describe("previews", () => {
  const { docs } = rebuild.repositories;
  const own = "docs-previews";
  const url = `https://${previews.hostname}/`;
  /** Delivers a push to a branch that begins at main, or its deletion. */
  const delivered = async (branch: string, after: string) => {
    const payload = { ...pushPayload(), ref: `refs/heads/${branch}`, after };
    return (await rebuild.world.deliver({ hook: "docs", ...ofDocs, payload })).status;
  };
  const shown = (path: string, fits: (answer: Answer) => boolean) =>
    until(
      `${url}${path} is as expected`,
      async () => {
        const answer = await rebuild.world.visit(previews.hostname, `/${path}`);
        return fits(answer) ? answer : undefined;
      },
      { timeout: 60_000 },
    );

  test("a branch is at its own address, where no search engine indexes it, with accounts of its own, until it is deleted", async () => {
    const [branch, folder] = ["feature/map", folderOf("feature/map")];
    docs.point(docs.head()!, `refs/heads/${branch}`);
    const release = () => host.read(`readlink ${paths.sites}/docs/current`);
    const before = await release();
    const layout = { "layouts/index.html": "map-first {{ .Site.BaseURL }}" };
    const commit = docs.push({ "content/posts/own.md": page("Own"), ...layout }, { branch });
    expect([await delivered(branch, commit), await delivered("other", commit)]).toEqual([202, 200]);
    const { headers, body } = await shown(`${folder}/`, ({ body }) => body.includes("map-first"));
    expect([headers["x-robots-tag"], body.includes(`${url}${folder}/`)]).toEqual(["noindex", true]);
    expect(await release()).toBe(before);
    const owners = (place: string) =>
      host.read(`find ${paths.sites}/${own}/${place} -type f -printf '%u\\n' | sort -u`);
    expect(await owners("releases")).toBe(builderUser(own));
    expect(await owners("work/cache")).toBe(generatorUser(own));
    docs.remove(`refs/heads/${branch}`);
    expect(await delivered(branch, "0".repeat(40))).toBe(202);
    await shown(`${folder}/`, ({ status }) => status === 404);
  });
});

describe("metrics", () => {
  const curl = `curl -sS --fail --unix-socket ${paths.metrics} http://localhost/metrics`;
  const scrape = () => host.read(curl);
  /** Polls until Prometheus has scraped values that fit. */
  const scraped = (query: string, fits: (found: Record<string, number>) => boolean) =>
    until(
      `Prometheus has ${query}`,
      async () => {
        const found = await valuesOf(host, query);
        return found && fits(found) ? found : undefined;
      },
      { timeout: 90_000 },
    );

  test("no account but root may connect, and any with another mode", async () => {
    const asGuest = () => host.inside(`runuser -u guest -- ${curl}`, { check: false });
    expect((await asGuest()).stderr).toMatch(/Permission denied|Couldn't connect|Failed to connect/);
    expect(await host.read(`getent group ${metricsGroup}`)).toMatch(/:$/);
    await host.inside(`chmod 0666 ${paths.metrics}`);
    expect((await asGuest()).code).toBe(0);
    await host.inside(`chmod 0660 ${paths.metrics}`);
  });

  test("a real Prometheus scrapes through nginx with the page's text, and sees a push from the 202 to the build", async () => {
    expect(await startPrometheus(host)).toMatch(/5 rules found/);
    const { stdout, stderr } = await host.inside(`${curl} | promtool check metrics`);
    expect(stdout + stderr).toBe("");
    await scraped('up{job="pushgate"}', (found) => found[""] === 1);

    const accepted = "pushgate_deliveries_accepted_total";
    const { docs: before = 0 } = await scraped(accepted, ({ docs }) => docs !== undefined);
    await published(host, await rebuild.push({ "layouts/index.html": front("metrics") }, "docs"), { hook: "docs" });
    await scraped(accepted, ({ docs }) => docs === before + 1);
    // Of status.json, which the builder's account writes and the receiver's reads.
    await scraped('pushgate_builds_total{result="published"}', (found) => found["docs published"]! >= 2);
    await scraped(
      'ALERTS{alertname=~"Pushgate(Down|BuildFails|SiteIsOld|DeliveryWaits)"}',
      (found) => Object.keys(found).length === 0,
    );
  });

  test("the socket closes with those for deliveries, and without PartOf= a scrape would open them", async () => {
    const deliveries = () =>
      host.read("systemctl list-units --plain --no-legend --state=active 'pushgate-receiver-*.socket'");
    const close = () => host.inside("systemctl stop 'pushgate-receiver-*.socket' pushgate-receiver.service");
    // Its scrape in the middle of the stop would cancel the stop.
    await host.inside("systemctl stop prometheus");
    await close();
    expect(await host.read(`systemctl is-active ${units.metricsSocket} || :`)).toBe("inactive");
    expect((await host.inside(curl, { check: false })).code).not.toBe(0);
    expect(await deliveries()).toBe("");
    await host.inside("systemctl start pushgate-receiver.service");
    expect(await scrape()).toContain("pushgate_deliveries_accepted_total");

    const unit = `${paths.units}/${units.metricsSocket}`;
    const whole = await host.readFile(unit);
    await host.writeFile(unit, whole.replace(/^PartOf=.*\n/m, ""));
    await host.inside("systemctl daemon-reload");
    await close();
    await scrape();
    expect(await deliveries()).toContain(await socketOfSite(host));
    await host.writeFile(unit, whole);
    await host.inside("systemctl daemon-reload");
  });
});

test("up removes the timer of a schedule that is dropped, and without token and site.notify the reporter's units, account and files", async () => {
  rebuild.configure("site", { schedule: undefined });
  rebuild.configure("docs", { notify: undefined, previews: undefined });
  for (const name of ["status", "notify"])
    await rebuild.world.stack.pulumi("config", "rm", "--stack", "test", "--path", `pushgate:secrets.docs.${name}`);
  await rebuild.up();
  expect(
    await host.read(
      "systemctl list-units --all --no-legend 'pushgate-schedule@*' 'pushgate-report@*' 'pushgate-mail-*'",
    ),
  ).toBe("");
  const left = [
    "pushgate-schedule@site",
    "pushgate-report@docs",
    "pushgate-mail-docs",
    "docs.status",
    "docs.notify",
    "docs-previews",
  ]
    .map((name) => `-name '*${name}*'`)
    .join(" -o ");
  const stored = `find /etc /var/spool ${paths.sites} /run/systemd /var/lib/systemd/timers ${left}`;
  const accounts = [reporterUser("docs"), builderUser("docs-previews"), generatorUser("docs-previews")].join(" ");
  expect(await host.read(`${stored}; getent passwd ${accounts} || :`)).toBe("");
  await rebuild.world.stack.cleanPreview();
});
