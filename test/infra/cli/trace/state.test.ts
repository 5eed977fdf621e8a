/** What a host prints of its layers -> HostState: tables of others as real nft lists them, and hostile answers. */
import { expect, test } from "vitest";
import { scriptBeside, variables } from "../../../../infra/apply/shell.ts";
import { layersOf, parseState } from "../../../../infra/cli/trace/state.ts";
import { inNamespace, missing } from "../../host/namespace.ts";
import { hookOf, hostOf, probeOf, stackOf } from "../hosts.ts";

const stack = stackOf([{ ...hostOf("web1"), ssh: "deploy@web1", sudo: true }], [hookOf()]);
const host = stack.hosts[0]!;
const probe = probeOf(layersOf(stack, host));
function parsed(texts: Readonly<Record<string, string>>) {
  const lines = Object.entries({ probe, ...texts }).map(([what, text]) => `state ${what} ${btoa(text)}\n`);
  return parseState(lines.join(""), stack, host);
}

test("only rules of others that may drop connections to the port are found", ({ skip }) => {
  const reason = missing("nft");
  skip(reason !== undefined, reason);
  const table = (name: string, rules: string, hook = "input", more = "") =>
    `table inet ${name} {\n${more}\nchain in {\n type filter hook ${hook} priority 0;\n${rules}\n}\n}\n`;
  // At most five are printed, so those that drop nothing come first.
  const tables = [
    table("other_others", "tcp dport 22 drop\n tcp dport { 80, 443 } drop\n tcp dport 18443 drop"),
    table("other_forwarding", "policy drop", "forward"),
    table("other_accepting", "tcp dport 8443 accept"),
    ...["pushgate", "pushgate_egress"].map((own) => table(own, "tcp dport 8443 drop")),
    table("other_policy", "policy drop"),
    table("other_port", "tcp dport 8443 drop"),
    table("other_set", "tcp dport { 22, 8443 } reject", "prerouting"),
    table("other_range", "tcp dport 8000-9000 drop"),
    table("other_jump", "jump far", "input", "chain far {\n ip saddr 173.245.48.0/20 drop\n}"),
  ];
  const values = variables({ port: 8443, spool: "/nowhere", logs: "/nowhere", findings: "" });
  const script = scriptBeside(new URL("../../../../infra/cli/trace/state.ts", import.meta.url).href, "state.sh");
  const { stdout } = inNamespace(`nft -f - <<'RULES'\n${tables.join("")}RULES\n${values}\n${script}`);
  expect(parseState(stdout, stack, host).drops).toEqual([
    "inet other_policy in: policy drop",
    "inet other_port in: tcp dport 8443 drop",
    "inet other_set in: tcp dport { 22, 8443 } reject",
    "inet other_range in: tcp dport 8000-9000 drop",
    "inet other_jump far: ip saddr 173.245.48.0/20 drop",
  ]);
});

test("a host in order has no difference; one that differs is named by its first line", () => {
  expect(parsed({}).differences).toEqual([]);
  const differing = probeOf(layersOf(stack, host), { "pushgate-nginx.service is": "masked inactive" });
  expect(parsed({ probe: differing }).differences).toEqual([
    {
      layer: "proxy",
      ...{ about: "pushgate-nginx.service", found: "masked inactive" },
      what: 'pushgate-nginx.service is: declared is "enabled active", the host reports "masked inactive"',
    },
  ]);
});

test("room and the guard's findings are read without control characters, and the prefix of commands has sudo", () => {
  const state = parsed({
    ...{ spool: "100 7 ro,relatime\n", drops: "inet \u001b[2Jother in: drop\n" },
    findings: "\n1793527200\tslice\tit admits\tremove it\n1e99\t\u001b[2Jx\n",
  });
  expect(state).toMatchObject({
    ssh: "ssh deploy@web1 sudo",
    spool: { freeKiB: 100, freeFiles: 7, readOnly: true },
    findings: [
      { time: "2026-11-01T10:00:00.000Z", code: "slice", what: "it admits", fix: "remove it" },
      { time: "unknown time", code: "?[2Jx", what: "", fix: "" },
    ],
    drops: ["inet ?[2Jother in: drop"],
    sockets: [{ unit: "pushgate-receiver-github.socket", hooks: ["site"] }],
  });
});

test.each(["", "state", "state probe %%%", "state __proto__ e30=", "state findings bnVsbA==\nstate probe bnVsbA=="])(
  "an answer that is cut or forged gives no state and throws nothing: %j",
  (text) => expect(parseState(text, stack, host).differences.map(({ layer }) => layer)).toEqual(["probe"]),
);
