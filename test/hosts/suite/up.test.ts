/**
 * One `up` on a freshly installed host. A search for the text of each secret, during and after this `up`, proves that it is
 * only where it must be. test/engine has the order of the layers and the number of connections, deliveries.test.ts
 * deliveries, no-ipv6.test.ts a host without IPv6, and edge/documents.test.ts rotates a secret.
 */
import { expect, test } from "vitest";
import { succeeded } from "../../engine/program-stack.ts";
import { ending } from "../deployed.ts";
import { bootHost } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { recordedSsh, secretSearch, watchProcesses } from "../secret-search.ts";
import { buildWorld } from "../world.ts";

/** Secrets of this file only: at the same time engines of other files get secrets as arguments of `config set`. */
const secrets = {
  site: { current: "vault-site-current-0123456789-abcdefghij", previous: "vault-site-previous-0123456789-abcdefghi" },
  docs: { current: "vault-docs-current-0123456789-abcdefghij" },
};
const token = "vault-token-0123456789-0123456789-abcdefghij";
/** The secrets that exist before `up`. */
const known = { ...secrets.site, docs: secrets.docs.current, token };
const ssh = recordedSsh();
/** The first line of the key in a PEM: 64 characters. */
const body = (pem: string): string => {
  const line = pem.split("\n").findIndex((text) => text.includes("PRIVATE KEY"));
  return pem.split("\n")[line + 1]!;
};

/** Unwraps a secret output, which `--show-secrets` prints as JSON in a marked object. */
const plain = (value: string | { plaintext: string }): string =>
  typeof value === "string" ? value : JSON.parse(value.plaintext);

const host = await bootHost({ name: "bare", release, variant: "bare" });
const search = await secretSearch(host);
const world = ending(await buildWorld([host], { path: [ssh.folder], secrets, token, starts: true }), host);
const watch = watchProcesses(known);
const up = await world.stack.up();
/** Command lines and environments that contained a secret during `up`. */
const duringUp = watch();
const { stdout } = await world.stack.pulumi("stack", "export", "--show-secrets", "--stack", "test");
const made = JSON.parse(stdout).deployment.resources.find(({ urn }: { urn: string }) =>
  urn.endsWith("command:local:Command::client certificate"),
);
/** Name -> the text to search for. */
const needles: Record<string, string> = {
  ...known,
  "origin-pull key": body(JSON.parse(plain(made.outputs.stdout)).key),
  "origin key": body(await host.readFile("/etc/pushgate/tls/origin.key")),
};
const leaked = (text: string): string[] => Object.keys(needles).filter((name) => text.includes(needles[name]!));

const statusWith = async (secret: string): Promise<number> => (await world.deliver({ secret })).status;

test("up applies every layer to a bare host, and a preview right after it is clean", async () => {
  succeeded(up);
  expect(up.steps.filter(({ op }) => op !== "create")).toEqual([]);
  succeeded(await world.stack.preview("--expect-no-changes"));
});

const holders = () => search.holders(Object.values(needles));
const inProcesses = async () => leaked(await search.processes());

test("files contain secrets only in the credentials folders of receiver and nginx, in memory, and the origin key in its own file", async () => {
  const inMemory = "/run/credentials/pushgate-receiver.service";
  const ofNginx = "/run/credentials/pushgate-nginx.service/origin.key";
  expect(Object.values(needles).filter((text) => text.length >= 32)).toHaveLength(6);
  expect(await holders()).toEqual(["/etc/pushgate/tls/origin.key", ofNginx, `${inMemory}/docs`, `${inMemory}/site`]);
  expect(await host.read(`findmnt -nro FSTYPE -T ${inMemory}`)).toMatch(/^(ramfs|tmpfs)$/);
  // systemd 252 makes the account the owner, 257 uses an access list, so the test checks who can read.
  for (const file of ["/etc/pushgate/tls/origin.key", ofNginx, `${inMemory}/site`, "/etc/pushgate/credentials/site"]) {
    const read = await host.inside(`runuser -u guest -- cat ${file}`, { check: false });
    expect(read).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("Permission denied") });
  }
});

test("the search finds a secret that is put into a file or an environment", async () => {
  await host.writeFile("/etc/pushgate/forgotten", `secret=${secrets.docs.current}\n`);
  expect(await holders()).toContain("/etc/pushgate/forgotten");
  await host.inside("rm /etc/pushgate/forgotten");
  await host.inside(`systemd-run --quiet --unit=forgetful --setenv=SECRET=${secrets.docs.current} sleep 60`);
  await until("the search finds it in the environment", async () =>
    (await inProcesses()).includes("docs") ? true : undefined,
  );
  expect(watchProcesses(known)().join()).toContain("docs in ");
  await host.inside("systemctl stop forgetful");
  expect(await inProcesses()).toEqual([]);
});

test("no process has a secret in its arguments or environment, now or during up, including ssh and systemd-creds", async () => {
  expect(await inProcesses()).toEqual([]);
  expect(duringUp).toEqual([]);
  const given = await search.givenToCreds();
  expect(given.match(/^encrypt$/gm)).toHaveLength(2);
  expect(leaked(given)).toEqual([]);
  expect(ssh.given().match(/^BatchMode=yes$/gm)?.length).toBeGreaterThan(10);
  expect(leaked(ssh.given())).toEqual([]);
});

test("units and journal contain no secret", async () => {
  expect(leaked(await search.units())).toEqual([]);
  for (const status of [202, 401]) {
    const secret = status === 401 ? "another-secret-of-at-least-32-characters" : secrets.site.current;
    expect(await statusWith(secret)).toBe(status);
  }
  const said = await search.journal();
  expect(said).toContain("pushgate-receiver");
  expect(leaked(said)).toEqual([]);
  await host.inside(`logger 'token ${secrets.docs.current}'`);
  await until("the search would find one in the journal", async () =>
    leaked(await search.journal()).includes("docs") ? true : undefined,
  );
});

test("the state and the output of up contain no secret", async () => {
  expect(leaked(await world.stack.stateText())).toEqual([]);
  expect(leaked(up.stdout + up.stderr + JSON.stringify(up.diagnostics))).toEqual([]);
});

test("the installed nginx serves nothing of its own", async () => {
  const other = "systemctl is-enabled nginx.service; systemctl is-active nginx.service; ss -Hltn 'sport = :80'";
  expect(await host.read(`${other}; true`)).toBe("disabled\ninactive");
});
