/**
 * What a site may take on the disk, in shares of the largest release (`site.limits.releaseMiB`). The generator's output, the
 * release made of it and the published one are a share each; the fourth is for clone, checkout, cache and the former
 * releases, which the builder removes where that share is too small (room.ts).
 */
export const shares = {
  ofSite: 4,
  /** While the generator or git writes: a release is made only after that. */
  whileWriting: 3,
  /** Before a run: the generator's output and the release made of it need the other two. */
  beforeRun: 2,
  /** Of the cache alone, before a run. */
  ofCache: 1 / 4,
} as const;
