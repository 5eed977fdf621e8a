/** The SDK's mocks, made whole: its mock monitor says that it takes hooks, and has no answer to one. */
import * as pulumi from "@pulumi/pulumi";
import * as settings from "@pulumi/pulumi/runtime/settings.js";

type Answered = (error: Error | null, answer: unknown) => void;

/** As pulumi.runtime.setMocks; hooks are taken and never run. */
export async function setMocks(...given: Parameters<typeof pulumi.runtime.setMocks>): Promise<void> {
  await pulumi.runtime.setMocks(...given);
  const monitor = settings.getMonitor() as unknown as Record<string, unknown>;
  monitor.registerResourceHook = (_: unknown, answered: Answered) => answered(null, {});
}
