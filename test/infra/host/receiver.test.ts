/** The receiver's units as systemd reads them, and what each line of them protects from. */
import { expect, test } from "vitest";
import { sourceSets } from "../../../infra/config/derived.ts";
import { paths, units } from "../../../infra/host/paths.ts";
import {
  asSystemd,
  receiverLayer,
  receiverSettings,
  serviceUnit,
  slice,
} from "../../../infra/host/receiver/receiver.ts";
import { metricsName, readReceiver } from "../../../service/receiver/settings.ts";
import { example, serving } from "../../fixtures.ts";
import { exposure, missing, Root, unitText, values } from "./namespace.ts";

const layer = receiverLayer(example);
const sets = sourceSets(example);
const text = (path: string) => layer.files.find((file) => file.path === path)!.text;
const unit = (name: string) => unitText(layer.files, name);
const service = unit(units.receiver);

test("no list names the host itself, so an nginx without its transparent bind is rejected, and no slice has one", () => {
  for (const { text } of layer.files) expect(text).not.toMatch(/IPAddressAllow=.*(localhost|127\.|::1\b)/);
  // At top level, so that only the root slice is above it.
  expect([slice.includes("-"), values(unit(slice), "IPAddressAllow")]).toEqual([false, []]);
});

test("ranges are compared as systemd prints them, and the host itself compares a list that is too long for a fact", () => {
  expect(["2001:0DB8:0:0::/48", "198.51.100.7", "2001:db8::1"].map(asSystemd)).toEqual([
    ...["2001:db8::/48", "198.51.100.7/32", "2001:db8::1/128"],
  ]);
  const sources = Array.from({ length: 200 }, (_, i) => `198.51.100.${i}`);
  const { facts } = receiverLayer({ ...example, hooks: [{ ...example.hooks[0]!, sources }] });
  expect(facts.find(({ name }) => name.endsWith(" admits"))).toMatchObject({
    ...{ want: "as declared", read: expect.stringMatching(/^\{ admits \S+; \} \| unlike '198\.51/) },
  });
});

test("the service has room for the bodies it may hold", () => {
  const memory = (bodyBytes: number) =>
    values(serviceUnit({ ...example, limits: { ...example.limits, bodyBytes } }).text, "MemoryMax");
  expect([1 << 10, 5 << 20, 25 << 20].flatMap(memory)).toEqual(["320M", "352M", "992M"]);
});

test("its settings are what the receiver reads", () => {
  const root = new Root();
  for (const { name } of example.hooks) root.write(name, `${"s".repeat(40)}\n`);
  const env = {
    PUSHGATE_SETTINGS: root.write("receiver.json", text(paths.receiverSettings)),
    CREDENTIALS_DIRECTORY: root.folder,
    LISTEN_PID: "7",
    LISTEN_FDS: "3",
    // systemd's names: of a socket without FileDescriptorName= its unit's.
    LISTEN_FDNAMES: [...sets.map(({ name }) => units.socket(name)), metricsName].join(":"),
  };
  const read = readReceiver(env, 7);
  expect(read.settings).toEqual(receiverSettings(example));
  expect([read.sockets, read.metrics]).toEqual([[3, 4], [5]]);
});

test("with previews it has which branches are built", () => {
  const previews = { hostname: "preview.example.org", branches: ["*"], keep: 1 };
  const [site] = receiverSettings(serving(example, { previews })).hooks;
  expect(site).toMatchObject({ previews: { hook: "site-previews", branches: ["*"] } });
});

test("systemd rates the exposure of the receiver at 0.2", ({ skip }) => {
  const reason = missing("systemd-analyze");
  skip(reason !== undefined, reason);
  expect(exposure(units.receiver, service)).toBe(2);
});
