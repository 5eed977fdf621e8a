/** Programs of which a site may name an exact release: where the project publishes its archives, and what is in one. */
import type { Site } from "./schema.ts";

export type ToolName = keyof Site["tools"];
export type Release = NonNullable<Site["tools"][ToolName]>;
export type Architecture = Exclude<keyof Release, "version">;

type Tool = {
  readonly page: (version: string) => string; // the folder of the release's files
  readonly archive: (version: string, architecture: Architecture) => string;
  readonly newest: string; // names the newest release
  readonly digests?: (version: string) => string; // the release's own list, where it has one
  readonly program: string; // its path below `top` folders of the archive
  readonly top: 0 | 1;
};

/** As in the names of archives of Dart Sass and Node. */
const short = { amd64: "x64", arm64: "arm64" } as const;

export const tools: Readonly<Record<ToolName, Tool>> = {
  hugo: {
    page: (version) => `https://github.com/gohugoio/hugo/releases/download/v${version}`,
    archive: (version, architecture) => `hugo_extended_${version}_linux-${architecture}.tar.gz`,
    newest: "https://github.com/gohugoio/hugo/releases/latest",
    digests: (version) => `hugo_${version}_checksums.txt`,
    program: "hugo",
    top: 0,
  },
  sass: {
    page: (version) => `https://github.com/sass/dart-sass/releases/download/${version}`,
    newest: "https://github.com/sass/dart-sass/releases/latest",
    archive: (version, architecture) => `dart-sass-${version}-linux-${short[architecture]}.tar.gz`,
    program: "sass",
    top: 1,
  },
  node: {
    page: (version) => `https://nodejs.org/dist/v${version}`,
    archive: (version, architecture) => `node-v${version}-linux-${short[architecture]}.tar.gz`,
    newest: "https://nodejs.org/dist/index.json",
    digests: () => "SHASUMS256.txt",
    program: "bin/node",
    top: 1,
  },
};

export const isOlder = (a: string, b: string): boolean => a.localeCompare(b, "en", { numeric: true }) < 0;

export const releasesOf = ({ tools: named }: Pick<Site, "tools">) =>
  (Object.keys(tools) as ToolName[]).flatMap((tool) => {
    const release = named[tool];
    return release === undefined ? [] : [{ tool, release, id: `${tool}-${release.version}` }];
  });

export const archiveUrl = (tool: ToolName, version: string, architecture: Architecture, mirror?: string): string =>
  `${mirror?.replace(/\/$/, "") ?? tools[tool].page(version)}/${tools[tool].archive(version, architecture)}`;
