/** README's table of rejections, generated from the rows of infra/trace. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type Outcome, outcomes, pathLayers, type Shape } from "../../../infra/trace/outcomes.ts";

/** What a group of rows shows: answers by the same program, for the same layer. */
type Shown = { readonly by: string; readonly challenge: boolean; readonly outcome: Outcome; readonly shapes: Shape[] };

const many = 20;
/** A page of the zone's own may have any status: it is a sign of nothing. */
const telling = ({ status, page }: Shape): boolean => !(status.length > many && page?.length === 0);

const shownBy = (outcome: Outcome): Shown[] =>
  [
    ...Map.groupBy(outcome.answer.filter(telling), ({ by = "", challenge = false }) => `${by} ${challenge}`).values(),
  ].map((shapes) => ({ by: shapes[0]!.by ?? "", challenge: shapes[0]!.challenge ?? false, outcome, shapes }));

/** "403, 429", and "2xx" in place of a hundred numbers. */
function statusesOf(shown: readonly Shown[]): string {
  const texts = shown
    .flatMap(({ shapes }) => shapes)
    .flatMap(({ status }) => status.map((one) => (status.length > many ? `${Math.floor(one / 100)}xx` : `${one}`)))
    .map((text) => (text === "0" ? "no answer" : text));
  return [...new Set(texts)].sort().join(", ");
}

const reasons = (group: readonly Shown[]): string => {
  const byStatus = Map.groupBy(group, (shown) => statusesOf([shown]));
  const texts = [...byStatus].map(([statuses, those]) => {
    const names = those.map(({ outcome }) => outcome.name).join(", ");
    return byStatus.size === 1 ? names : `${statuses}: ${names}`;
  });
  return texts.join("; ");
};

function rejections(): string {
  const shown = outcomes.filter(({ layer }) => layer !== "delivered").flatMap(shownBy);
  const rank = ({ by, challenge, outcome: { layer } }: Shown): number =>
    (by === "" ? 0 : 100) + pathLayers.indexOf(layer as never) - (challenge ? 0.5 : 0);
  const groups = Map.groupBy(
    shown.toSorted((a, b) => rank(a) - rank(b)),
    ({ by, challenge, outcome }) => `${by} ${challenge} ${outcome.layer}`,
  );
  const lines = [...groups.values()].map((group) => {
    const { by, challenge, outcome } = group[0]!;
    const statuses = challenge ? `${statusesOf(group)}, \`cf-mitigated: challenge\`` : statusesOf(group);
    return `| ${statuses} | ${by === "" ? "none" : `\`${by}\``} | ${outcome.layer} | ${reasons(group)} |`;
  });
  return ["| the git host shows | `X-Served-By` | rejected by | because of |", "|---|---|---|---|", ...lines].join(
    "\n",
  );
}

/** The table under this heading, to the empty line that ends it. */
const table = /(?<=`X-Served-By` of the answer:\n\n)\|[\s\S]*?(?=\n\n)/;

test("README's table of rejections is generated from the outcomes that trace concludes", async () => {
  const path = "../../../README.md";
  const readme = readFileSync(new URL(path, import.meta.url), "utf8");
  expect(readme).toMatch(table);
  await expect(readme.replace(table, rejections)).toMatchFileSnapshot(path);
});
