/** The recipients of reports: the git host's API, what `site.notify` names, and Cloudflare's cache. */
import { statusRequest } from "../git-hosts/api/api.ts";
import { apis } from "../git-hosts/api/index.ts";
import { repositoryOf } from "../git-hosts/repository.ts";
import { type Event, formats } from "./formats.ts";
import type { Channel, Channels } from "./send.ts";
import type { Reporter } from "./settings.ts";

export const channelsOf = ({ settings: { hook, site, status, notify, purge }, secrets }: Reporter): Channels => ({
  ...(status && secrets.status && { status: statusChannel(status, secrets.status, site) }),
  ...Object.fromEntries(
    notify.map((one) => [
      `notify.${one.name}`,
      notifyChannel(one, secrets.notify[one.name] ?? "", { hook, site: site ?? null }),
    ]),
  ),
  ...(purge && site && secrets.purge && { purge: purgeChannel(purge, secrets.purge, site) }),
});

type Status = NonNullable<Reporter["settings"]["status"]>;
type Notify = Reporter["settings"]["notify"][number];

function statusChannel({ gitHost, repository, context }: Status, token: string, site: string | undefined): Channel {
  const at = repositoryOf(repository);
  return {
    host: at.host,
    secret: token,
    postOf({ commit, state, reason, url = site }) {
      if (commit === null || state === "published" || state === "test") return undefined;
      const request = statusRequest(apis[gitHost], at, { commit, state, reason, context, url }, token);
      return request && { ...request, body: JSON.stringify(request.body) };
    },
  };
}

function notifyChannel({ url, format, socket }: Notify, secret: string, of: Pick<Event, "hook" | "site">): Channel {
  return {
    host: socket === undefined ? new URL(url).host : "sendmail",
    ...{ secret, socket },
    postOf: ({ commit, state, reason, at }) => formats[format](url, secret, { ...of, commit, state, reason, at }),
  };
}

/** https://developers.cloudflare.com/api/resources/cache/methods/purge */
function purgeChannel(url: string, token: string, site: string): Channel {
  return {
    host: new URL(url).host,
    secret: token,
    postOf({ paths, state }) {
      if (state === "test") return undefined;
      const what = paths ? { files: paths.map((path) => urlOf(site, path)) } : { hosts: [new URL(site).hostname] };
      return { url, headers: { authorization: `Bearer ${token}` }, body: JSON.stringify(what) };
    },
  };
}

/** As a browser requests it: the path is below the site, whatever is in it. */
const urlOf = (site: string, path: string): string =>
  Object.assign(new URL(site), { pathname: path.replaceAll("%", "%25") }).href;
