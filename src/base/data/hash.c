// SPDX-License-Identifier: Apache-2.0
//
// SipHash-1-3 with a key of the process: peers choose the keys of maps and must not choose
// collisions.
#include "base/hash.h"

#include "base/banned.h"

static uint64_t process_key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

void hash_seed(const uint64_t key[2])
{
    process_key[0] = key[0];
    process_key[1] = key[1];
}

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t hash_rotate_left(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void sip_round(struct sip *s)
{
    s->a += s->b;
    s->b = hash_rotate_left(s->b, 13) ^ s->a;
    s->a = hash_rotate_left(s->a, 32);
    s->c += s->d;
    s->d = hash_rotate_left(s->d, 16) ^ s->c;
    s->a += s->d;
    s->d = hash_rotate_left(s->d, 21) ^ s->a;
    s->c += s->b;
    s->b = hash_rotate_left(s->b, 17) ^ s->c;
    s->c = hash_rotate_left(s->c, 32);
}

static inline uint64_t load_le64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

uint64_t hash_str(struct str s)
{
    struct sip h = {
        process_key[0] ^ 0x736f6d6570736575u,
        process_key[1] ^ 0x646f72616e646f6du,
        process_key[0] ^ 0x6c7967656e657261u,
        process_key[1] ^ 0x7465646279746573u,
    };
    size_t whole = s.n / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word = load_le64(s.p + i);
        h.d ^= word;
        sip_round(&h);
        h.a ^= word;
    }
    uint64_t last = (uint64_t)s.n << 56;
    for (size_t i = whole; i < s.n; i++)
        last |= (uint64_t)(unsigned char)s.p[i] << (8 * (i - whole));
    h.d ^= last;
    sip_round(&h);
    h.a ^= last;
    h.c ^= 0xff;
    sip_round(&h);
    sip_round(&h);
    sip_round(&h);
    return h.a ^ h.b ^ h.c ^ h.d;
}
