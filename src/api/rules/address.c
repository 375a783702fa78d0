// SPDX-License-Identifier: Apache-2.0
//
// IP addresses with a prefix length, read as leniently as Kubernetes reads them (IPv4 parts may
// have leading zeroes, which count as decimal) and written in the form of RFC 5952.
#include "api/names.h"

#include "base/banned.h"

struct ip {
    bool v4; // also when written as ::ffff:1.2.3.4
    uint8_t bytes[16];
};

static bool address_parse_decimal(struct str s, uint64_t most, uint64_t *ret)
{
    return s.n > 0 && s.n <= 16 && str_to_u64(s, ret) == 0 && *ret <= most;
}

static bool parse_v4(struct str s, uint8_t out[4])
{
    for (size_t i = 0; i < 4; i++) {
        struct str part;
        uint64_t v;
        bool more = str_cut(s, '.', &part, &s);
        if (more != (i < 3) || !address_parse_decimal(part, 255, &v))
            return false;
        out[i] = (uint8_t)v;
    }
    return true;
}

static bool parse_hex16(struct str s, uint16_t *ret)
{
    uint32_t v = 0;
    if (s.n == 0 || s.n > 4)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return false;
        v = v << 4 | digit;
    }
    *ret = (uint16_t)v;
    return true;
}

// Groups on one side of "::", the last of which may be an IPv4 address. Returns how many 16-bit
// groups were written, or -1.
static int parse_groups(struct str s, bool may_end_in_v4, uint8_t *out)
{
    int n = 0;
    if (s.n == 0)
        return 0;
    for (bool more = true; more;) {
        struct str part;
        uint16_t v;
        more = str_cut(s, ':', &part, &s);
        if (!more && may_end_in_v4 && n <= 6 && str_find_char(part, '.') >= 0)
            return parse_v4(part, out + (size_t)n * 2) ? n + 2 : -1;
        if (n == 8 || !parse_hex16(part, &v))
            return -1;
        out[n * 2] = (uint8_t)(v >> 8);
        out[n * 2 + 1] = (uint8_t)v;
        n++;
    }
    return n;
}

static bool parse_v6(struct str s, uint8_t out[16])
{
    uint8_t head[16] = {0}, tail[16] = {0};
    ptrdiff_t gap = str_find(s, STR("::"));
    memset(out, 0, 16);
    if (gap < 0) {
        int n = parse_groups(s, true, head);
        memcpy(out, head, 16);
        return n == 8;
    }
    int before = parse_groups(str_upto(s, (size_t)gap), false, head);
    int after = parse_groups(str_from(s, (size_t)gap + 2), true, tail);
    if (before < 0 || after < 0 || before + after > 7)
        return false;
    memcpy(out, head, (size_t)before * 2);
    memcpy(out + 16 - (size_t)after * 2, tail, (size_t)after * 2);
    return true;
}

static bool address_parse_ip(struct str s, struct ip *ret)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (str_find_char(s, ':') < 0) {
        memcpy(ret->bytes, mapped, sizeof(mapped));
        ret->v4 = true;
        return parse_v4(s, ret->bytes + 12);
    }
    if (!parse_v6(s, ret->bytes))
        return false;
    ret->v4 = memcmp(ret->bytes, mapped, sizeof(mapped)) == 0;
    return true;
}

static unsigned group_at(const struct ip *ip, int i)
{
    return (unsigned)ip->bytes[i * 2] << 8 | ip->bytes[i * 2 + 1];
}

// The longest run of zero groups, at least two long, the first of equals.
static void find_gap(const struct ip *ip, int *ret_from, int *ret_to)
{
    *ret_from = *ret_to = -1;
    for (int i = 0; i < 8; i++) {
        int to = i;
        while (to < 8 && group_at(ip, to) == 0)
            to++;
        if (to - i > 1 && to - i > *ret_to - *ret_from) {
            *ret_from = i;
            *ret_to = to;
        }
        if (to > i)
            i = to;
    }
}

static void write_ip(const struct ip *ip, struct sbuf *out)
{
    if (ip->v4) {
        sbuf_addf(out, "%u.%u.%u.%u", (unsigned)ip->bytes[12], (unsigned)ip->bytes[13],
                  (unsigned)ip->bytes[14], (unsigned)ip->bytes[15]);
        return;
    }
    int from, to;
    find_gap(ip, &from, &to);
    for (int i = 0; i < 8; i++) {
        if (i == from) {
            sbuf_addz(out, "::");
            i = to - 1;
            continue;
        }
        if (i > 0 && i != to)
            sbuf_addc(out, ':');
        sbuf_addf(out, "%x", group_at(ip, i));
    }
}

// Whether a part of an IPv4 address has a zero before other digits.
static bool address_has_leading_zero(struct str address)
{
    struct str part;
    ptrdiff_t colon = str_rfind_char(address, ':');
    struct str rest = str_from(address, (size_t)(colon + 1));
    if (str_find_char(rest, '.') < 0)
        return false;
    for (bool more = true; more;) {
        more = str_cut(rest, '.', &part, &rest);
        if (part.n > 1 && part.p[0] == '0')
            return true;
    }
    return false;
}

void name_ip(struct str value, struct name_msgs *out)
{
    struct ip ip;
    if (!address_parse_ip(value, &ip))
        out->p[out->n++] = STR("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    else if (address_has_leading_zero(value))
        out->p[out->n++] = STR("must not have leading 0s");
    else if (ip.v4 && str_find_char(value, ':') >= 0)
        out->p[out->n++] = STR("must not be an IPv4-mapped IPv6 address");
}

bool name_is_ipv6(struct str value)
{
    struct ip ip;
    return address_parse_ip(value, &ip) && !ip.v4;
}

bool name_canonical_interface_address(struct str value, struct sbuf *out)
{
    struct str address, length;
    struct ip ip;
    uint64_t bits;
    if (!str_cut(value, '/', &address, &length) || !address_parse_ip(address, &ip))
        return false;
    bool written_v4 = str_find_char(address, ':') < 0;
    if (!address_parse_decimal(length, written_v4 ? 32 : 128, &bits))
        return false;
    // A mapped address prints as IPv4, its prefix counted from where the IPv4 part starts.
    if (ip.v4 && bits > 32)
        bits -= 96;
    write_ip(&ip, out);
    sbuf_addf(out, "/%u", (unsigned)bits);
    return true;
}
