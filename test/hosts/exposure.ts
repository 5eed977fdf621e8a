/** What `systemd-analyze security` measures of pushgate's services on a host, from 0 to 10. */
import type { Host } from "./lab/host.ts";

/** Service -> score, of all services that pushgate installed. Of a template, `@` is its name's last character. */
export async function exposures(host: Host): Promise<Record<string, number>> {
  const services = await host.read("cd /etc/systemd/system && ls pushgate-*.service");
  const scores = services.split("\n").map(async (name) => {
    const unit = name.replace("@.", "@0.");
    const said = await host.read(`systemd-analyze security --no-pager '${unit}'`);
    const [, score] = /Overall exposure level for \S+: ([\d.]+)/.exec(said) ?? [];
    return [name.replace(/^pushgate-|\.service$/g, ""), Number(score)] as const;
  });
  return Object.fromEntries(await Promise.all(scores));
}
