/** How a fault quotes what was found. */

/** A value, quoted; without what comes before an "@", where a password may be. */
export function found(value: unknown): string {
  if (value === "" || (Array.isArray(value) && value.length === 0)) return "is empty";
  if (Array.isArray(value)) return "is a list";
  if (typeof value === "object" && value !== null) return "is an object";
  if (typeof value !== "string") return `is ${value}`;
  const shown = value.replace(/^.*:.*@/s, "…@");
  return `is ${JSON.stringify(shown.length > 80 ? `${shown.slice(0, 80)}…` : shown)}`;
}
