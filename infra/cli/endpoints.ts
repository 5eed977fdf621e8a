/** Where the git hosts deliver: one webhook for each hook and host. */
import { webhookUrls } from "../config/derived.ts";
import { UserError } from "../user-error.ts";
import { hooksNamed, type Options, ofStack, targets } from "./command.ts";
import { type Declared, readSecrets, readStack } from "./stack.ts";

export type Endpoint = Readonly<{ hook: Declared["hooks"][number]; host: string; url: string; secret: string | null }>;

export async function endpointsOf(name: string | undefined, options: Options) {
  const secrets = await readSecrets(ofStack(options));
  const { hosts, hooks: all } = await readStack(ofStack(options));
  const on = targets(hosts, options);
  const hooks = hooksNamed(all, name);
  const endpoints = webhookUrls({ hosts: on, hooks }).map(({ hook: name, ...one }): Endpoint => {
    const hook = hooks.find((each) => each.name === name)!;
    return { ...one, hook, secret: secrets[name]?.current ?? null };
  });
  return { hooks, secrets, endpoints };
}

export const nameOfEndpoint = ({ hook, host }: Endpoint): string => `${hook.name} on ${host}`;

export function wantedOf({ hook, url, secret }: Endpoint): { readonly url: string; readonly secret: string } {
  if (secret === null)
    throw new UserError(`${hook.name} has no secret. Run npx pushgate secret rotate ${hook.name}, and npx pulumi up.`);
  return { url, secret };
}
