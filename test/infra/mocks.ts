/** The SDK's mocks, with the part that they lack: their monitor announces resource hooks and never answers one. */
import * as pulumi from "@pulumi/pulumi";
import * as settings from "@pulumi/pulumi/runtime/settings.js";

type Answered = (error: Error | null, answer: unknown) => void;

/** As pulumi.runtime.setMocks; resource hooks are registered and never run. */
export async function setMocks(...given: Parameters<typeof pulumi.runtime.setMocks>): Promise<void> {
  await pulumi.runtime.setMocks(...given);
  const monitor = settings.getMonitor() as unknown as Record<string, unknown>;
  monitor.registerResourceHook = (_: unknown, answered: Answered) => answered(null, {});
}
