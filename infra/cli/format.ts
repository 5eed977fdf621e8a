/** Times and sizes as a person reads them. */

const steps = [
  ["day", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** "340 ms", "1.2 s", "5 min", "3 h", "12 days" */
export function duration(milliseconds: number): string {
  const [unit, size] = steps.find(([, size]) => milliseconds >= size) ?? ["ms", 1];
  const count = milliseconds / size;
  const rounded = unit === "s" && count < 10 ? count.toFixed(1) : String(Math.round(count));
  return `${rounded} ${unit}${unit === "day" && rounded !== "1" ? "s" : ""}`;
}

/** "3 h ago (2026-11-21T10:00:00Z)"; both ISO 8601. Returns a text that is not a date unchanged. */
export function age(at: string, now: string): string {
  const passed = Date.parse(now) - Date.parse(at);
  if (Number.isNaN(passed)) return at;
  return `${passed < 1_000 ? "just now" : `${duration(passed)} ago`} (${at.replace(/\.\d+Z$/, "Z")})`;
}

export function size(bytes: number): string {
  const step = Math.min(3, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return step === 0 ? `${bytes} B` : `${(bytes / 2 ** (10 * step)).toFixed(1)} ${["", "KiB", "MiB", "GiB"][step]}`;
}
