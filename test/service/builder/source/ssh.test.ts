import { expect, test } from "vitest";
import type { Changes } from "./git-lines.ts";
import { builder, hostile, knownHost, look, onSshHost, pin, server } from "./ssh-scene.ts";

onSshHost();

test("the deploy key of the agent and the pinned host key open the repository, and no key of the account's home", async () => {
  expect(await look()).toBe("");
  expect(await look({}, builder("no agent"))).toMatch(/Permission denied \(publickey/);
  expect(await look({ IdentityFile: undefined }, builder("no agent"))).toBe("");
});

test("no configuration of ssh is read, and would run commands", async () => {
  await look();
  expect(hostile.marks()).toEqual([]);
  await look({ "-F": undefined });
  expect(hostile.marks()).toEqual(["configuration-of-system", "configuration-of-user"]);
});

test.each<[string, Changes]>([
  ["GlobalKnownHostsFile", { GlobalKnownHostsFile: undefined }],
  ["UserKnownHostsFile", { UserKnownHostsFile: undefined }],
])(
  "a host key that the host knows and the configuration does not pin is rejected, and not without %s",
  async (_, changes) => {
    pin("impostor");
    hostile.write("etc/ssh/ssh_known_hosts", "GlobalKnownHostsFile" in changes ? knownHost("host") : "");
    hostile.write("home/.ssh/known_hosts", "UserKnownHostsFile" in changes ? knownHost("host") : "");
    expect(await look()).toMatch(/Host key verification failed/);
    expect(await look(changes)).toBe("");
  },
);

test("ssh sends no password, and would send an empty one", async () => {
  const attempts = () => server.log().match(/Failed password/g)?.length ?? 0;
  await look({}, builder("no agent"));
  expect(attempts()).toBe(0);
  await look({ PreferredAuthentications: undefined }, builder("no agent"));
  await expect.poll(attempts).toBeGreaterThan(0);
});

test("the greeting of a server is not part of git's error, and would be without the line", async () => {
  expect(await look({}, builder("no agent"))).not.toContain("the words of the git host");
  expect(await look({ LogLevel: undefined }, builder("no agent"))).toContain("the words of the git host");
});
