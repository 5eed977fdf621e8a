/** GitHub's API: docs.github.com/en/rest. A webhook's secret reads as `********`; a PATCH without it removes it. */
import { isWithin } from "../index.ts";
import { objectOf } from "../payload.ts";
import { type Api, type BuildResult, eventsOf, onOrOff, recordedAnswer, segments, setOrNone, textOf } from "./api.ts";

export const statusBody = ({ state, reason, context, url }: BuildResult) => ({
  ...{ state, description: reason, context, target_url: url },
});

export const github: Api = {
  base: ({ names }) => `https://api.github.com/repos/${segments(names)}`,
  variable: "GITHUB_TOKEN",
  authorization: (token) => ({
    accept: "application/vnd.github+json",
    authorization: `Bearer ${token}`,
    "x-github-api-version": "2022-11-28",
  }),
  webhooks: {
    tokenPage: "your account's Settings > Developer settings > Fine-grained tokens, for this repository only",
    permission: "Webhooks: Read and write",
    list: "hooks?per_page=100",
    settings: ({ active, events, config }) => {
      const { content_type, secret, insecure_ssl } = objectOf(config);
      return {
        "content type": textOf(content_type) || "form",
        events: eventsOf(events),
        active: onOrOff(active),
        "TLS verification": onOrOff(textOf(insecure_ssl) !== "1"),
        secret: setOrNone(secret),
      };
    },
    wanted: () => ({ "content type": "json", events: "push", active: "on", "TLS verification": "on", secret: "set" }),
    configuration: ({ url, secret }) => ({
      ...{ active: true, events: ["push"], config: { url, secret, content_type: "json", insecure_ssl: "0" } },
    }),
    made: { name: "web" },
    change: "PATCH",
    ping: { path: "pings" },
    deliveries: {
      days: 3,
      list: "deliveries",
      again: "attempts",
      perPage: 100,
      read: ({ id, guid, delivered_at, status_code, event }) => ({
        id: textOf(id),
        delivery: textOf(guid),
        kind: textOf(event),
        isPing: event === "ping",
        time: textOf(delivered_at),
        status: Number(status_code) || 0,
      }),
      answer: ({ status_code, response }) => {
        const { headers, payload } = objectOf(response);
        return recordedAnswer(status_code, headers, payload);
      },
    },
    lacks: [],
  },
  status: {
    permission: "Commit statuses: Read and write",
    path: (commit) => `statuses/${commit}`,
    // 422 "description doesn't accept 4-byte Unicode"
    body: (result) => statusBody({ ...result, reason: result.reason.replace(/[\u{10000}-\u{10ffff}]/gu, "?") }),
    longest: 140,
  },
};

/** GHE.com has its API at a name of its own, Enterprise Server below the repository's origin. No token goes elsewhere. */
export const githubEnterprise: Api = {
  ...github,
  base: ({ host, origin, names }) =>
    `${isWithin(host, "ghe.com") ? `https://api.${host}` : `${origin}/api/v3`}/repos/${segments(names)}`,
  variable: "GH_ENTERPRISE_TOKEN",
};
