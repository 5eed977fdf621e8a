/** The answer of a probe as rows, without a host: what is read of each kind, and which answers are none. */
import { describe, expect, test } from "vitest";
import { parseProbe, trimmed } from "../../../infra/apply/report.ts";

type Row = readonly unknown[];
const answer = (...rows: readonly Row[]) => JSON.stringify({ pushgate: 1, rows: [...rows, ["end"]] });
const base64 = (text: string) => Buffer.from(text).toString("base64");

/** probe.test.ts reads what the real script prints. */
test("each row is of its layer, and what no row names is empty", () => {
  const report = parseProbe(
    answer(
      ["system64", "odd", 1, 3, base64("\u001b[2J it's \n")],
      ["listens", 443, "nginx", "nginx.service"],
      ["listens", 22, "", ""],
      ["ssh", "2222"],
      ["stamp", "proxy", "absent-0.1.0-0123456789ab"],
      ["owned64", "proxy", base64("/etc/ä")],
      ["file", "/etc/b", "symbolic link", "777", "root:root"],
      ["fact", "proxy", 0, 3, "inactive"],
    ),
    ["proxy", "new"],
  );
  const files = { "/etc/b": { type: "symbolic link", mode: "777", owner: "root:root" } };
  const proxy = { name: "proxy", stamp: "absent-0.1.0-0123456789ab", applied: [], files, owned: ["/etc/ä"] };
  expect(report).toEqual({
    system: { odd: { output: "?[2J it's", status: 3 } },
    listeners: [
      { port: 443, process: "nginx", unit: "nginx.service" },
      { port: 22, process: "", unit: "" },
    ],
    sshPort: 2222,
    layers: {
      proxy: { ...proxy, facts: [{ output: "inactive", status: 3 }] },
      new: { name: "new", applied: [], files, owned: [], facts: [] },
    },
  });
  expect("stamp" in report.layers.new!).toBe(false);
  // Through sudo.
  for (const rows of [[], [["ssh", ""]]]) expect("sshPort" in parseProbe(answer(...rows), [])).toBe(false);
});

describe("an answer that is not whole is rejected, and quoted in part", () => {
  const rejected = (stdout: string) => () => parseProbe(stdout, []);

  test.each([
    ["", "it is empty"],
    // At most 200 characters, and no terminal control.
    ["\u001b[2JWelcome!\n{}", "it begins: ?[2JWelcome!?{}"],
    ["x".repeat(300), `it begins: ${"x".repeat(200)}`],
  ])("%j", (stdout, says) => {
    const unknown = "the probe's answer is not whole, so the state of this host is unknown; ";
    expect(rejected(stdout)).toThrow(unknown + says);
  });

  test.each<[string, string]>([
    ["no end", JSON.stringify({ pushgate: 1, rows: [] })],
    ["an end before the last row", JSON.stringify({ pushgate: 1, rows: [["end"], ["ssh", "22"]] })],
    ["another version", JSON.stringify({ pushgate: 2, rows: [["end"]] })],
    ["a key more", JSON.stringify({ pushgate: 1, more: 1, rows: [["end"]] })],
    ["an unknown row", answer(["elsewhere", "x"])],
    ["an unknown encoding", answer(["owned64x", "x", ""])],
    ["a row with a cell more", answer(["ssh", "22", "x"])],
    ["a port as text", answer(["listens", "443", "nginx", "nginx.service"])],
    ["half a status", answer(["fact", "x", 0, 0.5, ""])],
    ["a fact in place 20,000,000", answer(["fact", "x", 20_000_000, 0, ""])],
    ["a fact before the first", answer(["fact", "x", -1, 0, ""])],
    ["a path of 4,097 characters", answer(["owned", "x", "/".repeat(4_097)])],
    ["an encoded text of 64 KiB and a byte", answer(["text64", "/etc/a", base64("x".repeat(65_537))])],
    ["a row of six cells", answer(["file", "/etc/a", "", "", "", ""])],
    ["50,001 rows", answer(...Array.from({ length: 50_000 }, () => ["ssh", "22"]))],
  ])("with %s", (_, stdout) => {
    expect(rejected(stdout)).toThrow("the probe's answer has an unknown shape");
  });

  test("at its first unknown row, so that a host cannot keep the run busy", () => {
    const stdout = answer(...Array.from({ length: 49_999 }, () => ["x"]));
    const started = process.cpuUsage();
    expect(rejected(stdout)).toThrow("unknown shape");
    expect(process.cpuUsage(started).user).toBeLessThan(500_000);
  });
});

test("trimmed removes the blanks that apply.sh removes, and no other", () => {
  expect(trimmed(" \t\n\v\f\ra b\n c \r\f\v\n\t ")).toBe("a b\n c");
  expect(trimmed("\u00a0a\u2003")).toBe("\u00a0a\u2003");
});
