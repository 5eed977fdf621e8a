/** The settings of one throwaway host, for tests of the host alone. */
import * as v from "valibot";
import { settled } from "../../infra/config/derived.ts";
import { shape } from "../../infra/config/schema.ts";
import type { Settings } from "../../infra/config/settings.ts";
import type { Host } from "./lab/host.ts";

/** With these hooks, without the checks between keys. */
export const settingsOf = (host: Host, hooks: readonly object[]): Settings =>
  settled(
    v.parse(shape, {
      zone: "example.org",
      edge: { plan: "pro" },
      hosts: [{ name: host.name, ssh: host.name, address: host.address, hostname: "hooks.example.org" }],
      hooks,
      limits: {},
    }),
  );
