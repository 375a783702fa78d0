// SPDX-License-Identifier: Apache-2.0
//
// IP addresses and networks, as Go's net/netip has them, without zones and mapped addresses.
#include "cel/lib/lib.h"
#include "cel/text.h"

#include "base/banned.h"

static bool is_mapped(const struct cel_ip *ip)
{
    static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return ip->v6 && memcmp(ip->bytes, prefix, sizeof(prefix)) == 0;
}

// Parses an address; the text of an error goes to run->text.
static bool lib_net_parse_ip(struct cel_run *run, struct str s, struct cel_ip *ret)
{
    const char *why;
    sbuf_clear(&run->text);
    if (!cel_text_read_ip(s, ret, &why)) {
        if (str_find_char(s, '%') >= 0 && str_find_char(s, ':') >= 0) {
            sbuf_addz(&run->text, "IP address ");
            sbuf_add_quoted(&run->text, s);
            sbuf_addz(&run->text, " with zone value is not allowed");
            return false;
        }
        sbuf_addz(&run->text, "IP Address ");
        sbuf_add_quoted(&run->text, s);
        sbuf_addz(&run->text, " parse error during conversion from string: ParseAddr(");
        sbuf_add_quoted(&run->text, s);
        sbuf_addf(&run->text, "): %s", why);
        return false;
    }
    if (is_mapped(ret)) {
        sbuf_addz(&run->text, "IPv4-mapped IPv6 address ");
        sbuf_add_quoted(&run->text, s);
        sbuf_addz(&run->text, " is not allowed");
        return false;
    }
    return true;
}

static struct cel_val text_error(struct cel_run *run)
{
    return cel_errorf(&run->arena, "%.*s", STR_ARG(sbuf_str(&run->text)));
}

static struct cel_val ip_value(struct cel_run *run, const struct cel_ip *ip)
{
    return (struct cel_val){.kind = CEL_IP,
                            .ip = arena_dup(&run->arena, ip, sizeof(*ip), _Alignof(struct cel_ip))};
}

static struct cel_val cidr_value(struct cel_run *run, const struct cel_cidr *c)
{
    return (struct cel_val){
        .kind = CEL_CIDR, .cidr = arena_dup(&run->arena, c, sizeof(*c), _Alignof(struct cel_cidr))};
}

static struct cel_val fn_ip(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n == 1 && args[0].kind == CEL_CIDR)
        return ip_value(run, &args[0].cidr->ip);
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "ip", args, n);
    struct cel_ip ip;
    return lib_net_parse_ip(run, cel_str(args[0]), &ip) ? ip_value(run, &ip) : text_error(run);
}

static struct cel_val fn_is_ip(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "isIP", args, n);
    struct cel_ip ip;
    return cel_bool(lib_net_parse_ip(run, cel_str(args[0]), &ip));
}

static struct cel_val fn_is_canonical(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "ip.isCanonical", args, n);
    struct cel_ip ip;
    if (!lib_net_parse_ip(run, cel_str(args[0]), &ip))
        return text_error(run);
    sbuf_clear(&run->text);
    cel_text_ip(&ip, &run->text);
    return cel_bool(str_eq(sbuf_str(&run->text), cel_str(args[0])));
}

static bool parse_bits(struct str s, unsigned max, uint8_t *ret)
{
    uint64_t v;
    if (s.n == 0 || (s.n > 1 && s.p[0] == '0') || str_to_u64(s, &v) != 0 || v > max)
        return false;
    *ret = (uint8_t)v;
    return true;
}

#define CIDR_ERROR "network address parse error during conversion from string: "

static bool parse_cidr(struct cel_run *run, struct str s, struct cel_cidr *ret)
{
    ptrdiff_t slash = str_rfind_char(s, '/');
    const char *why = "no '/'";
    bool ok = slash >= 0 && cel_text_read_ip(str_upto(s, (size_t)slash), &ret->ip, &why);
    struct str bits = str_from(s, (size_t)(slash + 1));
    if (ok && !parse_bits(bits, ret->ip.v6 ? 128 : 32, &ret->bits)) {
        uint64_t v;
        why = str_to_u64(bits, &v) == 0 && !(bits.n > 1 && bits.p[0] == '0')
                  ? "prefix length out of range"
                  : "bad bits after slash: ";
        ok = false;
    }
    sbuf_clear(&run->text);
    if (!ok) {
        sbuf_addz(&run->text, CIDR_ERROR CIDR_ERROR "netip.ParsePrefix(");
        sbuf_add_quoted(&run->text, s);
        sbuf_addf(&run->text, "): %s", why);
        if (str_ends(str_z(why), STR("slash: ")))
            sbuf_add_quoted(&run->text, bits);
        return false;
    }
    if (is_mapped(&ret->ip)) {
        sbuf_addz(&run->text, CIDR_ERROR "IPv4-mapped IPv6 address ");
        sbuf_add_quoted(&run->text, s);
        sbuf_addz(&run->text, " is not allowed");
        return false;
    }
    return true;
}

static struct cel_val fn_cidr(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "cidr", args, n);
    struct cel_cidr c = {0};
    return parse_cidr(run, cel_str(args[0]), &c) ? cidr_value(run, &c) : text_error(run);
}

static struct cel_val fn_is_cidr(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "isCIDR", args, n);
    struct cel_cidr c = {0};
    return cel_bool(parse_cidr(run, cel_str(args[0]), &c));
}

// Whether the first `bits` of two addresses agree.
static bool same_prefix(const struct cel_ip *a, const struct cel_ip *b, unsigned bits)
{
    unsigned whole = bits / 8;
    if (memcmp(a->bytes, b->bytes, whole) != 0)
        return false;
    unsigned rest = bits % 8;
    return !rest || (a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest) == 0;
}

