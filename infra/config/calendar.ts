/**
 * The shape of systemd's calendar expressions, as in systemd.time(7): `[weekdays] [date] [time] [zone]`, or one of the
 * words for a period. Whether a date exists, and comes again, is systemd's to say: the host is queried in preview.
 */
const words = /^(minutely|hourly|daily|weekly|monthly|quarterly|semiannually|yearly|annually)$/;

const day = "(mon(day)?|tue(s(day)?)?|wed(nesday)?|thu(r(s(day)?)?)?|fri(day)?|sat(urday)?|sun(day)?)";
const days = `${day}((\\.\\.|-|,)${day})*,?`;
/** A star, a number or a range, each with a step; several with commas. `digits` is how many a number has. */
const part = (digits: string): string => {
  const number = `\\d{${digits}}(\\.\\d{1,6})?`;
  const one = `(\\*|${number}(\\.\\.${number})?)(/\\d{1,4}(\\.\\d{1,6})?)?`;
  return `${one}(,${one})*`;
};
const date = `(${part("2,4")}-)?${part("1,2")}[-~]${part("1,2")}`;
const time = `${part("1,2")}:${part("1,2")}(:${part("1,2")})?`;
const zone = "(UTC|[A-Z][A-Za-z0-9_+-]+(/[A-Z][A-Za-z0-9_+-]+)*)";

const dated = new RegExp(`^(${days}( |$))?(${date}( |$))?(${time}( |$))?$`, "i");
const zoned = new RegExp(` ${zone}$`);

/** Up to 100 characters, and none that a unit file or a shell reads as its own. */
export function isCalendar(text: string): boolean {
  if (text.length > 100 || text === "" || text !== text.trim()) return false;
  const local = text.replace(zoned, "");
  return words.test(local) || dated.test(local);
}
