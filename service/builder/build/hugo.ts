/** What Hugo's exit and output say of a failed build. Pure. */
import { printable } from "../../printable.ts";
import { diskFull } from "../run/setback.ts";
import type { BuilderSettings, UnitEnd } from "../settings.ts";
import { beginOfBuild } from "./content.ts";

type Build = UnitEnd & { readonly output: string };

/** A lack of processes in the words of Go, of a C library, and of the shells and Node that start a site's tools. */
const noMoreProcesses =
  /pthread_create failed|failed to create new OS thread|fork\/exec \S+: resource temporarily unavailable|: Cannot fork\b|fork: (retry: )?Resource temporarily unavailable|spawn \S+ EAGAIN/;

export function reasonOf({ result, code, status, output }: Build, limits: BuilderSettings["limits"]): string {
  const of = (limit: number | undefined, unit = "") => (limit === undefined ? "" : ` (${limit}${unit})`);
  if (/no space left on device|disk quota exceeded/i.test(output)) return diskFull;
  if (noMoreProcesses.test(output))
    return `Hugo reached its limit of processes and threads${of(limits.tasks)}. Raise hooks[].site.limits.tasks.`;
  // Go's own words, where the kernel denied memory instead of killing Hugo (LimitDATA=).
  const memoryDenied = /^fatal error: .*(out of memory|cannot allocate memory)/m.test(output);
  const said = lastLines(output);
  switch (memoryDenied ? "oom-kill" : result) {
    case "oom-kill":
      return `the build reached its memory limit${of(limits.memoryMiB, " MiB")}. Raise hooks[].site.limits.memoryMiB.`;
    case "timeout":
      if (code === "exited") return "Hugo ended, and its unit did not: the host is too busy to build. Reduce its load.";
      return `the build took longer than its ${limits.seconds} s. Raise hooks[].site.limits.seconds.`;
    // systemd calls SIGTERM a success.
    case "success":
    case "signal":
    case "core-dump":
      return `Hugo was ended by the signal ${status}: by a person, or by a host without memory. See journalctl -k.`;
    case "resources":
      return "the host lacks the resources to start Hugo. See journalctl -u 'pushgate-generator-*'.";
    case "exit-code":
      // systemd cannot execute it.
      if (status === "203")
        return "Hugo cannot be started. Run apt-get install hugo, or correct hooks[].site.hugo.path.";
      // The unit's own program did not start Hugo, and says why.
      if (status === "78") return said;
      return `${templateOf(output) ?? "Hugo failed"}: ${said}`;
    default:
      return `Hugo's unit ended by ${printable(result, 30)}. See journalctl -u 'pushgate-generator-*'. Its output: ${said}`;
  }
}

const templateOf = (output: string): string | undefined => {
  const path = /((?:themes\/[^\s":]+\/)?layouts\/[^\s":]+):\d+/.exec(output)?.[1];
  return path && `the template ${printable(path, 200)} failed`;
};

/** Hugo's errors, without greeting, totals and its whole security configuration. */
function lastLines(output: string): string {
  const lines = [...new Set(output.split("\n").map((line) => line.trim()))].filter(
    (line) =>
      line !== "" &&
      !line.startsWith(beginOfBuild) &&
      !/^(Start building|hugo v|Total in|\||-+\+|WARN)|logged \d+ error\(s\)$/.test(line),
  );
  const errors = lines.filter((line) => /^(ERROR|Error:|panic:|fatal)/.test(line));
  const words = (errors.length > 0 ? errors.slice(0, 3) : lines.slice(-3)).map((line) =>
    line.replace(/^(ERROR|Error:) (\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d )?|; the current security configuration is:/g, ""),
  );
  return printable(words.join(" | "), 1_000);
}
