// SPDX-License-Identifier: Apache-2.0
//
// Addresses of this machine, as others can reach them.
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define ADDRESS_BYTES 46 // of the longest, with its NUL

// address_machine lists addresses of links that are up: not loopback, not of one link alone, not of
// our own bridges. IPv4 first. Returns how many.
size_t address_machine(char (*ret)[ADDRESS_BYTES], size_t most);

// address_towards finds the address from which this machine reaches another (HOST:PORT, [V6]:PORT);
// nothing is sent. Returns 0, -ERR_NOT_FOUND (no such host) or -ERR_UNAVAILABLE (no way there).
int address_towards(const char *host, const char *port, char ret[ADDRESS_BYTES],
                    struct err *err) MUST_USE;

// address_split cuts HOST:PORT or [V6]:PORT. False: there is no port, or no host.
bool address_split(struct str text, struct str *ret_host, struct str *ret_port);

// address_is_loopback: a host, with a port or without ("127.0.0.1:80", "[::1]", "localhost"), that
// is reached from this machine alone. A name that only begins like such an address is not.
bool address_is_loopback(struct str host);

#define ADDRESS_HOST_BYTES 256 // of a host's name, with its NUL

// address_plain writes a host in the one form that all texts have which TLS clients take for the
// same: addresses as inet_ntop does, an IPv4 address within IPv6 as such; names in small letters,
// without a dot at the end. False: it is too long.
bool address_plain(struct str host, char ret[ADDRESS_HOST_BYTES]);

// address_same: both are the same host then.
bool address_same(struct str a, struct str b);

#endif
