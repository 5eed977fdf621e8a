/** What README.md and docs/operating.md say to type, read from their code blocks. */
import { readFileSync } from "node:fs";

export type Typed = {
  readonly section: string;
  /** sh: a command without its comment. yaml: an edit of the stack file, whole. file: another file, whole. */
  readonly kind: "sh" | "yaml" | "file";
  readonly text: string;
};

const repository = new URL("../../", import.meta.url);
export const documentText = (file: string): string => readFileSync(new URL(file, repository), "utf8");

/** In the document's order. A comment begins at a "#" with a blank before and behind it. */
export function typedIn(file: string): Typed[] {
  return documentText(file)
    .split(/^## /m)
    .slice(1)
    .flatMap((part) => {
      const section = part.slice(0, part.indexOf("\n"));
      return [...part.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].flatMap(([, language, text = ""]): Typed[] => {
        if (language === "ini" || text.startsWith("# .github/")) return [{ section, kind: "file", text }];
        if (language === "yaml") return [{ section, kind: "yaml", text }];
        if (language !== "sh") throw new Error(`${file}, ${section}: a block of ${language} cannot be typed`);
        const lines = text.split("\n").map((line) => line.replace(/(^| +)# .*$/, ""));
        return lines.filter(Boolean).map((line) => ({ section, kind: "sh", text: line }));
      });
    });
}
