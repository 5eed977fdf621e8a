/** Back to a release that is kept, if it is still what it was. Neither the remote nor hugo is asked. */
import { currentRelease, switchTo } from "./current.ts";
import { heldHead, hold, letGo } from "./held.ts";
import { readManifest, releases } from "./manifest.ts";
import { lastHead, type Site } from "./repository.ts";
import { listed, refused } from "./setback.ts";
import { differences } from "./verify.ts";

/** Returns the commit of what is published now, and what to say. Throws Setback with nothing changed. */
export async function rollBack(site: Site, release: string): Promise<{ commit: string | null; reason: string }> {
  const { places } = site;
  const known = releases(places);
  const manifest = known.includes(release) ? readManifest(places, release) : undefined;
  if (!manifest) throw refused(`there is no release ${listed([release])}: there are ${listed(known)}`);
  const differ = differences(places, manifest);
  if (differ.length > 0)
    throw refused(`${release} is not what was published: ${listed(differ)} differ; roll back to another, or push`);
  const current = currentRelease(places);
  const head = (await lastHead(site)) ?? (current ? readManifest(places, current)?.commit : null) ?? null;
  // Before the switch: a builder that is killed in between must not publish again what was turned away from.
  if (head === manifest.commit) letGo(places);
  else if (head !== null) hold(places, head);
  if (current !== release) switchTo(places, release);
  const turned = heldHead(places);
  return {
    commit: manifest.commit,
    reason: turned
      ? `${release} is published; ${turned.slice(0, 12)} is not published again, a newer commit is`
      : `${release} is published`,
  };
}
