/** The two recipients of reports: the git host's API, and what `site.notify` names. */
import { statusRequest } from "../git-hosts/api/api.ts";
import { apis } from "../git-hosts/api/index.ts";
import { repositoryOf } from "../git-hosts/repository.ts";
import { formats } from "./formats.ts";
import type { Channel, Channels } from "./send.ts";
import type { Reporter } from "./settings.ts";

export const channelsOf = ({ settings: { hook, site, status, notify }, secrets }: Reporter): Channels => ({
  ...(status && secrets.status && { status: statusChannel(status, secrets.status, site) }),
  ...(notify && secrets.notify && { notify: notifyChannel(notify, secrets.notify, { hook, site: site ?? null }) }),
});

type Status = NonNullable<Reporter["settings"]["status"]>;
type Notify = NonNullable<Reporter["settings"]["notify"]>;

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

function notifyChannel({ url, format }: Notify, secret: string, of: { hook: string; site: string | null }): Channel {
  return {
    host: new URL(url).host,
    secret,
    postOf: ({ commit, state, reason, at }) => formats[format](url, secret, { ...of, commit, state, reason, at }),
  };
}
