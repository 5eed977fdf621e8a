/** The text after an `up`: by host what changed, and what a person does next only where something is to be done. */
import { expect, test } from "vitest";
import { summaryText } from "../../../infra/host/summary.ts";
import { example, exampleHost, served } from "../../fixtures.ts";

const second = { ...exampleHost, name: "web2", hostname: "hooks2.example.org" };
const both = { ...served, hosts: [exampleHost, second] };

test("changed layers are named by host, and webhooks only where a host got secrets", () => {
  expect(summaryText(served, new Map())).toBeUndefined();
  const applied = { web1: ["proxy", "guard"], web2: ["packages", "secrets"] };
  expect(summaryText(both, new Map(Object.entries(applied)))?.split("\n")).toEqual([
    "web1: applied proxy, guard.",
    "web2: applied packages, secrets.",
    "The git host needs these webhooks, with content type application/json and the push event alone:",
    "  site on web2: https://hooks2.example.org/webhook/site",
    "  docs on web2: https://hooks2.example.org/webhook/docs",
    "Enter each with the secret that `npx pushgate hook` prints. Next, push; `npx pushgate status` then shows the build.",
  ]);
  // Without a site there is no build to look at.
  expect(summaryText(example, new Map([["web1", ["secrets"]]]))).toMatch(/prints\. Next, push\.$/);
});

test("a host that is left names the webhooks to remove", () => {
  const hosts = [exampleHost, { ...second, state: "absent" as const }];
  expect(summaryText({ ...both, hosts }, new Map([["web2", ["guard", "secrets"]]]))?.split("\n")).toEqual([
    "web2: pushgate is removed. Installed packages stay.",
    "Remove these webhooks at the git host:",
    "  site on web2: https://hooks2.example.org/webhook/site",
    "  docs on web2: https://hooks2.example.org/webhook/docs",
  ]);
});
