// Prints "salt <hex>", then for each credential its name and the HMAC of its text, or "none" where it does not decrypt.
// The host's node runs it with -e, as openssl would take the HMAC's key from its argv.
// Arguments: the salt's file, the folder of the credentials, their names.
const { execFileSync } = require("node:child_process");
const { createHmac } = require("node:crypto");
const [, saltFile, folder, ...names] = process.argv;
const salt = require("node:fs").readFileSync(saltFile, "utf8");
console.log("salt " + salt);
for (const name of names) {
  let mac = "none";
  try {
    const command = ["decrypt", "--name=" + name.replace(/.*\./, ""), folder + "/" + name, "-"];
    const text = execFileSync("systemd-creds", command, { stdio: ["ignore", "pipe", "ignore"] });
    mac = createHmac("sha256", salt).update(text).digest("hex");
  } catch {}
  console.log(name + " " + mac);
}
