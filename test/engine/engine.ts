/**
 * Runs the real engine on pushgate's program in a folder with its own state, stack file and PULUMI_HOME, without downloads. In
 * place of a plugin that is not installed the engine finds the fake of test/fakes/plugins.
 */
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { nameOf } from "../../infra/contract.ts";
import { vault, vaultKey } from "../fakes/vault.ts";
import { run as execute } from "../hosts/lab/process.ts";
import { compileCache } from "./compile-cache.ts";
import { findEngine, noEngine, shortRuns } from "./install-engine.ts";
import { stayingPlugins } from "./staying-plugins.ts";

const repository = fileURLToPath(new URL("../..", import.meta.url));
const plugins = fileURLToPath(new URL("../fakes/plugins", import.meta.url));

/** Milliseconds for a test of several runs: each may start the plugins, and the real cloudflare plugin has 350 MB. */
export const patience = 300_000;

/** One change that the engine made or would make: create, update, replace, delete; never same or refresh. */
type Step = {
  readonly op: string;
  /** "command:local:Command" */
  readonly type: string;
  readonly name: string;
  /**
   * The top-level inputs that differ, sorted. What a provider lists beyond inputs is left out: the real one lists each
   * output that the update computes anew, such as a ruleset's `version`.
   */
  readonly changed: readonly string[];
};

type Diagnostic = { readonly severity: string; readonly message: string };

export type Run = {
  /** 0 success, 1 failure, 7 changes despite --expect-no-changes, 255 if a signal ended it. 0 and 7 show no error. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly steps: readonly Step[];
  /** Warnings, errors and log lines; not debug, and not the warning that a plugin comes from PATH. */
  readonly diagnostics: readonly Diagnostic[];
  readonly seconds: number;
};

type Resource = { readonly urn: string; readonly inputs?: object };

export type WorkspaceOptions = {
  /** Another workspace's folder of the same project, or a copy: its state and stack file are the start. */
  readonly from?: string;
  /** `{ "pushgate:hosts": […] }`, typed as in the stack file. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Text, or objects of text. Each text is encrypted by itself, as `pulumi config set --secret --path` does. */
  readonly secrets?: Readonly<Record<string, unknown>>;
  /** Folders that come first on PATH, such as that of a test's `ssh`. */
  readonly path?: readonly string[];
  /** Whether the engine starts the fake plugins for each run, as it does the real ones; otherwise they stay. */
  readonly starts?: true;
  /** Whether a passphrase encrypts the secrets, as `init` has it. Otherwise the fake Vault does. */
  readonly passphrase?: true;
};

export type Workspace = Awaited<ReturnType<typeof workspace>>;

/** Where the plugins are that a person has installed. */
export const pluginCache = join(process.env.PULUMI_HOME ?? join(homedir(), ".pulumi"), "plugins");

/** The folders of the fakes for plugins that are not installed here, for PATH. */
export function fakePlugins(engine: string): string[] {
  const path = (process.env.PATH ?? "").split(delimiter);
  const cached = existsSync(pluginCache) ? readdirSync(pluginCache) : [];
  const needed: [folder: string, executable: string, pattern: RegExp][] = [
    ["nodejs", "pulumi-language-nodejs", /^language-nodejs-v/],
    ["command", "pulumi-resource-command", /^resource-command-v1\.2\.1$/],
    ["cloudflare", "pulumi-resource-cloudflare", /^resource-cloudflare-v6\.17\.0$/],
  ];
  return needed
    .filter(([, executable, pattern]) => {
      const found = [dirname(engine), ...path].some((entry) => existsSync(join(entry, executable)));
      return !found && !cached.some((name) => pattern.test(name));
    })
    .map(([folder]) => join(plugins, folder));
}

/** Variables with which the engine downloads nothing, and does not collect garbage; the program requests no ranges. */
export const engineVariables = {
  ...shortRuns,
  NODE_OPTIONS: `--require ${join(repository, "test/fakes/offline.cjs")}`,
  PULUMI_SKIP_UPDATE_CHECK: "true",
  PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: "true",
  PULUMI_DISABLE_REGISTRY_RESOLVE: "true",
};

