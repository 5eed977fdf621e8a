/**
 * hugo's command line and environment, for its unit and for the tests' fake of it. Flags and HUGO_ variables outrank the
 * site's own configuration (tested with a site that opens both policies).
 */

export type Folders = {
  readonly source: string;
  readonly content: string;
  readonly destination: string;
  readonly cache: string;
};

/**
 * `--noBuildLock`: the source is read-only. `--noChmod`, `--noTimes`: the destination is another account's folder, whose
 * times hugo may not set, and it fails where it may not. `--minify` is the job.
 */
export const hugoArguments = ({ source, content, destination, cache }: Folders): readonly string[] => [
  "--minify",
  "--noBuildLock",
  "--noChmod",
  "--noTimes",
  "--source",
  source,
  "--contentDir",
  content,
  "--destination",
  destination,
  "--cacheDir",
  cache,
];

/** A list as hugo reads it from a variable: JSON; of none, the word that closes the policy. */
const policy = (allowed: readonly string[]): string => (allowed.length === 0 ? "none" : JSON.stringify(allowed));

export const hugoEnvironment = (
  cache: string,
  { exec, http }: { readonly exec: readonly string[]; readonly http: readonly string[] },
): Readonly<Record<string, string>> => ({
  HUGO_ENABLEGITINFO: "false",
  HUGO_ENVIRONMENT: "production",
  HUGO_RESOURCEDIR: `${cache}/resources`,
  HUGO_SECURITY_EXEC_ALLOW: policy(exec),
  HUGO_SECURITY_HTTP_URLS: policy(http),
});
