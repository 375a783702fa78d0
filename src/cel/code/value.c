// SPDX-License-Identifier: Apache-2.0
//
// Values: construction, comparison, equality, lookup in maps, and text as cel-go prints it.
#include "cel/value.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "cel/text.h"
#include "cel/url.h"

#include "base/banned.h"

const struct cel_val cel_true = {.kind = CEL_BOOL, .b = true};
const struct cel_val cel_false = {.kind = CEL_BOOL, .b = false};
const struct cel_val cel_null = {.kind = CEL_NULL};
const struct cel_val cel_none = {.kind = CEL_OPTIONAL};
struct cel_map cel_empty_map;

static bool is_ascii(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80)
            return false;
    return true;
}

struct cel_val cel_string(struct str s)
{
    return (struct cel_val){
        .kind = CEL_STRING, .flags = is_ascii(s) ? CEL_F_ASCII : 0, .n = (uint32_t)s.n, .s = s.p};
}

struct cel_val cel_bytes(struct str s)
{
    return (struct cel_val){.kind = CEL_BYTES, .n = (uint32_t)s.n, .s = s.p};
}

struct cel_val cel_optional(struct arena *a, struct cel_val v)
{
    v.flags &= (uint8_t)~CEL_F_CHAIN;
    struct cel_val *box = arena_one(a, struct cel_val);
    *box = v;
    return (struct cel_val){.kind = CEL_OPTIONAL, .opt = box};
}

struct cel_val cel_quantity(struct arena *a, const struct quantity *q)
{
    struct quantity *copy = arena_one(a, struct quantity);
    *copy = *q;
    return (struct cel_val){.kind = CEL_QUANTITY, .quantity = copy};
}

struct cel_val cel_semver(struct arena *a, const struct semver *v)
{
    struct semver *copy = arena_one(a, struct semver);
    *copy = *v;
    return (struct cel_val){.kind = CEL_SEMVER, .semver = copy};
}

struct cel_list *cel_list_new(struct arena *a, size_t cap)
{
    assert(cap <= UINT32_MAX);
    struct cel_list *l = arena_one(a, struct cel_list);
    l->cap = (uint32_t)cap;
    l->items = cap ? arena_array(a, struct cel_val, cap) : NULL;
    return l;
}

void cel_list_push(struct arena *a, struct cel_list *l, struct cel_val v)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap < 4 ? 8 : l->cap * 2;
        struct cel_val *grown = arena_array(a, struct cel_val, cap);
        if (l->n)
            memcpy(grown, l->items, l->n * sizeof(*grown));
        l->items = grown;
        l->cap = cap;
    }
    l->items[l->n++] = v;
}

struct cel_map *cel_map_new(struct arena *a, size_t cap)
{
    assert(cap <= UINT32_MAX);
    struct cel_map *m = arena_one(a, struct cel_map);
    m->cap = (uint32_t)cap;
    m->entries = cap ? arena_array(a, struct cel_entry, cap) : NULL;
    return m;
}

// Keys that are equal must hash alike, whatever their numeric type.
static uint32_t key_hash(struct cel_val k)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    switch (k.kind) {
    case CEL_STRING:
        h = 0xcbf29ce484222325u;
        for (uint32_t i = 0; i < k.n; i++)
            h = (h ^ (unsigned char)k.s[i]) * 0x100000001b3u;
        break;
    case CEL_INT:
        h ^= k.u;
        break;
    case CEL_UINT:
        h ^= k.u;
        break;
    case CEL_DOUBLE:
        if (k.d >= -9.2e18 && k.d <= 9.2e18 && floor(k.d) == k.d)
            h ^= (uint64_t)(int64_t)k.d;
        else if (k.d > 0 && k.d < 1.8e19)
            h ^= (uint64_t)k.d;
        break;
    case CEL_BOOL:
        h ^= k.b ? 0x55u : 0x77u;
        break;
    default:
        break;
    }
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 32);
}

static void index_add(struct cel_map *m, uint32_t entry)
{
    uint32_t at = key_hash(m->entries[entry].key) & m->mask;
    while (m->index[at])
        at = (at + 1) & m->mask;
    m->index[at] = entry + 1;
}

