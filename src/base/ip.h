// SPDX-License-Identifier: Apache-2.0
//
// IP addresses as texts.
#ifndef BASE_IP_H
#define BASE_IP_H

#include <stdbool.h>

#include <sys/socket.h>

#include "base/str.h"

// ip_is reports whether the whole of s is an address of a family (AF_INET, AF_INET6; AF_UNSPEC:
// either) as inet_pton reads it: without a zone, without leading zeros.
bool ip_is(struct str s, int family);

#endif
