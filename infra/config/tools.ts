/** Programs of which a site may name an exact release: where the project publishes its archives, and what is in one. */
import type { Site } from "./schema.ts";

export type ToolName = keyof Site["tools"];
export type Release = NonNullable<Site["tools"][ToolName]>;
export type Architecture = Exclude<keyof Release, "version">;

/** As in the names of archives of Dart Sass and Node. */
const short = { amd64: "x64", arm64: "arm64" } as const;

export const tools = {
  hugo: {
    page: (version: string) => `https://github.com/gohugoio/hugo/releases/download/v${version}`, // its files' folder
    archive: (version: string, architecture: Architecture) => `hugo_extended_${version}_linux-${architecture}.tar.gz`,
    newest: "https://github.com/gohugoio/hugo/releases/latest", // names the newest release
    digests: (version: string) => `hugo_${version}_checksums.txt`, // the release's own list
    ...{ program: "hugo", top: 0 }, // the program's path below so many folders of the archive
  },
  sass: {
    page: (version: string) => `https://github.com/sass/dart-sass/releases/download/${version}`,
    archive: (version: string, architecture: Architecture) =>
      `dart-sass-${version}-linux-${short[architecture]}.tar.gz`,
    newest: "https://github.com/sass/dart-sass/releases/latest",
    ...{ digests: undefined, program: "sass", top: 1 },
  },
  node: {
    page: (version: string) => `https://nodejs.org/dist/v${version}`,
    archive: (version: string, architecture: Architecture) => `node-v${version}-linux-${short[architecture]}.tar.gz`,
    newest: "https://nodejs.org/dist/index.json",
    digests: (_version: string) => "SHASUMS256.txt",
    ...{ program: "bin/node", top: 1 },
  },
} satisfies Record<ToolName, object>;

export const isOlder = (a: string, b: string): boolean => a.localeCompare(b, "en", { numeric: true }) < 0;

export const releasesOf = ({ tools: named }: Pick<Site, "tools">) =>
  (Object.keys(tools) as ToolName[]).flatMap((tool) => {
    const release = named[tool];
    return release === undefined ? [] : [{ tool, release, id: `${tool}-${release.version}` }];
  });

export const archiveUrl = (tool: ToolName, version: string, architecture: Architecture, mirror?: string): string =>
  `${mirror?.replace(/\/$/, "") ?? tools[tool].page(version)}/${tools[tool].archive(version, architecture)}`;
