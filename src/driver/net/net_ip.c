// SPDX-License-Identifier: Apache-2.0
//
// Parses and prints IP and hardware addresses in the forms that Go's net package accepts, so that
// parameters written for DRANET read the same.
#include "driver/net/net_ip.h"

#include <stdio.h>

#include <arpa/inet.h>

#include "base/str.h"

#include "base/banned.h"

// --- Addresses -----------------------------------------------------------------------------------

static int bad_ip(struct str text, bool with_prefix, struct err *err)
{
    return err_set(err, ERR_INVALID, "\"%.*s\" is not %s", (int)(text.n > 64 ? 64 : text.n),
                   text.p ? text.p : "",
                   with_prefix ? "an IP address with a prefix length, such as 192.0.2.1/24"
                               : "an IP address");
}

int net_ip_parse(struct str text, bool with_prefix, struct net_ip *ret, struct err *err)
{
    struct str address, length;
    struct net_ip ip = {0};
    char z[INET6_ADDRSTRLEN];
    uint64_t bits = 0;
    bool has_length = str_cut(text, '/', &address, &length);
    if (has_length != with_prefix || address.n == 0 || address.n >= sizeof(z) ||
        memchr(address.p, '\0', address.n))
        return bad_ip(text, with_prefix, err);
    memcpy(z, address.p, address.n);
    z[address.n] = '\0';
    if (inet_pton(AF_INET, z, ip.bytes) == 1)
        ip.family = AF_INET;
    else if (inet_pton(AF_INET6, z, ip.bytes) == 1)
        ip.family = AF_INET6;
    else
        return bad_ip(text, with_prefix, err);
    uint8_t most = ip.family == AF_INET ? 32 : 128;
    // As Go: no sign, no leading zeros.
    if (with_prefix && (length.n > 3 || (length.n > 1 && length.p[0] == '0') ||
                        str_to_u64(length, &bits) != 0 || bits > most))
        return bad_ip(text, with_prefix, err);
    ip.bits = with_prefix ? (uint8_t)bits : most;
    *ret = ip;
    return 0;
}

void net_ip_text(const struct net_ip *ip, bool with_prefix, char buf[NET_IP_TEXT_MAX])
{
    char z[INET6_ADDRSTRLEN] = "";
    if (ip->family)
        (void)inet_ntop(ip->family, ip->bytes, z, sizeof(z));
    if (with_prefix && ip->family)
        (void)snprintf(buf, NET_IP_TEXT_MAX, "%s/%u", z, (unsigned)ip->bits);
    else
        (void)snprintf(buf, NET_IP_TEXT_MAX, "%s", z);
}

void net_ip_mask(struct net_ip *ip)
{
    size_t bytes = ip->family == AF_INET ? 4 : 16;
    for (size_t i = 0; i < bytes; i++) {
        size_t first = i * 8;
        if (first >= ip->bits)
            ip->bytes[i] = 0;
        else if (ip->bits - first < 8)
            ip->bytes[i] = (uint8_t)(ip->bytes[i] & (0xff << (8 - (ip->bits - first))));
    }
}

bool net_ip_equal(const struct net_ip *a, const struct net_ip *b)
{
    return a->family == b->family && a->bits == b->bits &&
           memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool net_ip_is_global(const struct net_ip *ip)
{
    static const uint8_t zero[16];
    const uint8_t *b = ip->bytes;
    if (memcmp(b, zero, sizeof(zero)) == 0)
        return false;
    if (ip->family == AF_INET)
        return b[0] != 127 && !(b[0] == 169 && b[1] == 254) && b[0] < 224;
    bool loopback = memcmp(b, zero, 15) == 0 && b[15] == 1;
    return ip->family == AF_INET6 && !loopback && b[0] != 0xff &&
           !(b[0] == 0xfe && (b[1] & 0xc0) == 0x80);
}

// --- Hardware addresses --------------------------------------------------------------------------

// Reads groups of `group` bytes between separators.
static bool read_mac(struct str text, char separator, size_t group, struct net_mac *ret)
{
    size_t at = 0;
    while (at < text.n) {
        for (size_t i = 0; i < group; i++, at += 2) {
            int high = at + 1 < text.n ? str_hex_digit(text.p[at]) : -1;
            int low = at + 1 < text.n ? str_hex_digit(text.p[at + 1]) : -1;
            if (high < 0 || low < 0 || ret->n == NET_MAC_MAX)
                return false;
            ret->bytes[ret->n++] = (uint8_t)(high * 16 + low);
        }
        if (at == text.n)
            return true;
        if (text.p[at++] != separator)
            return false;
    }
    return false;
}

static int take_mac(bool good, struct str text, const struct net_mac *mac, struct net_mac *ret,
                    struct err *err)
{
    if (!good)
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" is not a hardware address, such as 02:00:5e:10:00:01",
                       (int)(text.n > 64 ? 64 : text.n), text.p ? text.p : "");
    *ret = *mac;
    return 0;
}

int net_mac_parse(struct str text, struct net_mac *ret, struct err *err)
{
    struct net_mac mac = {0};
    bool good = text.n > 4;
    if (good && text.p[4] == '.')
        good = read_mac(text, '.', 2, &mac);
    else if (good)
        good = (text.p[2] == ':' || text.p[2] == '-') && read_mac(text, text.p[2], 1, &mac);
    good = good && (mac.n == 6 || mac.n == 8 || mac.n == 20);
    return take_mac(good, text, &mac, ret, err);
}

int net_mac_read(struct str text, struct net_mac *ret, struct err *err)
{
    struct net_mac mac = {0};
    bool good = read_mac(text, ':', 1, &mac);
    return take_mac(good, text, &mac, ret, err);
}

void net_mac_text(const struct net_mac *mac, char buf[NET_MAC_TEXT_MAX])
{
    size_t at = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < mac->n; i++)
        at += (size_t)snprintf(buf + at, NET_MAC_TEXT_MAX - at, "%s%02x", i ? ":" : "",
                               (unsigned)mac->bytes[i]);
}

bool net_mac_equal(const struct net_mac *a, const struct net_mac *b)
{
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

uint64_t net_hash(struct str text)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < text.n; i++)
        h = (h ^ (uint8_t)text.p[i]) * UINT64_C(1099511628211);
    return h;
}

struct net_mac net_mac_made(struct str text)
{
    uint64_t h = net_hash(text);
    struct net_mac mac = {.n = 6, .bytes = {0x02}};
    for (size_t i = 1; i < 6; i++, h >>= 8)
        mac.bytes[i] = (uint8_t)h;
    return mac;
}