static struct cel_val fn_contains_ip(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2 || args[0].kind != CEL_CIDR ||
        (args[1].kind != CEL_IP && args[1].kind != CEL_STRING))
        return cel_run_mismatch(run, "containsIP", args, n);
    struct cel_ip parsed;
    const struct cel_ip *ip = args[1].ip;
    if (args[1].kind == CEL_STRING) {
        if (!lib_net_parse_ip(run, cel_str(args[1]), &parsed))
            return cel_no_such_overload();
        ip = &parsed;
    }
    const struct cel_cidr *c = args[0].cidr;
    return cel_bool(ip->v6 == c->ip.v6 && same_prefix(ip, &c->ip, c->bits));
}

static struct cel_val fn_contains_cidr(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2 || args[0].kind != CEL_CIDR ||
        (args[1].kind != CEL_CIDR && args[1].kind != CEL_STRING))
        return cel_run_mismatch(run, "containsCIDR", args, n);
    struct cel_cidr parsed = {0};
    const struct cel_cidr *other = args[1].cidr;
    if (args[1].kind == CEL_STRING) {
        if (!parse_cidr(run, cel_str(args[1]), &parsed))
            return text_error(run);
        other = &parsed;
    }
    const struct cel_cidr *c = args[0].cidr;
    return cel_bool(other->ip.v6 == c->ip.v6 && c->bits <= other->bits &&
                    same_prefix(&other->ip, &c->ip, c->bits));
}

static struct cel_val fn_prefix_length(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_CIDR)
        return cel_run_mismatch(run, "prefixLength", args, n);
    return cel_int(args[0].cidr->bits);
}

static struct cel_val fn_masked(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_CIDR)
        return cel_run_mismatch(run, "masked", args, n);
    struct cel_cidr c = *args[0].cidr;
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = c.bits > i * 8 ? c.bits - i * 8 : 0;
        c.ip.bytes[i] &= (uint8_t)(keep >= 8 ? 0xff : 0xff00 >> keep);
    }
    return cidr_value(run, &c);
}

static bool zero_from(const struct cel_ip *ip, unsigned from)
{
    for (unsigned i = from; i < (ip->v6 ? 16u : 4u); i++)
        if (ip->bytes[i])
            return false;
    return true;
}

static bool is_unspecified(const struct cel_ip *ip)
{
    return zero_from(ip, 0);
}

static bool is_loopback(const struct cel_ip *ip)
{
    if (!ip->v6)
        return ip->bytes[0] == 127;
    struct cel_ip without_last = *ip;
    without_last.bytes[15] = 0;
    return ip->bytes[15] == 1 && zero_from(&without_last, 0);
}

static bool is_link_local_multicast(const struct cel_ip *ip)
{
    if (!ip->v6)
        return ip->bytes[0] == 224 && ip->bytes[1] == 0 && ip->bytes[2] == 0;
    return ip->bytes[0] == 0xff && (ip->bytes[1] & 0x0f) == 2;
}

static bool is_link_local_unicast(const struct cel_ip *ip)
{
    if (!ip->v6)
        return ip->bytes[0] == 169 && ip->bytes[1] == 254;
    return ip->bytes[0] == 0xfe && (ip->bytes[1] & 0xc0) == 0x80;
}

static bool is_multicast(const struct cel_ip *ip)
{
    return ip->v6 ? ip->bytes[0] == 0xff : (ip->bytes[0] & 0xf0) == 0xe0;
}

static bool is_global_unicast(const struct cel_ip *ip)
{
    bool broadcast = !ip->v6 && ip->bytes[0] == 255 && ip->bytes[1] == 255 && ip->bytes[2] == 255 &&
                     ip->bytes[3] == 255;
    return !broadcast && !is_unspecified(ip) && !is_loopback(ip) && !is_multicast(ip) &&
           !is_link_local_unicast(ip);
}

static struct cel_val fn_family(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_IP)
        return cel_run_mismatch(run, "family", args, n);
    return cel_int(args[0].ip->v6 ? 6 : 4);
}

#define IP_TEST(fn, name, test)                                                           \
    static struct cel_val fn(struct cel_run *run, const struct cel_val *args, unsigned n) \
    {                                                                                     \
        if (n != 1 || args[0].kind != CEL_IP)                                             \
            return cel_run_mismatch(run, name, args, n);                                  \
        return cel_bool(test(args[0].ip));                                                \
    }

IP_TEST(fn_unspecified, "isUnspecified", is_unspecified)
IP_TEST(fn_loopback, "isLoopback", is_loopback)
IP_TEST(fn_ll_multicast, "isLinkLocalMulticast", is_link_local_multicast)
IP_TEST(fn_ll_unicast, "isLinkLocalUnicast", is_link_local_unicast)
IP_TEST(fn_global, "isGlobalUnicast", is_global_unicast)

static const struct cel_impl table[] = {
    {"ip", fn_ip},
    {"isIP", fn_is_ip},
    {"ip.isCanonical", fn_is_canonical},
    {"cidr", fn_cidr},
    {"isCIDR", fn_is_cidr},
    {"containsIP", fn_contains_ip},
    {"containsCIDR", fn_contains_cidr},
    {"prefixLength", fn_prefix_length},
    {"masked", fn_masked},
    {"family", fn_family},
    {"isUnspecified", fn_unspecified},
    {"isLoopback", fn_loopback},
    {"isLinkLocalMulticast", fn_ll_multicast},
    {"isLinkLocalUnicast", fn_ll_unicast},
    {"isGlobalUnicast", fn_global},
};

CEL_IMPLS(net, table);
