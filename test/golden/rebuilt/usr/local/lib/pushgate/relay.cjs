// Node loads it before the fetcher and before npm: each TLS connection goes through the builder's relay, and begins with a
// line for that.
const { connect } = require("node:net");
const tls = require("node:tls");
const { connect: encrypt } = tls;
tls.connect = (options, ...more) => {
  const socket = connect("/wanted/relay");
  socket.write(`${options.host}:${options.port}\n`);
  return encrypt({ ...options, socket }, ...more);
};