static void index_build(struct arena *a, struct cel_map *m)
{
    uint32_t size = 32;
    while (size < m->n * 2 + 2)
        size *= 2;
    m->index = arena_array(a, uint32_t, size);
    m->mask = size - 1;
    for (uint32_t i = 0; i < m->n; i++)
        index_add(m, i);
}

static struct cel_entry *value_find_entry(const struct cel_map *m, struct cel_val key)
{
    if (!m->index && key.kind == CEL_STRING) {
        for (uint32_t i = 0; i < m->n; i++) {
            const struct cel_val *k = &m->entries[i].key;
            if (k->kind == CEL_STRING && k->n == key.n && cel_same_bytes(k->s, key.s, key.n))
                return &m->entries[i];
        }
        return NULL;
    }
    if (!m->index) {
        for (uint32_t i = 0; i < m->n; i++)
            if (cel_same(m->entries[i].key, key))
                return &m->entries[i];
        return NULL;
    }
    for (uint32_t at = key_hash(key) & m->mask; m->index[at]; at = (at + 1) & m->mask) {
        struct cel_entry *e = &m->entries[m->index[at] - 1];
        if (cel_same(e->key, key))
            return e;
    }
    return NULL;
}

bool cel_map_set(struct arena *a, struct cel_map *m, struct cel_val key, struct cel_val value)
{
    struct cel_entry *e = value_find_entry(m, key);
    if (e) {
        e->value = value;
        return false;
    }
    if (m->n == m->cap) {
        uint32_t cap = m->cap < 4 ? 8 : m->cap * 2;
        struct cel_entry *grown = arena_array(a, struct cel_entry, cap);
        if (m->n)
            memcpy(grown, m->entries, m->n * sizeof(*grown));
        m->entries = grown;
        m->cap = cap;
    }
    m->entries[m->n++] = (struct cel_entry){key, value};
    if (m->index && m->n * 2 <= m->mask)
        index_add(m, m->n - 1);
    else if (m->n >= CEL_MAP_INDEX_MIN)
        index_build(a, m);
    return true;
}

void cel_map_remove(struct arena *a, struct cel_map *m, struct cel_val key)
{
    struct cel_entry *e = value_find_entry(m, key);
    if (!e)
        return;
    size_t behind = (size_t)(m->entries + m->n - (e + 1));
    memmove(e, e + 1, behind * sizeof(*e));
    m->n--;
    if (m->index)
        index_build(a, m);
}

const struct cel_val *cel_map_get(const struct cel_map *m, struct cel_val key)
{
    struct cel_entry *e = value_find_entry(m, key);
    if (e)
        return &e->value;
    if (m->always) {
        static const struct cel_val empty = {.kind = CEL_MAP, .map = &cel_empty_map};
        return &empty;
    }
    return NULL;
}

const struct cel_val *cel_map_get_str(const struct cel_map *m, struct str key)
{
    return cel_map_get(m, (struct cel_val){.kind = CEL_STRING, .n = (uint32_t)key.n, .s = key.p});
}

struct cel_val cel_error_const(const struct cel_error *e)
{
    return (struct cel_val){.kind = CEL_ERROR, .error = e};
}

struct cel_val cel_errorf(struct arena *a, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    struct cel_error *e = arena_one(a, struct cel_error);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    e->text = arena_str(a, str_make(text, len));
    e->pos = CEL_NO_POS;
    e->missing_key = str_starts(e->text, STR("no such key"));
    return cel_error_const(e);
}

struct cel_val cel_no_such_overload(void)
{
    static const struct cel_error e = {.text = STR_INIT("no such overload"), .pos = CEL_NO_POS};
    return cel_error_const(&e);
}

static int sign_of(double a, double b)
{
    return (a > b) - (a < b);
}

static int compare_double_int(double d, int64_t i)
{
    if (d < -9223372036854775808.0)
        return -1;
    if (d > 9223372036854775807.0)
        return 1;
    return sign_of(d, (double)i);
}

static int compare_double_uint(double d, uint64_t u)
{
    if (d < 0)
        return -1;
    if (d > 18446744073709551615.0)
        return 1;
    return sign_of(d, (double)u);
}

static int compare_int_uint(int64_t i, uint64_t u)
{
    if (i < 0 || u > INT64_MAX)
        return -1;
    return ((uint64_t)i > u) - ((uint64_t)i < u);
}

static bool value_is_number(struct cel_val v)
{
    return v.kind == CEL_INT || v.kind == CEL_UINT || v.kind == CEL_DOUBLE;
}

