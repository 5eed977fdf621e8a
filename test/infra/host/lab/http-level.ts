/**
 * Which directives pushgate's servers set, and why each other one changes no answer: of all that they could inherit from
 * the operator's http level, with the nginx of Debian 12 and 13.
 */
import { renderProxy } from "../../../../infra/host/proxy/proxy.ts";
import { exampleHost, served } from "../../../fixtures.ts";

/** Why a directive changes no answer although it is not set. A name may have `*`; the names are separated by blanks. */
type Reasons = Readonly<Record<string, string>>;

const ofBoth: Reasons = {
  "no location passes requests to such a server": "fastcgi_* grpc_* memcached_* scgi_* uwsgi_*",
  "it is about a connection to an upstream over TLS": "proxy_ssl_*",
  "it changes how bytes are read, held or sent, and not which":
    "aio aio_write chunked_transfer_encoding client_body_buffer_size client_body_in_single_buffer client_body_temp_path directio directio_alignment http2_body_preread_size http2_chunk_size http2_pool_size http2_streams_index_size output_buffers postpone_output proxy_temp_path read_ahead request_pool_size send_lowat sendfile sendfile_max_chunk subrequest_output_buffer_size tcp_nodelay tcp_nopush ssl_buffer_size",
  "it changes how long a connection stays open between or after requests":
    "http2_idle_timeout http2_max_requests http2_recv_timeout keepalive_disable keepalive_requests keepalive_time reset_timedout_connection",
  "nginx answers the same over HTTP/2, and without listen's http2 or quic speaks neither":
    "http2 http2_max_concurrent_pushes http2_max_concurrent_streams http2_max_field_size http2_max_header_size http2_push http2_push_preload http3 http3_hq http3_max_concurrent_streams http3_stream_buffer_size quic_*",
  "it changes what is logged besides the servers' own logs":
    "log_subrequest open_log_file_cache rewrite_log uninitialized_variable_warn",
  "it sets variables that no line of the servers reads":
    "ancient_browser ancient_browser_value auth_request_set modern_browser modern_browser_value secure_link secure_link_md5 secure_link_secret",
  "auth_basic is off": "auth_basic_user_file auth_delay",
  "`allow all` replaces it": "deny",
  "limit_conn_dry_run is on": "limit_conn limit_conn_status",
  "limit_rate is 0": "limit_rate_after",
  "mirror is off": "mirror_request_body",
  "ssi is off":
    "ssi_ignore_recycled_buffers ssi_last_modified ssi_min_file_chunk ssi_silent_errors ssi_types ssi_value_length",
  "the one sub_filter is skipped": "sub_filter_last_modified sub_filter_once sub_filter_types",
  "nothing is added to a body": "addition_types",
  "userid is off":
    "userid_domain userid_expires userid_flags userid_mark userid_name userid_p3p userid_path userid_service",
  "ssl_ocsp is off": "ssl_ocsp_cache ssl_ocsp_responder",
  "ssl_stapling is off": "ssl_stapling_file ssl_stapling_responder ssl_stapling_verify",
  "there is no session to resume": "ssl_session_ticket_key ssl_session_timeout",
  "all ciphers are strong, and the key is not of RSA": "ssl_dhparam ssl_prefer_server_ciphers",
  "the origin key has no password": "ssl_password_file",
  "`listen` has ssl; nginx 1.26 does not know it": "ssl",
  "no name is resolved": "resolver resolver_timeout",
  "its handler runs for methods that the servers reject before":
    "create_full_put_path dav_access dav_methods min_delete_depth",
  "only a location can choose its handler": "mp4_*",
  "without a slice's variable nginx requests none": "slice",
  "it runs after the answer": "post_action",
  "it is for Internet Explorer": "msie_padding msie_refresh",
  "it is a trailer, after the body": "add_trailer",
  "charset_map apart, a charset is set or off": "override_charset",
  "the request is of an HTTP/1 client with few headers; older packages do not know it": "max_headers",
};

const ofHooks: Reasons = {
  "a location returns or proxies, and serves no file":
    "absolute_redirect autoindex autoindex_* disable_symlinks etag gzip_static if_modified_since index log_not_found max_ranges open_file_cache open_file_cache_* port_in_redirect root server_name_in_redirect types_hash_*",
  "gzip is off": "gzip_* postpone_gzipping",
  "no answer of the receiver is compressed": "gunzip gunzip_buffers",
  "charset is off": "charset_types source_charset",
  "proxy_cache and proxy_store are off": "proxy_cache_* proxy_no_cache proxy_store_access",
  "the receiver sets no cookie": "proxy_cookie_*",
  "the receiver sends none of these headers": "proxy_ignore_headers proxy_pass_header",
  "it changes how nginx holds the headers that it sends": "proxy_headers_hash_*",
  "proxy_next_upstream is off": "proxy_next_upstream_timeout proxy_next_upstream_tries",
  "it changes how bytes reach the receiver, and not which": "proxy_send_lowat proxy_socket_keepalive",
  "nginx sends the whole body, or none of it": "proxy_ignore_client_abort",
  "each hook's location sets it": "limit_req",
  "the answer of a named location is final": "recursive_error_pages",
  "no server can take it back, so preview reports it (replaces_bodies in infra/host/proxy/layer.sh)": "proxy_set_body",
};

const ofSites: Reasons = {
  "no location proxies": "proxy_*",
  "limit_req_dry_run is on": "limit_req limit_req_status",
  "absolute_redirect is off": "port_in_redirect server_name_in_redirect",
  "autoindex is off": "autoindex_*",
  "open_file_cache is off": "open_file_cache_*",
  "nginx compresses the same page otherwise, or not":
    "gzip_buffers gzip_comp_level gzip_disable gzip_hash gzip_http_version gzip_no_buffer gzip_window postpone_gzipping",
  "no file is stored compressed": "gunzip gunzip_buffers",
  "a client that requests parts may get the whole": "max_ranges",
  "the servers ignore header names that it would admit": "ignore_invalid_headers underscores_in_headers",
};

const text = renderProxy(served, exampleHost);
const servers = {
  hooks: {
    text: text.slice(text.indexOf("\nserver {"), text.lastIndexOf("\nserver {")),
    reasons: { ...ofBoth, ...ofHooks },
  },
  site: { text: text.slice(text.lastIndexOf("\nserver {")), reasons: { ...ofBoth, ...ofSites } },
};
type Server = keyof typeof servers;

/** The directives at the level of the server; trust.sh writes ssl_trusted_certificate into a file that it includes. */
const setIn = (server: Server): string[] => [
  ...[...servers[server].text.matchAll(/^ {4}([a-z0-9_]+)[ ;]/gm)].map(([, name]) => name!),
  "include",
  "ssl_trusted_certificate",
];

const isExplained = (server: Server, directive: string): boolean =>
  Object.values(servers[server].reasons)
    .flatMap((names) => names.split(" "))
    .some((name) => new RegExp(`^${name.replaceAll("*", "\\w+")}$`).test(directive));

/** Those of `directives` that the server neither sets nor has a reason for. */
export function unexplained(server: Server, directives: readonly string[]): string[] {
  const set = setIn(server);
  return directives.filter((name) => !set.includes(name) && !isExplained(server, name));
}

export const explainedAlthoughSet = (server: Server): string[] =>
  setIn(server).filter((name) => isExplained(server, name));
