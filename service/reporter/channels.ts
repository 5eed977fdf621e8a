/** The two recipients of reports: the git host's API, and the URL of `site.notify`. */
import { createHash } from "node:crypto";
import { statusRequest } from "../git-hosts/api/api.ts";
import { apis } from "../git-hosts/api/index.ts";
import { repositoryOf } from "../git-hosts/repository.ts";
import { standardSignature } from "../git-hosts/standard-signature.ts";
import type { Channel, Channels } from "./send.ts";
import type { Reporter } from "./settings.ts";

export const channelsOf = ({ settings, secrets }: Reporter): Channels => {
  const [status, notify] = [statusChannel({ settings, secrets }), notifyChannel({ settings, secrets })];
  return { ...(status && { status }), ...(notify && { notify }) };
};

function statusChannel({ settings: { status, site }, secrets: { status: token } }: Reporter): Channel | undefined {
  if (status === undefined || token === undefined) return undefined;
  const repository = repositoryOf(status.repository);
  return {
    host: repository.host,
    secret: token,
    postOf({ commit, state, reason }) {
      if (commit === null) return undefined;
      const result = { commit, state, reason, context: status.context, url: site };
      const request = statusRequest(apis[status.gitHost], repository, result, token);
      return request && { ...request, body: JSON.stringify(request.body) };
    },
  };
}

/** Signed as Standard Webhooks: the recipient finds a replay by the time, and a report that came twice by its id. */
function notifyChannel({ settings, secrets: { notify: key } }: Reporter): Channel | undefined {
  const { hook, notify, site } = settings;
  if (notify === undefined || key === undefined) return undefined;
  return {
    host: new URL(notify).host,
    secret: key,
    postOf({ commit, state, reason, at }) {
      const turn = state === "success" ? "succeeding" : "failing";
      const body = JSON.stringify({ hook, site: site ?? null, state: turn, commit, reason, time: at });
      const id = `msg_${createHash("sha256").update(body).digest("hex").slice(0, 32)}`;
      return { url: notify, headers: standardSignature.sign(key, id, body), body };
    },
  };
}