// Both are numbers, none is NaN.
static int compare_numbers(struct cel_val a, struct cel_val b)
{
    if (a.kind == CEL_INT) {
        if (b.kind == CEL_INT)
            return (a.i > b.i) - (a.i < b.i);
        return b.kind == CEL_UINT ? compare_int_uint(a.i, b.u) : -compare_double_int(b.d, a.i);
    }
    if (a.kind == CEL_UINT) {
        if (b.kind == CEL_UINT)
            return (a.u > b.u) - (a.u < b.u);
        return b.kind == CEL_INT ? -compare_int_uint(b.i, a.u) : -compare_double_uint(b.d, a.u);
    }
    if (b.kind == CEL_DOUBLE)
        return sign_of(a.d, b.d);
    return b.kind == CEL_INT ? compare_double_int(a.d, b.i) : compare_double_uint(a.d, b.u);
}

static bool is_nan(struct cel_val v)
{
    return v.kind == CEL_DOUBLE && isnan(v.d);
}

static int value_sign_of(int c)
{
    return (c > 0) - (c < 0);
}

struct cel_val cel_compare(struct cel_val a, struct cel_val b)
{
    static const struct cel_error nan_error = {.text = STR_INIT("NaN values cannot be ordered"),
                                               .pos = CEL_NO_POS};
    if (value_is_number(a) && value_is_number(b)) {
        if (is_nan(a) || is_nan(b))
            return cel_error_const(&nan_error);
        return cel_int(compare_numbers(a, b));
    }
    if (a.kind != b.kind)
        return cel_no_such_overload();
    switch (a.kind) {
    case CEL_STRING:
    case CEL_BYTES:
        return cel_int(value_sign_of(str_cmp(cel_str(a), cel_str(b))));
    case CEL_BOOL:
        return cel_int((int)a.b - (int)b.b);
    case CEL_DURATION:
        return cel_int((a.i > b.i) - (a.i < b.i));
    case CEL_TIMESTAMP:
        if (a.i != b.i)
            return cel_int(a.i > b.i ? 1 : -1);
        return cel_int((a.n > b.n) - (a.n < b.n));
    default:
        return cel_no_such_overload();
    }
}

static bool lists_equal(const struct cel_list *a, const struct cel_list *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        struct cel_val eq = cel_equal(a->items[i], b->items[i]);
        // An error between two elements does not make lists different upstream.
        if (eq.kind == CEL_BOOL && !eq.b)
            return false;
    }
    return true;
}

static bool maps_equal(const struct cel_map *a, const struct cel_map *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct cel_val *other = cel_map_get(b, a->entries[i].key);
        if (!other)
            return false;
        struct cel_val eq = cel_equal(a->entries[i].value, *other);
        if (eq.kind == CEL_BOOL && !eq.b)
            return false;
    }
    return true;
}

static struct cel_val optionals_equal(struct cel_val a, struct cel_val b)
{
    if (!a.opt || !b.opt)
        return cel_bool(a.opt == b.opt);
    return cel_equal(*a.opt, *b.opt);
}

static bool ip_equal(const struct cel_ip *a, const struct cel_ip *b)
{
    return a->v6 == b->v6 && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static struct cel_val kubernetes_equal(struct cel_val a, struct cel_val b)
{
    if (a.kind != b.kind)
        return cel_no_such_overload();
    switch (a.kind) {
    case CEL_QUANTITY:
        if (b.flags & CEL_F_COMPUTED)
            return cel_no_such_overload();
        return cel_bool(quantity_cmp(a.quantity, b.quantity) == 0);
    case CEL_SEMVER:
        return cel_bool(semver_cmp(a.semver, b.semver) == 0);
    case CEL_IP:
        return cel_bool(ip_equal(a.ip, b.ip));
    case CEL_CIDR:
        return cel_bool(ip_equal(&a.cidr->ip, &b.cidr->ip) && a.cidr->bits == b.cidr->bits);
    case CEL_URL:
        return cel_bool(cel_url_equal(a.url, b.url));
    default:
        return cel_bool(a.format == b.format);
    }
}

struct cel_val cel_equal(struct cel_val a, struct cel_val b)
{
    if (a.kind == CEL_STRING && b.kind == CEL_STRING)
        return cel_bool(a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0));
    if (a.kind == CEL_NULL || b.kind == CEL_NULL)
        return cel_bool(a.kind == b.kind);
    if (value_is_number(a) && value_is_number(b))
        return cel_bool(!is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0);
    if (a.kind >= CEL_QUANTITY)
        return kubernetes_equal(a, b);
    if (a.kind != b.kind)
        return cel_false;
    switch (a.kind) {
    case CEL_BOOL:
        return cel_bool(a.b == b.b);
    case CEL_BYTES:
        return cel_bool(a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0));
    case CEL_LIST:
        return cel_bool(lists_equal(a.list, b.list));
    case CEL_MAP:
        return cel_bool(maps_equal(a.map, b.map));
    case CEL_TYPE:
        return cel_bool(str_eq(a.type->name, b.type->name));
    case CEL_DURATION:
        return cel_bool(a.i == b.i);
    case CEL_TIMESTAMP:
        return cel_bool(a.i == b.i && a.n == b.n);
    case CEL_OPTIONAL:
        return optionals_equal(a, b);
    default:
        return cel_no_such_overload();
    }
}

