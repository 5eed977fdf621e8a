/** A name whose first address leads nowhere, for a Node that would try no second one by itself. */
import dns from "node:dns";
import { getDefaultAutoSelectFamily, setDefaultAutoSelectFamily } from "node:net";
import { type MockInstance, onTestFinished, vi } from "vitest";

export function deadFirst(): void {
  const find = dns.lookup as (...of: unknown[]) => void;
  const lookup = vi.spyOn(dns, "lookup") as unknown as MockInstance<typeof find>;
  lookup.mockImplementation((name, options, done) =>
    find(name, { ...(options as object), all: true }, (error: null, found: object[]) => {
      const dead = { address: "127.0.0.9", family: 4 };
      const isAll = (options as { all?: boolean }).all;
      (done as typeof find)(error, ...(isAll ? [[dead, ...found]] : [dead.address, 4]));
    }),
  );
  const usual = getDefaultAutoSelectFamily();
  onTestFinished(() => {
    lookup.mockRestore();
    setDefaultAutoSelectFamily(usual);
  });
  setDefaultAutoSelectFamily(false);
}
