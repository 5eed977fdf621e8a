/** The SDK's mocks, with what they lack: their monitor announces resource hooks and never answers one, and no engine logs. */
import * as pulumi from "@pulumi/pulumi";
import * as settings from "@pulumi/pulumi/runtime/settings.js";
import { networks, v4, v6 } from "../../infra/networks.ts";

type Answered = (error: Error | null, answer: unknown) => void;

export async function setMocks(mocks: Pick<pulumi.runtime.Mocks, "newResource">, ...rest: unknown[]): Promise<void> {
  const { cidrs } = networks.cloudflare;
  const call = ({ token }: pulumi.runtime.MockCallArgs) => {
    if (token === "cloudflare:index/getIpRanges:getIpRanges") return { ipv4Cidrs: v4(cidrs), ipv6Cidrs: v6(cidrs) };
    throw new Error(`pushgate calls no such function of a provider: ${token}`);
  };
  await pulumi.runtime.setMocks({ ...mocks, call }, ...(rest as [string, string, boolean]));
  const monitor = settings.getMonitor() as unknown as Record<string, unknown>;
  Object.assign(pulumi.log, { info: async () => {} });
  monitor.registerResourceHook = (_: unknown, answered: Answered) => answered(null, {});
}
