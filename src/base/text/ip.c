// SPDX-License-Identifier: Apache-2.0
//
// IP addresses as texts, checked by inet_pton.
#include "base/ip.h"

#include <arpa/inet.h>

#include "base/banned.h"

bool ip_is(struct str s, int family)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char address[16];
    if (s.n == 0 || s.n >= sizeof(text) || str_find_char(s, '\0') >= 0)
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return (family != AF_INET6 && inet_pton(AF_INET, text, address) == 1) ||
           (family != AF_INET && inet_pton(AF_INET6, text, address) == 1);
}
