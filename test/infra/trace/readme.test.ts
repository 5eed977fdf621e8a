/** README's table of rejections, generated from the rows of infra/trace. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type Outcome, outcomes, pathLayers, type Shape } from "../../../infra/trace/outcomes.ts";

/** Of one outcome, the answers by one program. */
type Shown = { readonly by: string; readonly signs: string; readonly outcome: Outcome; readonly statuses: string };

const many = 20;
/** A page of the zone's own may have any status: it is a sign of nothing. */
const telling = ({ status, page }: Shape): boolean => !(status.length > many && page?.length === 0);

/** "2xx" in place of a hundred numbers. */
const statusTexts = ({ status }: Shape): string[] =>
  status.map((one) => (status.length > many ? `${Math.floor(one / 100)}xx` : one === 0 ? "no answer" : `${one}`));
const listed = (texts: readonly string[]): string => [...new Set(texts)].sort().join(", ");

function shownBy(outcome: Outcome): Shown[] {
  const groups = Map.groupBy(outcome.answer.filter(telling), ({ by = "", challenge }) => `${by} ${challenge}`);
  return [...groups.values()].map((shapes) => ({
    ...{ by: shapes[0]!.by ?? "", signs: shapes[0]!.challenge ? ", `cf-mitigated: challenge`" : "", outcome },
    statuses: listed(shapes.flatMap(statusTexts)),
  }));
}

function rejections(): string {
  const shown = outcomes.filter(({ layer }) => layer !== "delivered").flatMap(shownBy);
  const rank = ({ by, signs, outcome: { layer } }: Shown): number =>
    (by === "" ? 0 : 100) + pathLayers.indexOf(layer as never) - (signs === "" ? 0 : 0.5);
  const groups = Map.groupBy(
    shown.toSorted((a, b) => rank(a) - rank(b)),
    ({ by, signs, outcome }) => `${by} ${signs} ${outcome.layer}`,
  );
  const lines = [...groups.values()].map((group) => {
    const { by, signs, outcome } = group[0]!;
    const byStatus = [...Map.groupBy(group, ({ statuses }) => statuses)].map(([statuses, those]) => {
      const names = those.map(({ outcome }) => outcome.name).join(", ");
      return those.length === group.length ? names : `${statuses}: ${names}`;
    });
    const all = listed(group.flatMap(({ statuses }) => statuses.split(", ")));
    return `| ${all}${signs} | ${by === "" ? "none" : `\`${by}\``} | ${outcome.layer} | ${byStatus.join("; ")} |`;
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
