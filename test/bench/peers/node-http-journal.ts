/** The same with the receiver's own journal: a line for each request. */
import { openJournal } from "../../../service/journal.ts";
import { serve } from "./http.ts";

serve(openJournal((lines) => process.stdout.write(lines)));
