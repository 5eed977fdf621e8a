/** Packages of test/bench/package.json, which are not installed where the types are checked. */
declare module "@octokit/webhooks";
declare module "express-rate-limit";
declare module "fastify";
