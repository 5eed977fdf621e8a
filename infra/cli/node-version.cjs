// Plain JavaScript, so that an old Node reads as far as the line that says what is needed.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(
    `pushgate needs Node 22.18 or later, and this is ${process.version}. On Linux \`npm ci\` installs one, which npm and npx find.`,
  );
  process.exit(1);
}
