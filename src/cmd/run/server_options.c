// SPDX-License-Identifier: Apache-2.0
//
// The table of options of the API server.
#include "cmd/run/server_options.h"

#include "base/banned.h"

struct server_flags server_flags = {.listen = "127.0.0.1:6443",
                                    .feature_gates = "",
                                    .runtime_config = "",
                                    .log_level = "info",
                                    .database = {.max_bytes = INT64_C(2) << 30,
                                                 .namespace_percent = 50}};

static const struct cli_option server_options[] = {
    {"--data-dir", NULL, "DIR",
     "keep database, CA, certificates and admin.kubeconfig here; the first start makes it. 'dray "
     "up' has a default: ~/.dray",
     .text = &server_flags.data_dir},
    {"--listen", NULL, "HOST:PORT", "listen here; default 127.0.0.1:6443, port 0 takes a free one",
     .text = &server_flags.listen},
    {"--advertise-address", NULL, "HOST",
     "let other machines reach the server here ('dray join'); default: the host of --listen, or "
     "the machine's first address",
     .text = &server_flags.advertise_address},
    {"--unix", NULL, "PATH",
     "listen on this socket for local administration; default DIR/dray.sock",
     .text = &server_flags.unix_path},
    {"--feature-gates", NULL, "A=true,B=false", "change feature gates from their defaults",
     .text = &server_flags.feature_gates},
    {"--runtime-config", NULL, "VERSION=true,…",
     "serve these API versions: resource.k8s.io/v1alpha3=true",
     .text = &server_flags.runtime_config},
    {"--token-file", NULL, "FILE",
     "accept static tokens, lines of token,user,uid,\"group1,group2\"; default DIR/tokens.csv if "
     "it exists",
     .text = &server_flags.token_file},
    {"--kubeconfig-out", NULL, "FILE", "write the administrator's kubeconfig here",
     .text = &server_flags.kubeconfig_out},
    {"--authorization-mode", NULL, "MODE",
     "authorize by Node,RBAC (the default: nodes may do what their pods need, roles and bindings "
     "decide for others), RBAC, or AlwaysAllow (loopback only)",
     .text = &server_flags.authorization_mode, .suggest = "Node,RBAC RBAC AlwaysAllow"},
    {"--anonymous-auth", NULL, NULL, "accept requests without credentials as system:anonymous",
     .flag = &server_flags.anonymous_auth},
    {"--disable-admission-plugins", NULL, "A,B",
     "disable admission plugins by kube-apiserver's names, such as ServiceAccount",
     .text = &server_flags.disable_admission_plugins},
    {"--audit-policy-file", NULL, "FILE",
     "record requests by this policy (audit.k8s.io/v1 Policy); needs --audit-log-path",
     .text = &server_flags.audit.policy_file},
    {"--audit-log-path", NULL, "FILE",
     "write audit events here, one JSON object a line; - is "
     "standard output",
     .text = &server_flags.audit.log_path},
    {"--audit-log-maxage", NULL, "DAYS", "remove rotated audit logs that are older; default never",
     .number = &server_flags.audit.max_age_days, .most = CLI_MOST},
    {"--audit-log-maxbackup", NULL, "N", "keep this many rotated audit logs; default all",
     .number = &server_flags.audit.max_backups, .most = CLI_MOST},
    {"--audit-log-maxsize", NULL, "MB", "rotate the audit log at this size; default 100",
     .number = &server_flags.audit.max_size_mb, .most = 1024 * 1024},
    {"--pod-security-defaults", NULL, "MODE=LEVEL,…",
     "apply these Pod Security levels to namespaces without labels: "
     "enforce=baseline,warn=restricted:v1.37; default privileged",
     .text = &server_flags.podsec.defaults},
    {"--pod-security-exempt-usernames", NULL, "A,B",
     "let these users create any pod; never exempt service accounts of controllers",
     .text = &server_flags.podsec.exempt_users},
    {"--pod-security-exempt-namespaces", NULL, "A,B",
     "apply no Pod Security level in these namespaces",
     .text = &server_flags.podsec.exempt_namespaces},
    {"--pod-security-exempt-runtime-classes", NULL, "A,B",
     "apply no Pod Security level to pods of these RuntimeClasses",
     .text = &server_flags.podsec.exempt_runtime_classes},
    {"--insecure-http", NULL, NULL,
     "serve plain HTTP and treat every client as administrator; loopback only, for tests",
     .flag = &server_flags.insecure_http},
    {"--kubelet-certificate-authority", NULL, "FILE",
     "verify nodes with this CA; default: the CA in DIR/pki", .text = &server_flags.kubelet_ca},
    {"--kubelet-client-certificate", NULL, "FILE", "authenticate to nodes with this certificate",
     .text = &server_flags.kubelet_certificate},
    {"--kubelet-client-key", NULL, "FILE", "use the key of that certificate",
     .text = &server_flags.kubelet_key},
    {"--kubelet-preferred-address-types", NULL, "A,B",
     "prefer these addresses of nodes; default InternalIP",
     .text = &server_flags.kubelet_address_types},
    {"--kubelet-insecure-tls", NULL, NULL, "accept any certificate of nodes",
     .flag = &server_flags.kubelet_insecure},
    {"--restore", NULL, "FILE",
     "begin with a backup, as 'dray restore' does; DIR must be empty or not exist",
     .text = &server_flags.restore},
    {"--max-database-bytes", NULL, "N",
     "reject writes that let the objects grow beyond N bytes; deletions always succeed. Default "
     "2147483648; 0: no bound",
     .number = &server_flags.database.max_bytes, .most = INT64_C(1) << 50},
    {"--max-namespace-percent", NULL, "N",
     "let one namespace take at most N percent of what other namespaces leave of "
     "--max-database-bytes; default 50",
     .number = &server_flags.database.namespace_percent, .least = 1, .most = 100},
    {"--salvage", NULL, NULL,
     "start in spite of lost or damaged data: keep what can be read of the database, create "
     "missing "
     "keys; DIR/salvage.log lists what was lost",
     .flag = &server_flags.database.salvage},
    {"--history-events", NULL, "N", "keep this many superseded versions for watches and old lists",
     .number = &server_flags.history_events, .most = CLI_MOST},
    {"--bookmark-interval", NULL, "MS", .number = &server_flags.bookmark_ms, .most = CLI_MOST},
    {"--log-level", NULL, "LEVELS",
     "log error, warn, info (default) or debug; also by module: info,store=debug",
     .text = &server_flags.log_level},
};
const struct cli_group server_group = CLI_GROUP("Server options", server_options);
