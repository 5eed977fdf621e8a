/** The script that sends a host's own ping, against a socket of a namespace. test/hosts/suite has it on a real host. */
import { expect, test } from "vitest";
import { pingScript } from "../../../../infra/cli/webhook/ping-on-host.ts";
import { inNamespace, missing } from "../../host/namespace.ts";

const request = "POST /webhook/site HTTP/1.1\r\nx-gitlab-token: a secret's \u00fc\r\n\r\n{}";
const script = pingScript(request, "127.0.0.2", 9461);

/** Returns when it listens. A child prints the address that connects and what it sends, and answers. */
const listener = `perl -MSocket -e '
  socket(my $s, AF_INET, SOCK_STREAM, 0); bind($s, pack_sockaddr_in(9461, INADDR_LOOPBACK)); listen($s, 1);
  exit if fork;
  my ($port, $from) = unpack_sockaddr_in(accept(my $c, $s));
  sysread($c, my $sent, 65536);
  print STDERR inet_ntoa($from), " ", unpack("H*", $sent);
  syswrite($c, "HTTP/1.1 200 OK\\r\\n\\r\\nok");
'`;
const hex = (text: string): string => Buffer.from(text).toString("hex");

test("it sends exactly the request, from the source's address, and prints the answer, or nothing without a socket", ({
  skip,
}) => {
  const reason = missing("unshare", "ip");
  skip(reason !== undefined, reason);
  const [stdout, stderr] = [`connected ${hex("HTTP/1.1 200 OK\r\n\r\nok")}`, `127.0.0.2 ${hex(request)}`];
  expect(inNamespace(`${listener}\n${script}`)).toMatchObject({ stdout, stderr });
  expect(inNamespace(script)).toMatchObject({ stdout: "", stderr: "" });
});

test("no argument of a program has a part of the request", () => {
  const [command] = script.trim().split("\n");
  expect(command).toBe("perl /dev/fd/3 127.0.0.2 9461 3<<'PERL' <<'REQUEST'");
});
