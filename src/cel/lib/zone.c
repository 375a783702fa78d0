// SPDX-License-Identifier: Apache-2.0
//
// Time zones: fixed offsets, and IANA zones from TZif files (RFC 8536) that the caller's reader
// supplies. Zones are kept for the life of the process; there are some six hundred at most.
#include <ctype.h>
#include <pthread.h>

#include "base/civil.h"
#include "cel/lib/lib.h"
#include "cel/lib/posix_tz.h"

#include "base/banned.h"

#define ZONES_MAX     700
#define ZONE_NAME_MAX 64

struct zone {
    struct zone *next;
    struct str name;
    bool known; // false: the reader has no such zone; remembered as well
    uint32_t transitions;
    int64_t *at;
    int32_t *offset; // behind each transition
    int32_t first_offset;
    struct str tail; // POSIX rule for what follows the last transition
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct zone *zones;
static size_t zone_count;
static struct arena zone_arena;
static cel_zone_reader reader;

void cel_set_zone_reader(cel_zone_reader r)
{
    (void)pthread_mutex_lock(&lock);
    reader = r;
    (void)pthread_mutex_unlock(&lock);
}

static uint32_t zone_read_be32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static int64_t zone_read_be64(const char *p)
{
    return (int64_t)((uint64_t)zone_read_be32(p) << 32 | zone_read_be32(p + 4));
}

struct header {
    uint32_t isutc, isstd, leap, time, type, chars;
};

static bool zone_read_header(struct str s, size_t at, struct header *h)
{
    if (s.n < at + 44 || memcmp(s.p + at, "TZif", 4) != 0)
        return false;
    const char *p = s.p + at + 20;
    *h = (struct header){zone_read_be32(p),      zone_read_be32(p + 4),  zone_read_be32(p + 8),
                         zone_read_be32(p + 12), zone_read_be32(p + 16), zone_read_be32(p + 20)};
    return h->time < 100000 && h->type > 0 && h->type < 256 && h->chars < 10000 &&
           h->leap < 10000 && h->isutc < 256 && h->isstd < 256;
}

static size_t body_size(const struct header *h, size_t width)
{
    return h->time * (width + 1) + h->type * 6 + h->chars + h->leap * (width + 4) + h->isstd +
           h->isutc;
}

// The second, 64-bit block of a version 2 file.
static bool parse_zone(struct str s, struct zone *z)
{
    struct header h;
    if (!zone_read_header(s, 0, &h) || s.p[4] < '2')
        return false;
    size_t second = 44 + body_size(&h, 4);
    if (!zone_read_header(s, second, &h))
        return false;
    size_t times = second + 44;
    size_t kinds = times + h.time * 8;
    size_t types = kinds + h.time;
    size_t end = times + body_size(&h, 8);
    if (end > s.n)
        return false;
    z->transitions = h.time;
    z->at = arena_array(&zone_arena, int64_t, h.time + 1);
    z->offset = arena_array(&zone_arena, int32_t, h.time + 1);
    for (uint32_t i = 0; i < h.time; i++) {
        unsigned char kind = (unsigned char)s.p[kinds + i];
        if (kind >= h.type)
            return false;
        z->at[i] = zone_read_be64(s.p + times + (size_t)i * 8);
        z->offset[i] = (int32_t)zone_read_be32(s.p + types + (size_t)kind * 6);
    }
    z->first_offset = (int32_t)zone_read_be32(s.p + types);
    struct str tail = str_from(s, end);
    if (tail.n > 2 && tail.p[0] == '\n') {
        struct str rule;
        struct str rest;
        (void)str_cut(str_from(tail, 1), '\n', &rule, &rest);
        z->tail = arena_str(&zone_arena, rule);
    }
    return true;
}

static bool zone_name_is_plausible(struct str name)
{
    if (name.n == 0 || name.n > ZONE_NAME_MAX || name.p[0] == '/' || str_contains(name, STR("..")))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!isalnum((unsigned char)name.p[i]) && !strchr("/_+-", name.p[i]))
            return false;
    return true;
}

// Called with the lock held.
static const struct zone *find_zone(struct str name)
{
    for (const struct zone *z = zones; z; z = z->next)
        if (str_eq(z->name, name))
            return z;
    if (!reader || zone_count >= ZONES_MAX)
        return NULL;
    struct zone *z = arena_one(&zone_arena, struct zone);
    z->name = arena_str(&zone_arena, name);
    cleanup_sbuf struct sbuf bytes = {0};
    z->known = reader(name, &bytes) && parse_zone(sbuf_str(&bytes), z);
    z->next = zones;
    zones = z;
    zone_count++;
    return z;
}

static int64_t offset_at(const struct zone *z, int64_t t)
{
    if (z->transitions == 0 || t < z->at[0]) {
        int64_t from_rule;
        if (z->transitions == 0 && cel_posix_tz_offset(z->tail, t, &from_rule))
            return from_rule;
        return z->first_offset;
    }
    uint32_t lo = 0;
    uint32_t hi = z->transitions;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (z->at[mid] <= t)
            lo = mid;
        else
            hi = mid;
    }
    int64_t from_rule;
    if (lo + 1 == z->transitions && z->tail.n && cel_posix_tz_offset(z->tail, t, &from_rule))
        return from_rule;
    return z->offset[lo];
}

// ±hh:mm, and hh:mm without a sign as upstream takes it.
static bool fixed_offset(struct str s, int64_t *ret)
{
    bool negative = s.n && s.p[0] == '-';
    if (s.n && (s.p[0] == '-' || s.p[0] == '+'))
        s = str_from(s, 1);
    struct str h;
    struct str m;
    int64_t hours;
    int64_t minutes;
    if (!str_cut(s, ':', &h, &m) || str_to_i64(h, &hours) != 0 || str_to_i64(m, &minutes) != 0)
        return false;
    if (hours < 0 || hours > 99 || minutes < 0 || minutes > 59)
        return false;
    *ret = (negative ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

bool cel_zone_offset(struct str zone, int64_t unix_seconds, int64_t *ret_offset_seconds)
{
    // Kubernetes' servers run in UTC, which then is their local time too.
    if (zone.n == 0 || str_eqz(zone, "UTC") || str_eqz(zone, "Local")) {
        *ret_offset_seconds = 0;
        return true;
    }
    if (str_find_char(zone, ':') >= 0)
        return fixed_offset(zone, ret_offset_seconds);
    if (!zone_name_is_plausible(zone))
        return false;
    (void)pthread_mutex_lock(&lock);
    const struct zone *z = find_zone(zone);
    bool known = z && z->known;
    if (known)
        *ret_offset_seconds = offset_at(z, unix_seconds);
    (void)pthread_mutex_unlock(&lock);
    return known;
}
