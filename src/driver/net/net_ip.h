// SPDX-License-Identifier: Apache-2.0
//
// Addresses of network interfaces as numbers: IP addresses with a prefix, hardware addresses.
#ifndef DRIVER_NET_NET_IP_H
#define DRIVER_NET_NET_IP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#define NET_MAC_MAX      20 // InfiniBand's
#define NET_MAC_TEXT_MAX 64
#define NET_IP_TEXT_MAX  64

// An address or network; family 0: none.
struct net_ip {
    uint8_t family; // AF_INET, AF_INET6
    uint8_t bits;   // of the prefix
    uint8_t bytes[16];
};
struct net_ips VEC(struct net_ip);

struct net_mac {
    uint8_t n; // 0: none
    uint8_t bytes[NET_MAC_MAX];
};

// net_ip_parse reads an address; with_prefix: "address/bits", and nothing else. Returns 0 or
// -ERR_INVALID.
int net_ip_parse(struct str text, bool with_prefix, struct net_ip *ret, struct err *err) MUST_USE;
void net_ip_text(const struct net_ip *ip, bool with_prefix, char buf[NET_IP_TEXT_MAX]);
// net_ip_mask clears the bits behind the prefix.
void net_ip_mask(struct net_ip *ip);
bool net_ip_equal(const struct net_ip *a, const struct net_ip *b);
// net_ip_is_global: an address that makes sense in another namespace: not loopback, link-local,
// multicast or unspecified.
bool net_ip_is_global(const struct net_ip *ip);

// net_mac_parse reads 6, 8 or 20 bytes as Go's ParseMAC: with colons, hyphens or dots.
int net_mac_parse(struct str text, struct net_mac *ret, struct err *err) MUST_USE;
// net_mac_read reads what net_mac_text wrote: the kernel's hardware addresses have any length.
int net_mac_read(struct str text, struct net_mac *ret, struct err *err) MUST_USE;
void net_mac_text(const struct net_mac *mac, char buf[NET_MAC_TEXT_MAX]);
bool net_mac_equal(const struct net_mac *a, const struct net_mac *b);

// net_hash is a number that stands for a text, the same in every process (FNV-1a).
uint64_t net_hash(struct str text);

// net_mac_made is the hardware address of what is made for a text: locally administered, always the
// same.
struct net_mac net_mac_made(struct str text);

#endif
