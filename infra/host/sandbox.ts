/**
 * The sandbox lines that several units share; network, memory and folders are in each unit.
 *
 * Not a prefix drop-in (pushgate-.service.d): it would also hold for pushgate-apply.service, the transient unit of each
 * apply, and outrank that unit's own settings. No apply could then write to /etc (measured on systemd 257).
 */
import { template } from "./kit.ts";

/** Why each may map memory that is writable and executable. */
const compiling = {
  node: 'Node compiles code while it runs: with "yes" it dies at start.',
  hugo: "Hugo 0.132 and later compile WebAssembly for formulas while they run; so does Node where `hugo.exec` allows it.",
} as const;

/** Of receiver, builder and Hugo, which handle data of foreign origin. `denied`: a comment on the calls that fail. */
export const sandbox = (program: keyof typeof compiling, denied = "", homes = "ProtectHome=yes"): string =>
  template(import.meta.url, "sandbox/program.conf", { compiling: compiling[program], denied, homes }).trimEnd();

/** Of the oneshots that place tables, rules and routes as root. `families`, `kernel`: what one of them has in addition. */
export const oneshotSandbox = (families = "", kernel = ""): string =>
  template(import.meta.url, "sandbox/oneshot.conf", { families, kernel }).trimEnd();
