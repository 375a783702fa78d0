// SPDX-License-Identifier: Apache-2.0
#include "base/uuid.h"

#include "base/banned.h"

struct uuid uuid_random(struct rng *r)
{
    struct uuid u;
    rng_fill(r, u.bytes, sizeof(u.bytes));
    u.bytes[6] = (uint8_t)((u.bytes[6] & 0x0f) | 0x40); // version 4
    u.bytes[8] = (uint8_t)((u.bytes[8] & 0x3f) | 0x80); // RFC 4122 variant
    return u;
}

static bool dash_before(size_t byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void uuid_write(const struct uuid *u, char out[UUID_TEXT_LEN + 1])
{
    static const char hex[] = "0123456789abcdef";
    static const uint8_t at[16] = {0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34};
    for (size_t i = 0; i < 16; i++) {
        out[at[i]] = hex[u->bytes[i] >> 4];
        out[at[i] + 1] = hex[u->bytes[i] & 15];
    }
    out[8] = out[13] = out[18] = out[23] = '-';
    out[UUID_TEXT_LEN] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool uuid_parse(struct str s, struct uuid *ret)
{
    struct uuid u;
    if (s.n != UUID_TEXT_LEN)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < 16; i++) {
        if (dash_before(i) && s.p[at++] != '-')
            return false;
        int high = hex_value(s.p[at++]);
        int low = hex_value(s.p[at++]);
        if (high < 0 || low < 0)
            return false;
        u.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *ret = u;
    return true;
}
