/** What a package-lock.json may name. */
import { expect, test } from "vitest";
import { lockFault } from "../../../../service/builder/build/lock-file.ts";

const integrity = "sha512-quJQXlTSUGL2LH9SUXo8VwsY4soanhgo6LNSm84E1LBcE8s3O0wpdiRzyR9z/ZZJMlMWv37qOOb9pdJlMUEKFQ==";
const release = { version: "1.0.0", resolved: "https://registry.npmjs.org/a/-/a-1.0.0.tgz", integrity };
const own = { name: "site", version: "1.0.0", devDependencies: { a: "^1.0.0" } };
const lock = (packages: object) => JSON.stringify({ lockfileVersion: 3, packages: { "": own, ...packages } });

/** As npm writes it of a workspace. */
const workspace = (resolved = "packages/a") => ({
  "node_modules/@s/a": { resolved, link: true },
  [resolved]: { version: "0.1.0", dependencies: { b: "1.0.0" } },
});
const has = (path: string) => ["packages/a/package.json", "a/package.json"].includes(path);

const at = (change: object) => ({ "node_modules/a": { ...release, ...change } });

test.each<[string, object]>([
  ["a release", at({})],
  ["no package", {}],
  ["a scope, in another package", { "node_modules/a/node_modules/@s.c/b.js": release }],
  ["a registry of one's own", at({ resolved: "https://npm.example.org/a" })],
  ["no address, which npm may leave out", at({ version: "1.0.0-rc.1+b", resolved: undefined })],
  ["an alias", at({ name: "@s/b" })],
  ["a bundled package", { ...at({}), "node_modules/a/node_modules/b": { version: "1.0.0", inBundle: true } }],
  ["another platform's", at({ optional: true, os: ["darwin"], cpu: ["arm64"] })],
  ["an install script, which does not run", at({ hasInstallScript: true })],
  ["a workspace", { ...at({}), ...workspace() }],
  ["a workspace at the top of the repository", workspace("a")],
  ["digests of an old package", at({ integrity: `sha1-hHUeocBhwoHeXQk1mWWJ7hJqVGA= ${integrity}` })],
])("it may have %s", (_, packages) => expect(lockFault(lock(packages), has)).toBeUndefined());

const foreign = (said: string) => `package-lock.json names what is no release of a registry: ${said}. Use a release`;
test.each<[said: string, packages: object]>([
  ...[
    "git+ssh://git@github.com/a/a.git#5c0d3c3",
    "file:../a",
    "http://registry.npmjs.org/a/-/a-1.0.0.tgz",
    "https:///a",
    "false",
  ].map((resolved): [string, object] => [foreign(`a (${resolved})`), at({ resolved })]),
  [foreign("a (git+ssh://x/y)"), at({ version: "git+ssh://x/y", inBundle: true, resolved: undefined })],
  [foreign("a (file:../b 1.0.0)"), at({ name: "file:../b" })],
  [foreign("a (undefined)"), at({ version: undefined })],
  [foreign("a (undefined)"), { "node_modules/a": null }],
  [foreign("a (a folder)"), { "node_modules/a": { link: true, resolved: "packages/a" } }],
  [foreign("b (a folder)"), { ...workspace(), "packages/a/node_modules/b": release }],
  [
    "package-lock.json needs packages/b/package.json, which the repository does not have. Commit",
    workspace("packages/b"),
  ],
  ...["../a", "packages/../..", "/etc", ".", "a\\b"].map((path): [string, object] => [
    foreign(`@s/a (a folder), ${path} (a folder)`),
    workspace(path),
  ]),
  ...["packages/a", "../a", "node_modules/../a", "node_modules/a/../../../b", "node_modules/.bin"].map(
    (path): [string, object] => [foreign(`${path.replace("node_modules/", "")} (a folder)`), { [path]: release }],
  ),
  [foreign("a (a folder)"), { "/node_modules/a": release }],
  [
    foreign("a (a folder), b (a folder), c (a folder), d (a folder), e (a folder) and 1 more"),
    Object.fromEntries([..."abcdef"].map((one) => [one, {}])),
  ],
  ["package-lock.json has no digest (integrity) of node_modules/a. Run rm", at({ integrity: undefined })],
  ["package-lock.json has no digest (integrity) of node_modules/a. Run rm", at({ integrity: `md5-AAAA ${integrity}` })],
])("%s", (said, packages) =>
  expect(lockFault(lock(packages), has)).toMatch(new RegExp(`^${said.replace(/[^\w ]/g, "\\$&")}`)),
);

test.each([
  ["{", "is no JSON. Run rm"],
  ["null", 'has no "packages": npm 6'],
  ['{ "lockfileVersion": 1, "dependencies": {} }', 'has no "packages": npm 6 or an older one wrote it. Run rm'],
])("%s %s", (text, said) => expect(lockFault(text)).toContain(`package-lock.json ${said}`));
