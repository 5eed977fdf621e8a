/** Where the git hosts deliver: one webhook for each hook and host. */
import { webhookUrls } from "../config/derived.ts";
import { hooksNamed, type Options, ofStack, targets } from "./command.ts";
import { type Declared, readSecrets, readStack, UserError } from "./stack.ts";

export type Place = {
  readonly hook: Declared["hooks"][number];
  /** Its name. */
  readonly host: string;
  readonly url: string;
  /** The current one; null where none is set. */
  readonly secret: string | null;
};

/** Of the hook of this name or of all, on the hosts that are meant. */
export async function placesOf(name: string | undefined, options: Options): Promise<Place[]> {
  const { hosts, hooks } = await readStack(ofStack(options));
  const secrets = await readSecrets(ofStack(options));
  const named = hooksNamed(hooks, name);
  return webhookUrls({ hosts: targets(hosts, options), hooks: named }).map(({ hook, ...one }) => ({
    ...one,
    hook: named.find((each) => each.name === hook)!,
    secret: secrets[hook]?.current ?? null,
  }));
}

export const nameOfPlace = ({ hook, host }: Place): string => `${hook.name} on ${host}`;

/** Throws a UserError where the hook has no secret yet. */
export function wantedOf({ hook, url, secret }: Place): { readonly url: string; readonly secret: string } {
  if (secret === null)
    throw new UserError(`${hook.name} has no secret. Run npx pushgate secret rotate ${hook.name}, and npx pulumi up.`);
  return { url, secret };
}
