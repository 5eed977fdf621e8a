/** The two recipients of reports: the git host's API, and the URL of `site.notify`. */
import { createHash } from "node:crypto";
import { statusRequest } from "../git-hosts/api/api.ts";
import { apis } from "../git-hosts/api/index.ts";
import { repositoryOf } from "../git-hosts/repository.ts";
import { standardSignature } from "../git-hosts/standard-signature.ts";
import type { Channel, Channels } from "./send.ts";
import type { Reporter } from "./settings.ts";

export const channelsOf = ({ settings: { hook, site, status, notify }, secrets }: Reporter): Channels => ({
  ...(status && secrets.status && { status: statusChannel(status, secrets.status, site) }),
  ...(notify && secrets.notify && { notify: notifyChannel(notify, secrets.notify, { hook, site: site ?? null }) }),
});

type Status = NonNullable<Reporter["settings"]["status"]>;

function statusChannel({ gitHost, repository, context }: Status, token: string, url: string | undefined): Channel {
  const at = repositoryOf(repository);
  return {
    host: at.host,
    secret: token,
    postOf({ commit, state, reason }) {
      if (commit === null) return undefined;
      const request = statusRequest(apis[gitHost], at, { commit, state, reason, context, url }, token);
      return request && { ...request, body: JSON.stringify(request.body) };
    },
  };
}

/** Signed as Standard Webhooks: the recipient finds a replay by the time, and a report that came twice by its id. */
function notifyChannel(url: string, key: string, of: { hook: string; site: string | null }): Channel {
  return {
    host: new URL(url).host,
    secret: key,
    postOf({ commit, state, reason, at }) {
      const turn = state === "success" ? "succeeding" : "failing";
      const body = JSON.stringify({ ...of, state: turn, commit, reason, time: at });
      const id = `msg_${createHash("sha256").update(body).digest("hex").slice(0, 32)}`;
      return { url, headers: standardSignature.sign(key, id, body), body };
    },
  };
}
