// SPDX-License-Identifier: Apache-2.0
//
// The inside of net_link: the socket, and one request with its answer.
#ifndef DRIVER_NET_NET_LINK_INT_H
#define DRIVER_NET_NET_LINK_INT_H

#include <netlink/netlink.h>

#include "base/err.h"

// Of newer kernels than the headers of Debian 12.
enum { NET_IFLA_GSO_IPV4_MAX_SIZE = 63, NET_IFLA_GRO_IPV4_MAX_SIZE = 64, NET_IFLA_MAX = 80 };

struct net_sock {
    struct nl_sock *sk;
};

// net_sock_request sends m, which it frees, and waits for the kernel's word. Returns 0 or -errno with what
// the kernel says.
int net_sock_request(struct net_sock *s, struct nl_msg *m, struct err *err) MUST_USE;

#endif
