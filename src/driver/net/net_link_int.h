// SPDX-License-Identifier: Apache-2.0
//
// The socket of net_link, shared by the files that read and that change.
#ifndef DRIVER_NET_NET_LINK_INT_H
#define DRIVER_NET_NET_LINK_INT_H

#include <netlink/netlink.h>

// Of newer kernels than the headers of Debian 12.
enum { NET_IFLA_GSO_IPV4_MAX_SIZE = 63, NET_IFLA_GRO_IPV4_MAX_SIZE = 64, NET_IFLA_MAX = 80 };

struct net_sock {
    struct nl_sock *sk;
};

// net_link_no_check accepts every sequence number: answers are matched by their socket.
int net_link_no_check(struct nl_msg *m, void *arg);

#endif