bool cel_same(struct cel_val a, struct cel_val b)
{
    return cel_is_true(cel_equal(a, b));
}

uint64_t cel_size(struct cel_val v)
{
    switch (v.kind) {
    case CEL_STRING:
        return v.flags & CEL_F_ASCII ? v.n : utf8_count(cel_str(v));
    case CEL_BYTES:
        return v.n;
    case CEL_LIST:
        return v.list->n;
    case CEL_MAP:
        return v.map->n;
    case CEL_IP:
        return v.ip->v6 ? 16 : 4;
    case CEL_CIDR:
        return (uint64_t)(v.cidr->bits + 7) / 8;
    default:
        return 1;
    }
}

uint64_t cel_size_through_optional(struct cel_val v)
{
    while (v.kind == CEL_OPTIONAL && v.opt)
        v = *v.opt;
    return cel_size(v);
}

const struct cel_type *cel_type_of_value(struct cel_val v)
{
    static const struct cel_type *const by_kind[CEL_KINDS] = {
        [CEL_ERROR] = &cel_type_error,
        [CEL_NULL] = &cel_type_null,
        [CEL_BOOL] = &cel_type_bool,
        [CEL_INT] = &cel_type_int,
        [CEL_UINT] = &cel_type_uint,
        [CEL_DOUBLE] = &cel_type_double,
        [CEL_STRING] = &cel_type_string,
        [CEL_BYTES] = &cel_type_bytes,
        [CEL_LIST] = &cel_type_list_dyn,
        [CEL_MAP] = &cel_type_map_dyn,
        [CEL_TYPE] = &cel_type_type,
        [CEL_DURATION] = &cel_type_duration,
        [CEL_TIMESTAMP] = &cel_type_timestamp,
        [CEL_OPTIONAL] = &cel_type_optional_dyn,
        [CEL_QUANTITY] = &cel_type_quantity,
        [CEL_SEMVER] = &cel_type_semver,
        [CEL_IP] = &cel_type_ip,
        [CEL_CIDR] = &cel_type_cidr,
        [CEL_URL] = &cel_type_url,
        [CEL_FORMAT] = &cel_type_format,
    };
    return by_kind[v.kind];
}

struct str cel_type_name(struct cel_val v)
{
    return cel_type_of_value(v)->name;
}

static void value_write_list(const struct cel_list *l, struct sbuf *out)
{
    sbuf_addc(out, '[');
    for (uint32_t i = 0; i < l->n; i++) {
        if (i)
            sbuf_addz(out, ", ");
        cel_write(l->items[i], out);
    }
    sbuf_addc(out, ']');
}

static void value_write_map(const struct cel_map *m, struct sbuf *out)
{
    sbuf_addc(out, '{');
    for (uint32_t i = 0; i < m->n; i++) {
        if (i)
            sbuf_addz(out, ", ");
        cel_write(m->entries[i].key, out);
        sbuf_addz(out, ": ");
        cel_write(m->entries[i].value, out);
    }
    sbuf_addc(out, '}');
}

