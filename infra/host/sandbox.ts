/**
 * The sandbox lines that several units share; network, memory and folders are in each unit.
 *
 * Not a prefix drop-in (pushgate-.service.d): it would also hold for pushgate-apply.service, the transient unit of each
 * apply, and outrank that unit's own settings. No apply could then write to /etc (measured on systemd 257).
 */
import { template } from "./kit.ts";

/** Whether each may map memory that is writable and executable, and why. */
const compiling = {
  agent: "MemoryDenyWriteExecute=yes",
  helper: "MemoryDenyWriteExecute=yes",
  nginx: "MemoryDenyWriteExecute=yes",
  node: '# Node compiles code while it runs: with "yes" it dies at start.\nMemoryDenyWriteExecute=no',
  generator:
    "# WebAssembly and Node, which a site may have run in a build, compile code while they run.\nMemoryDenyWriteExecute=no",
} as const;

/**
 * The sandbox of nginx, receiver, builder, reporter, generator and ssh-agent, which handle data of foreign origin, and of the
 * helpers of the builder, which root runs. `denied`: a comment on the system calls that fail.
 */
export const sandbox = (program: keyof typeof compiling, denied = ""): string =>
  template(import.meta.url, "sandbox/program.conf", {
    compiling: compiling[program],
    isolation: program === "helper" ? "PrivateNetwork=yes\nIPAddressDeny=any" : "PrivateUsers=yes",
    denied,
  }).trimEnd();

/**
 * Of the oneshots that place tables, rules and routes as root, with what starts a failed one again. `families`, `kernel`:
 * what one of them has in addition.
 */
export const oneshotSandbox = (families = "", kernel = ""): string =>
  template(import.meta.url, "sandbox/oneshot.conf", { families, kernel }).trimEnd();
