/** The commands of a Makefile's targets, by "make <target>": those of the targets that it needs, and its own. Pure. */
export function targetsOf(makefile = ""): Readonly<Record<string, string>> {
  const text = makefile.replaceAll("\r", "").replace(/\\\n\s*/g, " ");
  const assigned = [...text.matchAll(/^(\w+) *[:?]?= *(.{0,200})$/gm)].map(([, name, value]) => [name, value] as const);
  const variables = new Map([["MAKE", "make"], ...assigned]);
  const targets = new Map<string, { needs: string[]; commands: string[] }>();
  let last: string[] = [];
  for (const line of text.replace(/\$[({](\w+)[)}]/g, (as, name) => variables.get(name) ?? as).split("\n")) {
    const [, name, needs = ""] = /^([\w.-]+) *:(?!=)([^#=]*)(?:#|$)/.exec(line) ?? [];
    if (name === undefined) {
      if (line.startsWith("\t")) last.push(line.replace(/^\t[@+-]*/, ""));
      continue;
    }
    const target = targets.get(name) ?? { needs: [], commands: [] };
    targets.set(name, target);
    target.needs.push(...needs.split(/\s+/));
    last = target.commands;
  }
  const all = [...targets].map(([name, { needs, commands }]) => {
    const before = needs.flatMap((need) => (targets.has(need) ? [`make ${need}`] : [])); // the others are files
    return [`make ${name}`, [...before, ...commands].join("\n")] as const;
  });
  const [first] = all.filter(([target]) => !target.startsWith("make ."));
  return Object.fromEntries([...all, ...(first ? [["make", first[1]] as const] : [])]);
}
