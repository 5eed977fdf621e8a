/** The SDK's mocks, with what they lack: their monitor announces resource hooks and never answers one, and no engine logs. */
import * as pulumi from "@pulumi/pulumi";
import * as settings from "@pulumi/pulumi/runtime/settings.js";

type Answered = (error: Error | null, answer: unknown) => void;

/** As pulumi.runtime.setMocks; resource hooks are registered and never run, and what `up` would say is not printed. */
export async function setMocks(...given: Parameters<typeof pulumi.runtime.setMocks>): Promise<void> {
  await pulumi.runtime.setMocks(...given);
  const monitor = settings.getMonitor() as unknown as Record<string, unknown>;
  Object.assign(pulumi.log, { info: async () => {} });
  monitor.registerResourceHook = (_: unknown, answered: Answered) => answered(null, {});
}
