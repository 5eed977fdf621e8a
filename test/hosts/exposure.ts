/** What `systemd-analyze security` measures of pushgate's services on a host, from 0 to 10. */
import type { Host } from "./lab/host.ts";

/** Service -> score, of all services that pushgate installed: instances that have a drop-in, and other templates. */
export async function exposures(host: Host): Promise<Record<string, number>> {
  const found = await host.read(
    "cd /etc/systemd/system && ls -d pushgate-*.service pushgate-*@?*.service.d 2>/dev/null || :",
  );
  const names = found.split("\n").map((name) => name.replace(/\.d$/, ""));
  const hasInstance = (name: string) => names.some((one) => one !== name && one.startsWith(name.replace(/@.*/, "@")));
  const services = names.filter((name) => !(name.includes("@.") && hasInstance(name)));
  const scores = services.map(async (name) => {
    const unit = name.replace("@.", "@0.");
    const said = await host.read(`systemd-analyze security --no-pager '${unit}'`);
    const [, score] = /Overall exposure level for \S+: ([\d.]+)/.exec(said) ?? [];
    return [name.replace(/^pushgate-|\.service$/g, ""), Number(score)] as const;
  });
  return Object.fromEntries(await Promise.all(scores));
}
