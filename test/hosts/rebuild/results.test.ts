/**
 * The result of each build is shown on the commit at the git host, and site.notify gets each turn: through the reporter's
 * unit, which alone has the token. The tests run on one host, in this order.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { builderUser, generatorUser, paths, reporterUser, units } from "../../../infra/host/paths.ts";
import { anywhere, bundled } from "../../service/bundles.ts";
import type { Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { deployedRebuild } from "./deployed.ts";
import { front } from "./site.ts";
import { idle, published, timersBegin, timersEnd } from "./status.ts";
import type { Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;

beforeAll(async () => {
  rebuild = await deployedRebuild("results");
  ({ host } = rebuild);
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

const unit = units.report("docs");
const account = reporterUser("docs");
const status = () => rebuild.git.status;
const resultOf = (commit: string, state: string) =>
  until(
    `${commit.slice(0, 12)} is a ${state}`,
    () => status().results.find((one) => one.commit === commit && one.state === state),
    { timeout: 60_000 },
  );
const secrets = (docs: object) => rebuild.world.stack.setSecrets({ "pushgate:secrets": { docs } });

test("the git host shows a build's success on its commit, over TLS", async () => {
  rebuild.configure("docs", { notify: "https://git.example.net/hooks/builds" });
  await secrets({ status: status().token, notify: status().key });
  await rebuild.up();
  const commit = await rebuild.push({ "layouts/index.html": front("result") }, "docs");
  await published(host, commit, { hook: "docs" });
  const result = await resultOf(commit, "success");
  expect(result).toMatchObject({ family: "gitea", repository: "example/docs", description: "Published." });
  expect(result.context).toMatch(/^pushgate\/[a-z0-9-]+\/docs$/);
  expect(status().notifications).toEqual([]);
  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
});

test("it shows that a build runs", async () => {
  const busy = "{{ range seq 2000 }}{{ range seq 2000 }}{{ end }}{{ end }}";
  const commit = await rebuild.push({ "layouts/index.html": `${front("busy")}${busy}` }, "docs");
  expect(await resultOf(commit, "pending")).toMatchObject({ description: "The build runs." });
  await resultOf(commit, "success");
});

test("it shows a failure with its reason, and site.notify gets each turn once", async () => {
  const broken = await rebuild.push({ "layouts/index.html": "{{ nothing }}" }, "docs");
  const { description } = await resultOf(broken, "failure");
  expect(description).toMatch(/^the template layouts\/index\.html failed: /);
  const good = await rebuild.push({ "layouts/index.html": front("mended") }, "docs");
  await resultOf(good, "success");
  await until("site.notify got two turns", () => (status().notifications.length >= 2 ? true : undefined));
  expect(status().notifications).toMatchObject([
    { hook: "docs", site: null, state: "failing", commit: broken, reason: expect.stringContaining("failed: ") },
    { hook: "docs", state: "succeeding", commit: good },
  ]);
});

test("while the API hangs a push is published, and no account but the reporter's reads the token", async () => {
  status().faults.hangs = true;
  const before = status().requests;
  const commit = await rebuild.push({ "layouts/index.html": front("hanging") }, "docs");
  await until("the reporter waits for the API", () => (status().requests > before ? true : undefined));
  await published(host, commit, { hook: "docs" });
  const { token } = status();
  const read = (user: string) =>
    host.inside(`runuser -u ${user} -- cat /run/credentials/${unit}/status`, { check: false });
  for (const user of [builderUser("docs"), generatorUser("docs"), builderUser("site"), "guest"])
    expect((await read(user)).stdout).toBe("");
  expect((await read(account)).stdout.trim()).toBe(token);
  const shown = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; journalctl --boot --no-pager";
  const stored = "find /etc /var/lib/pushgate* /var/spool /run/pushgate* -type f -exec cat {} +";
  await host.writeFile("/root/token", token);
  const search = `{ ${shown}; ${stored}; } | grep -a -c -F -f /root/token; rm /root/token`;
  const found = await host.inside(search, { check: false });
  expect(found.stdout.trim()).toBe("0");
  status().faults.hangs = false;
  await resultOf(commit, "success");
});

test("the reporter reaches the git host's API and no other port or network, and without the table another port", async () => {
  const git = rebuild.git.addresses[0]!;
  const reaches = async (address: string, port: number) => {
    const tried = `runuser -u ${account} -- timeout 5 bash -c '</dev/tcp/${address}/${port}' 2>&1`;
    const { code, stdout } = await host.inside(tried, { check: false });
    return code === 0 ? "yes" : /refused|reset/i.test(stdout) ? "rejected" : stdout.trim();
  };
  expect([await reaches(git, 443), await reaches(git, 22)]).toEqual(["yes", "rejected"]);
  expect(await reaches("169.254.169.254", 443)).toBe("rejected");
  // The guard and each start of a builder restore the table.
  await timersEnd(host);
  await host.inside("nft flush chain inet pushgate_egress output");
  expect(await reaches(git, 22)).toBe("yes");
  await host.inside(`${paths.lib}/egress`);
  await timersBegin(host);
  expect(await reaches(git, 22)).toBe("rejected");
});

test("a reporter that waits while the table goes has it loaded before it sends; without its look it would send", async () => {
  const sends = async (mark: string) => {
    status().faults.status = 503;
    const before = status().requests;
    const commit = await rebuild.push({ "layouts/index.html": front(mark) }, "docs");
    await published(host, commit, { hook: "docs" });
    await until("the API has rejected a result", () => (status().requests > before ? true : undefined));
    // A builder that ran would have it loaded.
    await idle(host, "docs");
    await host.inside("nft delete table inet pushgate_egress");
    delete status().faults.status;
    await resultOf(commit, "success");
    return (await host.read("nft list tables")).includes("pushgate_egress");
  };
  await timersEnd(host);
  expect(await sends("looked")).toBe(true);
  await host.inside(`cp -a ${paths.reporter} /root/reporter.cjs`);
  await bundled("reporter", join(host.root, paths.reporter), anywhere);
  expect(await sends("unlooked")).toBe(false);
  await host.inside(`mv /root/reporter.cjs ${paths.reporter}; systemctl restart pushgate-egress.service`);
  await timersBegin(host);
});

test("a result that the API rejects is in the journal, and its unit is failed until the next is taken", async () => {
  await secrets({ status: status().reader });
  await rebuild.up();
  const commit = await rebuild.push({ "layouts/index.html": front("rejected") }, "docs");
  await published(host, commit, { hook: "docs" });
  await until("the unit is failed", async () =>
    (await host.read(`systemctl is-failed ${unit} || :`)).trim() === "failed" ? true : undefined,
  );
  // journald writes the line a moment after the unit's end.
  const journal = await until("the journal has the reason", async () => {
    const text = await host.read(`journalctl --boot --no-pager -o cat -u ${unit}`);
    return /"result":"dropped","reason":"403 .*Resource not accessible/.test(text) ? text : undefined;
  });
  expect(journal).not.toContain(status().reader);
  await secrets({ status: status().token });
  await rebuild.up();
  await resultOf(await rebuild.push({ "layouts/index.html": front("taken") }, "docs"), "success");
  await until("the unit is inactive", async () =>
    (await host.read(`systemctl is-failed ${unit} || :`)).trim() === "inactive" ? true : undefined,
  );
});

test("without token and site.notify its units, account, credentials and folder leave", async () => {
  rebuild.configure("docs", { notify: undefined });
  for (const name of ["status", "notify"])
    await rebuild.world.stack.pulumi("config", "rm", "--stack", "test", "--path", `pushgate:secrets.docs.${name}`);
  await rebuild.up();
  const left =
    "find /etc /var/spool /run/systemd -name '*pushgate-report@docs*' -o -name 'docs.status' -o -name 'docs.notify'";
  expect(await host.read(`${left}; getent passwd ${account} || :`)).toBe("");
  const states = await host.read("systemctl list-units --all --no-legend --plain 'pushgate-report@*'");
  expect(states).toBe("");
  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
});
