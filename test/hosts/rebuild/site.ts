/** A small site: a repository with templates, and a content folder outside any repository. */
import type { Files } from "../../fakes/git-repository.ts";
import type { Host } from "../lab/host.ts";

/** The repository's files; the front page shows `mark`. */
export const siteFiles = (mark = "first"): Files => ({
  "hugo.toml": `baseURL = "https://www.example.org/"
title = "A site"
disableKinds = ["taxonomy", "term", "RSS", "sitemap", "404"]
theme = "plain"
`,
  "layouts/index.html": front(mark),
  "layouts/_default/single.html": "<!doctype html><title>{{ .Title }}</title><h1>{{ .Title }}</h1>{{ .Content }}",
  "layouts/_default/list.html": "<!doctype html><title>{{ .Title }}</title>{{ range .Pages }}{{ .Title }} {{ end }}",
  "static/style.css": "body { margin: 0 }\n",
  "themes/plain/layouts/partials/theme.html": "theme-first",
  "README.md": "A site.\n",
});

export const front = (mark: string): string => `<!doctype html>
<html lang="en"><head><title>{{ .Site.Title }}</title><link rel="stylesheet" href="/style.css"></head><body>
<p>layout-${mark}</p>
{{ .Content }}
<p>{{ partial "theme.html" . }}</p>
{{ range .Site.RegularPages }}<a href="{{ .RelPermalink }}">{{ .Title }}</a>{{ end }}
</body></html>
`;

/** A layout that Hugo finishes by a program's work, if the operator allows npx or postcss. */
export const css = '{{ (resources.FromString "a.css" "a{}" | resources.PostCSS).Content }}';

/** A layout that Hugo never finishes. */
export const endless = "{{ range seq 2000 }}{{ range seq 2000 }}{{ range seq 2000 }}{{ end }}{{ end }}{{ end }}";

export const page = (title: string, text = "words") => `---\ntitle: ${title}\n---\n${text}\n`;

/** The port of each site in the operator's own nginx. */
export const sitePorts = { site: 8080, docs: 8081 } as const;
export type HookName = keyof typeof sitePorts;

/** Of docs, where a test attacks: Hugo may start programs and read addresses, and the limits are small. */
export const openDocs = {
  reconcileMinutes: 60,
  hugo: { exec: ["^npx$", "^postcss$"], http: [".*"] },
  limits: { memoryMiB: 256, tasks: 64 },
};

export const placesOf = (hook: HookName) => ({
  webRoot: `/srv/www/${hook}`,
  /** The one of docs is in a home that its owner alone may enter. */
  content: { site: "/srv/content/site", docs: "/home/guest/content" }[hook],
  spool: `/var/spool/pushgate/${hook}`,
  requests: `/var/spool/pushgate-publish/${hook}`,
  rootRequests: `/var/spool/pushgate-root/${hook}`,
  taken: `/var/lib/pushgate-sites/${hook}/work/taken`,
  paused: `/var/lib/pushgate-sites/${hook}/work/paused`,
  site: `/var/lib/pushgate-sites/${hook}`,
});

/** Sets up what the operator had before pushgate: an nginx that serves the web root, and a content folder. */
export async function prepareOperator(host: Host): Promise<void> {
  const servers = (["site", "docs"] as const).map(
    (hook) => `server { listen ${sitePorts[hook]} default_server; root ${placesOf(hook).webRoot}; }\n`,
  );
  await host.writeFile("/etc/nginx/conf.d/sites.conf", servers.join(""));
  await host.inside(
    "mkdir -p /srv/www && rm -f /etc/nginx/sites-enabled/default && nginx -q -t && systemctl restart nginx",
  );
  await prepareContent(host);
}

/** The content folder of each hook, of an ordinary account; and the group whose members may request a build of docs. */
export async function prepareContent(host: Host): Promise<void> {
  await host.inside("groupadd writers && usermod -aG writers guest");
  for (const folder of [placesOf("site").content, placesOf("docs").content])
    await host.inside(`set -e
mkdir -p '${folder}/posts' && cd '${folder}'
printf %s '${page("Home")}' >_index.md && printf %s '${page("One")}' >posts/one.md
chown -R guest:writers . && chmod -R g=rX .`);
  await host.inside("chown guest:guest /home/guest && chmod 0700 /home/guest");
}
