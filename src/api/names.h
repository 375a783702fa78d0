// SPDX-License-Identifier: Apache-2.0
//
// The shapes that Kubernetes demands of names, labels and the like, each with upstream's words for
// what is wrong. A check adds one message for every rule that is broken and none for a good value.
#ifndef API_NAMES_H
#define API_NAMES_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

// Messages in the order in which upstream finds them; texts are static or in the arena.
struct name_msgs {
    struct arena *arena;
    struct str p[8];
    size_t n;
};

typedef void (*name_check)(struct str value, struct name_msgs *out);

// name_dns_label: RFC 1123 label, at most 63 bytes (format k8s-short-name).
void name_dns_label(struct str value, struct name_msgs *out);

// name_dns_subdomain: RFC 1123 subdomain, at most 253 bytes (format k8s-long-name);
// the caseless form allows capitals (format k8s-long-name-caseless).
void name_dns_subdomain(struct str value, struct name_msgs *out);
void name_dns_subdomain_caseless(struct str value, struct name_msgs *out);

// name_dns1035_label: RFC 1035 label, at most 63 bytes; starts with a letter.
void name_dns1035_label(struct str value, struct name_msgs *out);

// name_label_key: optional DNS prefix and '/', then a name of at most 63 bytes (qualified name).
void name_label_key(struct str value, struct name_msgs *out);

void name_label_value(struct str value, struct name_msgs *out);

// name_c_identifier has no length rule of its own.
void name_c_identifier(struct str value, struct name_msgs *out);

// name_path_segment: a name that can be one segment of a URL path; neither "." nor "..", no '/', no
// '%'.
void name_path_segment(struct str value, struct name_msgs *out);

// name_port: the name of a port; name_env_var: any printable ASCII but '='; name_config_key: a key
// of a ConfigMap or Secret; name_http_header; name_dns_search: a subdomain that may have
// underscores.
void name_port(struct str value, struct name_msgs *out);
void name_env_var(struct str value, struct name_msgs *out);
void name_config_key(struct str value, struct name_msgs *out);
void name_http_header(struct str value, struct name_msgs *out);
void name_dns_search(struct str value, struct name_msgs *out);

// What is wrong with an IP address, in upstream's words; no message for a valid one.
void name_ip(struct str value, struct name_msgs *out);
bool name_is_ipv6(struct str value); // of an address

// name_extended_resource: vendor-domain/name that also works behind "requests." in a quota.
void name_extended_resource(struct str value, struct name_msgs *out);

// The same questions without words.
bool name_is_dns_label(struct str value);
bool name_is_dns_subdomain(struct str value);
bool name_is_label_key(struct str value);
bool name_is_uuid(struct str value);
bool name_is_semver(struct str value);

// name_canonical_interface_address reads an IP address with prefix length as leniently as upstream
// (leading zeroes allowed) and writes its canonical form to out. False when it is no such address.
bool name_canonical_interface_address(struct str value, struct sbuf *out);

#endif