void cel_write(struct cel_val v, struct sbuf *out)
{
    switch (v.kind) {
    case CEL_ERROR:
        sbuf_add(out, v.error->text);
        break;
    case CEL_NULL:
        sbuf_addz(out, "null");
        break;
    case CEL_BOOL:
        sbuf_addz(out, v.b ? "true" : "false");
        break;
    case CEL_INT:
        sbuf_add_i64(out, v.i);
        break;
    case CEL_UINT:
        sbuf_add_u64(out, v.u);
        break;
    case CEL_DOUBLE:
        cel_text_double(v.d, out);
        break;
    case CEL_STRING:
    case CEL_BYTES:
        sbuf_add(out, cel_str(v));
        break;
    case CEL_LIST:
        value_write_list(v.list, out);
        break;
    case CEL_MAP:
        value_write_map(v.map, out);
        break;
    case CEL_TYPE:
        cel_type_write(v.type, out);
        break;
    case CEL_DURATION:
        cel_text_duration(v.i, out);
        break;
    case CEL_TIMESTAMP:
        cel_text_timestamp(v.i, v.n, cel_offset(v), out);
        break;
    case CEL_OPTIONAL:
        sbuf_addz(out, v.opt ? "optional(" : "optional.none()");
        if (v.opt) {
            cel_write(*v.opt, out);
            sbuf_addc(out, ')');
        }
        break;
    case CEL_QUANTITY:
        quantity_write(v.quantity, out);
        break;
    case CEL_SEMVER:
        semver_write(v.semver, out);
        break;
    case CEL_IP:
        cel_text_ip(v.ip, out);
        break;
    case CEL_CIDR:
        cel_text_ip(&v.cidr->ip, out);
        sbuf_addf(out, "/%u", (unsigned)v.cidr->bits);
        break;
    case CEL_URL:
        cel_url_write(v.url, out);
        break;
    case CEL_FORMAT:
        sbuf_addz(out, "format");
        break;
    case CEL_KINDS:
        break;
    }
}

bool cel_key_allowed(struct cel_val v, bool strict)
{
    if (!strict)
        return v.kind != CEL_BYTES && v.kind != CEL_SEMVER;
    return v.kind == CEL_STRING || v.kind == CEL_INT || v.kind == CEL_UINT || v.kind == CEL_BOOL;
}

static struct cel_val copy_container(struct cel_val v, struct arena *a)
{
    if (v.kind == CEL_LIST) {
        struct cel_list *l = cel_list_new(a, v.list->n);
        for (uint32_t i = 0; i < v.list->n; i++)
            cel_list_push(a, l, cel_copy(v.list->items[i], a));
        return cel_list_value(l);
    }
    struct cel_map *m = cel_map_new(a, v.map->n);
    m->always = v.map->always;
    for (uint32_t i = 0; i < v.map->n; i++)
        (void)cel_map_set(a, m, cel_copy(v.map->entries[i].key, a),
                          cel_copy(v.map->entries[i].value, a));
    return cel_map_value(m);
}

struct cel_val cel_copy(struct cel_val v, struct arena *a)
{
    switch (v.kind) {
    case CEL_STRING:
    case CEL_BYTES:
        v.s = arena_str(a, cel_str(v)).p;
        return v;
    case CEL_LIST:
    case CEL_MAP:
        return copy_container(v, a);
    case CEL_OPTIONAL:
        return v.opt ? cel_optional(a, cel_copy(*v.opt, a)) : v;
    case CEL_QUANTITY: {
        struct quantity q = quantity_copy(v.quantity, a);
        uint8_t flags = v.flags;
        v = cel_quantity(a, &q);
        v.flags = flags;
        return v;
    }
    case CEL_SEMVER: {
        struct semver s = *v.semver;
        s.pre = arena_str(a, s.pre);
        s.build = arena_str(a, s.build);
        return cel_semver(a, &s);
    }
    case CEL_IP:
        v.ip = arena_dup(a, v.ip, sizeof(*v.ip), _Alignof(struct cel_ip));
        return v;
    case CEL_CIDR:
        v.cidr = arena_dup(a, v.cidr, sizeof(*v.cidr), _Alignof(struct cel_cidr));
        return v;
    case CEL_URL:
        return cel_url_copy(v, a);
    case CEL_ERROR: {
        struct cel_error e = *v.error;
        e.text = arena_str(a, e.text);
        return cel_error_const(arena_dup(a, &e, sizeof(e), _Alignof(struct cel_error)));
    }
    default:
        return v;
    }
}
