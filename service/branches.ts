/** Whether a branch is of one of these patterns, in which `*` stands for any characters, as in a refspec of git. */
export const isAmong = (branch: string, patterns: readonly string[]): boolean =>
  patterns.some((pattern) => {
    const [start = "", end] = pattern.split("*");
    if (end === undefined) return branch === pattern;
    return branch.length >= start.length + end.length && branch.startsWith(start) && branch.endsWith(end);
  });
