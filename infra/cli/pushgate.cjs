#!/usr/bin/env node
// `npx pushgate`.
require("./node-version.cjs");
import("./main.ts");
