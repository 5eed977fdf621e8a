/** The settings every pure test renders: one host, two git hosts, so two source sets. */
import { networks } from "../infra/networks.ts";
import type { Host, Settings } from "../infra/settings.ts";

export const example: Settings = {
  zone: "example.org",
  edge: { plan: "pro" },
  hosts: [
    {
      name: "web1",
      ssh: "root@web1.example.org",
      sudo: false,
      address: "203.0.113.10",
      address6: "2001:db8::10",
      hostname: "hooks.example.org",
      originPort: 8443,
      state: "present",
    },
  ],
  hooks: [
    {
      name: "site",
      gitHost: "github",
      published: true,
      sources: networks.githubHooks.cidrs,
      repository: "https://github.com/example/site.git",
      branch: "main",
    },
    {
      name: "docs",
      gitHost: "forgejo",
      published: false,
      sources: ["198.51.100.0/28"],
      repository: "https://git.example.net/example/docs.git",
      branch: "main",
    },
  ],
  limits: {
    bodyBytes: 5 << 20, // 5 MiB: real pushes of up to 457 kB were seen, GitHub's own cap is 25 MB
    refusalsPerMinute: 60,
    concurrentPerSource: 32,
    proxyRate: 200,
    proxyBurst: 500,
  },
};

export const exampleHost: Host = example.hosts[0]!;
