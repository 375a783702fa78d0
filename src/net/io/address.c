// SPDX-License-Identifier: Apache-2.0
//
// Addresses of this machine: which ones others reach it by, which are loopback, which one a route
// to a peer would use.
#include "net/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/banned.h"

// address_bytes_of is for addresses of the two families there are here.
static const void *address_bytes_of(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return &((const struct sockaddr_in *)(const void *)a)->sin_addr;
    return &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
}

static bool address_is_reachable(const struct ifaddrs *a, int family)
{
    if (!a->ifa_addr || a->ifa_addr->sa_family != family || !(a->ifa_flags & IFF_UP) ||
        (a->ifa_flags & IFF_LOOPBACK) || str_starts(str_z(a->ifa_name), STR("dray")))
        return false;
    return family != AF_INET6 ||
           !IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)address_bytes_of(a->ifa_addr));
}

size_t address_machine(char (*ret)[ADDRESS_BYTES], size_t most)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *all = NULL;
    size_t n = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (size_t i = 0; i < array_len(families); i++)
        for (const struct ifaddrs *a = all; a && n < most; a = a->ifa_next)
            if (address_is_reachable(a, families[i]) &&
                inet_ntop(families[i], address_bytes_of(a->ifa_addr), ret[n], ADDRESS_BYTES))
                n++;
    freeifaddrs(all);
    return n;
}

int address_towards(const char *host, const char *port, char ret[ADDRESS_BYTES], struct err *err)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    struct sockaddr_storage own = {0};
    socklen_t own_len = sizeof(own);
    int r = getaddrinfo(host, port, &wanted, &found);
    if (r != 0)
        return err_set(err, ERR_NOT_FOUND, "%s: %s", host, gai_strerror(r));
    bool ok = false;
    for (const struct addrinfo *a = found; a && !ok; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        ok = fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
             getsockname(fd, (struct sockaddr *)&own, &own_len) == 0;
        if (fd >= 0)
            (void)close(fd);
    }
    freeaddrinfo(found);
    if (!ok || !inet_ntop(own.ss_family, address_bytes_of((const struct sockaddr *)&own), ret,
                          ADDRESS_BYTES))
        return err_set(err, ERR_UNAVAILABLE, "no route to host %s", host);
    return 0;
}

bool address_split(struct str text, struct str *ret_host, struct str *ret_port)
{
    ptrdiff_t colon = str_rfind_char(text, ':');
    if (colon <= 0)
        return false;
    struct str host = str_upto(text, (size_t)colon), port = str_from(text, (size_t)colon + 1);
    if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = str_make(host.p + 1, host.n - 2);
    else if (str_find_char(host, ':') >= 0)
        return false;
    uint64_t n = 0;
    if (!host.n || str_to_u64(port, &n) < 0 || n == 0 || n > 65535)
        return false;
    *ret_host = host;
    *ret_port = port;
    return true;
}

bool address_is_loopback(struct str host)
{
    struct str rest;
    if (host.n && host.p[0] == '[')
        str_cut(str_from(host, 1), ']', &host, &rest);
    else if (str_find_char(host, ':') == str_rfind_char(host, ':'))
        str_cut(host, ':', &host, &rest);
    if (str_eq(host, STR("localhost")) || str_eq(host, STR("::1")))
        return true;
    for (size_t i = 0; i < host.n; i++)
        if (host.p[i] != '.' && (host.p[i] < '0' || host.p[i] > '9'))
            return false;
    return str_starts(host, STR("127."));
}

bool address_plain(struct str host, char ret[ADDRESS_HOST_BYTES])
{
    struct in_addr four;
    struct in6_addr six;
    if (host.n >= ADDRESS_HOST_BYTES || (host.n && memchr(host.p, '\0', host.n)))
        return false;
    for (size_t i = 0; i < host.n; i++)
        ret[i] = (char)(host.p[i] >= 'A' && host.p[i] <= 'Z' ? host.p[i] | 0x20 : host.p[i]);
    ret[host.n > 1 && host.p[host.n - 1] == '.' ? host.n - 1 : host.n] = '\0';
    if (inet_pton(AF_INET, ret, &four) == 1)
        return inet_ntop(AF_INET, &four, ret, ADDRESS_HOST_BYTES);
    if (inet_pton(AF_INET6, ret, &six) != 1)
        return true;
    if (!IN6_IS_ADDR_V4MAPPED(&six))
        return inet_ntop(AF_INET6, &six, ret, ADDRESS_HOST_BYTES);
    return inet_ntop(AF_INET, &six.s6_addr[12], ret, ADDRESS_HOST_BYTES);
}

bool address_same(struct str a, struct str b)
{
    char x[ADDRESS_HOST_BYTES], y[ADDRESS_HOST_BYTES];
    return address_plain(a, x) && address_plain(b, y) && strcmp(x, y) == 0;
}