/**
 * Puts a file where the engine expects a folder. Otherwise the engine packs and encrypts its debug output there, and a
 * preview takes 1.5 s of a core instead of 0.8.
 */
export const withoutDebugLogs = (home: string): void => writeFileSync(join(home, "logs"), "");

/** `{ a: { b: "x" } }` -> `["a.b=x"]`, the form of `config set-all --path`. */
function leaves(value: unknown, path: string): string[] {
  if (typeof value !== "object" || value === null) return [`${path}=${String(value)}`];
  return Object.entries(value).flatMap(([key, inner]) =>
    leaves(inner, /^[\w-]+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`),
  );
}

type Inputs = { readonly inputs?: object } | null;
type Metadata = { op: string; urn: string; type: string; diffs?: string[] | null; old?: Inputs; new?: Inputs };
type Event = { resourcePreEvent?: { metadata: Metadata }; diagnosticEvent?: Diagnostic };

function readEvents(file: string): Pick<Run, "steps" | "diagnostics"> {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const parsed = text.split("\n").flatMap((line) => (line === "" ? [] : (JSON.parse(line) as Event)));
  const quiet = ["same", "refresh", "read"];
  return {
    steps: parsed
      .flatMap(({ resourcePreEvent }) => resourcePreEvent?.metadata ?? [])
      .filter(({ op }) => !quiet.includes(op))
      .map(({ op, urn, type, diffs, ...states }) => ({
        ...{ op, type, name: nameOf(urn) },
        changed: (diffs ?? []).filter((key) => key in { ...states.old?.inputs, ...states.new?.inputs }).sort(),
      })),
    diagnostics: parsed
      .flatMap(({ diagnosticEvent }) => diagnosticEvent ?? [])
      .filter(({ severity, message }) => severity !== "debug" && !/\busing pulumi-.* from \$PATH/.test(message)),
  };
}

/** The program's own warnings that begin with no host's name, and the provider's of a setting that the API cannot delete. */
const usual =
  /^(the (client|origin) certificate |the zone |the (custom|origin|configuration) rules that |Cloudflare sends from |(GitHub|Bitbucket)'s ranges were not compared|Bot Fight Mode stays off)|cannot be destroyed/;

/** Throws if a run that succeeded shows an error, or a warning that is none of the program's: its display is then red. */
function quiet(run: Run, hosts: readonly { readonly name: string }[]): Run {
  const isOwn = (text: string) => usual.test(text) || hosts.some(({ name }) => text.replace(/:? .*/s, "") === name);
  const loud = run.diagnostics.filter(
    ({ severity, message }) => severity === "error" || (severity === "warning" && !isOwn(message.trim())),
  );
  if ((run.code === 0 || run.code === 7) && loud.length > 0)
    throw new Error(`the run succeeded and shows: ${JSON.stringify(loud)}`);
  return run;
}

/** The environment without the caller's own Pulumi and Cloudflare settings. */
const cleanEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(PULUMI_|CLOUDFLARE_)/.test(name)));

/** Creates a stack. Throws `noEngine` when the engine is not installed. */
export async function workspace(options: WorkspaceOptions = {}) {
  const engine = findEngine();
  if (!engine) throw new Error(noEngine);
  const stack = "test";
  const folder = mkdtempSync(join(tmpdir(), "pushgate-stack-"));
  for (const name of ["state", "home"]) mkdirSync(join(folder, name));
  withoutDebugLogs(join(folder, "home"));
  if (options.from) {
    cpSync(join(options.from, "state"), join(folder, "state"), { recursive: true });
    copyFileSync(join(options.from, `Pulumi.${stack}.yaml`), join(folder, `Pulumi.${stack}.yaml`));
  }

  // The program stays in its own folder, so that its imports and relative paths work.
  const yaml = parse(readFileSync(join(repository, "Pulumi.yaml"), "utf8")) as { main: string };
  writeFileSync(join(folder, "Pulumi.yaml"), stringify({ ...yaml, main: join(repository, yaml.main) }));
  if (existsSync(pluginCache)) symlinkSync(pluginCache, join(folder, "home", "plugins"));

  const fakes = fakePlugins(engine);
  /** The environment of each command; a test may change it. */
  const env: Record<string, string | undefined> = {
    ...cleanEnvironment(),
    PULUMI_HOME: join(folder, "home"),
    PULUMI_BACKEND_URL: `file://${join(folder, "state")}`,
    ...(await vault()),
    PULUMI_CONFIG_PASSPHRASE: "test",
    ...engineVariables,
    // Enables the flag --event-log, which readEvents needs.
    PULUMI_DEBUG_COMMANDS: "true",
    NO_COLOR: "1",
    NODE_COMPILE_CACHE: compileCache,
    PATH: [
      ...[...(options.path ?? []), dirname(engine), ...fakes],
      ...[join(repository, "node_modules", ".bin"), process.env.PATH ?? ""],
    ].join(delimiter),
  };

  const staying =
    options.starts || fakes.length === 0 ? undefined : stayingPlugins(fakes.map((path) => basename(path)));
  let runs = 0;
  const run = (args: readonly string[], events?: string, command = engine): Promise<Run> => {
    const begin = async (found = {}): Promise<Run> => {
      const how = { cwd: folder, env: { ...env, ...found }, check: false, timeout: patience };
      const started = performance.now();
      const ran = await execute(command, args, how);
      return { ...ran, ...readEvents(events ?? ""), seconds: (performance.now() - started) / 1000 };
    };
    // Without events the engine needs no plugin.
    return staying && (events !== undefined || command !== engine) ? staying.during(env, begin) : begin();
  };
  async function operate(...args: string[]): Promise<Run> {
    const events = join(folder, `events-${++runs}.json`);
    const flags = ["--stack", stack, "--non-interactive", "--color", "never", "--event-log", events];
    const { config } = parse(readFileSync(stackFile, "utf8")) as { config?: Record<string, unknown> };
    return quiet(await run([...args, ...flags], events), (config?.["pushgate:hosts"] ?? []) as { name: string }[]);
  }
  async function must(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(args);
    if (code !== 0) throw new Error(`pulumi ${args.slice(0, 2).join(" ")} failed: ${stderr || stdout}`);
    return stdout;
  }

  const stackFile = join(folder, `Pulumi.${stack}.yaml`);
  /** Replaces these keys in the stack file; undefined removes one. */
  function configure(config: Readonly<Record<string, unknown>>): void {
    const file = parse(readFileSync(stackFile, "utf8")) as { config?: Record<string, unknown> };
    // stringify omits a key whose value is undefined.
    writeFileSync(stackFile, stringify({ ...file, config: { ...file.config, ...config } }));
  }
  async function setSecrets(secrets: Readonly<Record<string, unknown>>): Promise<void> {
    const flags = Object.entries(secrets)
      .flatMap(([key, value]) => leaves(value, key))
      .flatMap((leaf) => ["--secret", leaf]);
    if (flags.length > 0) await must("config", "set-all", "--path", "--stack", stack, ...flags);
  }

  const provider = options.passphrase ? "passphrase" : vaultKey;
  if (!options.from) await must("stack", "init", stack, "--non-interactive", "--secrets-provider", provider);
  configure(options.config ?? {});
  await setSecrets(options.secrets ?? {});

  /** The state as text with encrypted secrets, as in the state file. */
  const stateText = () => must("stack", "export", "--stack", stack);
  return {
    ...{ folder, env, stackFile, configure, setSecrets, stateText },
    up: (...flags: string[]) => operate("up", "--yes", "--skip-preview", ...flags),
    preview: (...flags: string[]) => operate("preview", ...flags),
    /** Throws where anything is not as declared. */
    async cleanPreview(): Promise<Run> {
      const run = await operate("preview", "--expect-no-changes");
      if (run.code !== 0) throw new Error(run.stdout + run.stderr);
      return run;
    },
    destroy: (...flags: string[]) => operate("destroy", "--yes", "--skip-preview", ...flags),
    resources: async (): Promise<Resource[]> => JSON.parse(await stateText()).deployment.resources ?? [],
    /** A command of infra/cli, run without a terminal and without an event log. */
    pushgate: (...words: string[]) =>
      run([join(repository, "infra/cli/pushgate.cjs"), ...words, "--stack", stack], undefined, process.execPath),
    /** Any other command, such as `pulumi("stack", "ls")`, without an event log. */
    pulumi: (...args: string[]) => run(args),
    close: () => {
      staying?.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
