/** Writes the ranges that Cloudflare and git hosts publish into infra/networks.ts, and the golden files that follow from them. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compared, type Owner, ownerNames, owners, readPublished } from "../../config/published.ts";
import { networks as committed, v4, v6 } from "../../networks.ts";
import { UserError } from "../../user-error.ts";
import { all, command } from "../command.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const file = `${root}infra/networks.ts`;

/** Lines of at most 114 characters, a new one for IPv6. */
const lines = (cidrs: readonly string[]): string =>
  [v4(cidrs), v6(cidrs)]
    .flatMap((family) => family.join(" ").match(/\S.{0,106}\S(?= |$)/g) ?? [])
    .map((line) => `      ${line}\n`)
    .join("");

/** networks.ts with these ranges, which were read on `day`, YYYY-MM-DD. */
export function written(text: string, owner: Owner, cidrs: readonly string[], day: string): string {
  const row = new RegExp(`(\\n  ${owner}: \\{[^}]*confirmed: ")[^"]*("[^}]*cidrs: listed\\(\`\\n)[^\`]*(    \`\\))`);
  if (!row.test(text)) throw new UserError(`infra/networks.ts was changed: it has no list of ${owner} in its form.`);
  return text.replace(row, (_, before, between, after) => `${before}${day}${between}${lines(cidrs)}${after}`);
}

export const networks = command({
  examples: [["networks", "reads what Cloudflare, GitHub and Bitbucket publish, and changes infra/networks.ts"]],
}).action(async () => {
  const published = await all(owners.map(async (owner) => [owner, await readPublished(owner, 20)] as const));
  const day = new Date().toISOString().slice(0, 10);
  writeFileSync(
    file,
    published.reduce((text, [owner, cidrs]) => written(text, owner, cidrs, day), readFileSync(file, "utf8")),
  );
  for (const [owner, cidrs] of published) {
    const { missing, gone } = compared(owner, cidrs);
    const changed = [...missing.map((cidr) => `+ ${cidr}`), ...gone.map((cidr) => `- ${cidr}`)];
    console.log([`${ownerNames[owner]}: ${changed.length > 0 ? "" : "as committed"}`.trim(), ...changed].join("\n  "));
  }
  const { source, confirmed } = committed.gitlabHooks;
  console.log(`GitLab: compare ${source} yourself, last done on ${confirmed}`);
  const goldens = ["test/infra/golden.test.ts", "test/infra/edge/rules.test.ts"];
  const args = ["exec", "--", "vitest", "run", "-u", ...goldens];
  if (spawnSync("npm", args, { cwd: root, stdio: "inherit" }).status !== 0)
    throw new UserError(`infra/networks.ts is written, and the golden files are not: npm ${args.join(" ")} failed.`);
  console.log("Next: npx pulumi up");
});
