// SPDX-License-Identifier: Apache-2.0
//
// The laws of apply, on random configurations (those of the oracle's rows): applying twice is applying once; a
// second manager conflicts exactly where both own and want different things; force takes over; what is no longer
// stated goes unless somebody else owns it.
#include "api/field_walk.h"
#include "api/managed.h"
#include "codec/json_writer.h"
#include "unit.h"

#include "base/banned.h"

struct state {
    struct sbuf object;
    struct api_managed_fields_entry_array entries;
};

struct world {
    const struct api_kind *kind;
    struct arena arena;
    size_t pairs, conflicts;
};

static void parse(struct str text, struct json_doc *ret)
{
    const struct json_options options = {.max_bytes = (size_t)64 << 20,
                                         .duplicates = JSON_DUPLICATES_LAST};
    if (json_parse(text, &options, ret, NULL) < 0)
        fail_msg("not JSON: %.*s", STR_ARG(str_upto(text, 200)));
}

// An object as the server keeps it: decoded and written again.
static void canonical(struct world *w, struct str text, struct sbuf *out)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o;
    struct json_writer j = {.out = out};
    parse(text, &doc);
    assert_int_equal(api_decode_as(w->kind, &doc, doc.root, &w->arena, NULL, &o, NULL), 0);
    assert_int_equal(api_json_write(w->kind->type, o.value, &j, NULL), 0);
}

static int apply(struct world *w, const struct state *from, const char *manager, struct str config,
                 bool force, struct state *to, struct managed_applied *ret)
{
    cleanup_json_doc struct json_doc live = {0}, body = {0};
    const struct managed_request q = {
        .kind = w->kind, .manager = str_z(manager), .now = {1700000000, 0}, .force = force};
    struct err err = {0};
    parse(sbuf_str(&from->object), &live);
    parse(config, &body);
    int r = managed_apply(&q, live.root, body.root, &from->entries, &w->arena, ret, &err);
    *to = (struct state){.entries = ret->entries};
    if (r == 0)
        canonical(w, ret->changed ? sbuf_str(&ret->object) : sbuf_str(&from->object), &to->object);
    sbuf_done(&ret->object);
    return r;
}

static bool same_entries(const struct api_managed_fields_entry_array *a,
                         const struct api_managed_fields_entry_array *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = str_eq(a->p[i].manager, b->p[i].manager) &&
               str_eq(a->p[i].fields_v1, b->p[i].fields_v1);
    return same;
}

// Nothing differs but, perhaps, the order of lists that have none.
static bool same_object(struct world *w, const struct state *a, const struct state *b)
{
    cleanup_json_doc struct json_doc x = {0}, y = {0};
    struct field_diff d;
    const struct field_type t = {.type = w->kind->type};
    parse(sbuf_str(&a->object), &x);
    parse(sbuf_str(&b->object), &y);
    assert_int_equal(field_compare(&t, x.root, y.root, &w->arena, &d, NULL), 0);
    return field_set_empty(&d.added) && field_set_empty(&d.modified) && field_set_empty(&d.removed);
}

struct listing {
    struct sbuf text;
};

static void list_path(void *arg, const struct field_path *path)
{
    struct listing *l = arg;
    field_path_write(path, &l->text);
    sbuf_addc(&l->text, '\n');
}

static struct listing paths_of(struct world *w, struct str config)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct field_type t = {.type = w->kind->type};
    struct listing l = {0};
    sbuf_addc(&l.text, '\n');
    parse(config, &doc);
    struct field_set s = field_set_of(&t, doc.root, &w->arena);
    field_set_each(&s, list_path, &l);
    return l;
}

static bool lists(const struct listing *l, struct str path)
{
    cleanup_sbuf struct sbuf line = {0};
    sbuf_addf(&line, "\n%.*s\n", STR_ARG(path));
    return str_contains(sbuf_str(&l->text), sbuf_str(&line));
}

// A path is there, or one below it: who states an empty map owns all that could be in it.
static bool begins(const struct listing *l, struct str path)
{
    cleanup_sbuf struct sbuf line = {0};
    sbuf_addf(&line, "\n%.*s", STR_ARG(path));
    return str_contains(sbuf_str(&l->text), sbuf_str(&line));
}

// The set of an applier, as FieldsV1.
static struct field_set owned_by(struct world *w, const struct state *s, const char *manager)
{
    struct field_set set = {0};
    for (size_t i = 0; i < s->entries.n; i++) {
        cleanup_json_doc struct json_doc doc = {0};
        if (!str_eqz(s->entries.p[i].manager, manager))
            continue;
        parse(s->entries.p[i].fields_v1, &doc);
        assert_int_equal(field_set_read(doc.root, &w->arena, &set, NULL), 0);
    }
    return set;
}

static void check_conflicts(struct world *w, const struct managed_applied *a, struct str first,
                            struct str second, const struct state *forced)
{
    struct listing x = paths_of(w, first), y = paths_of(w, second);
    struct field_set left = owned_by(w, forced, "one");
    struct listing z = {0};
    sbuf_addc(&z.text, '\n');
    field_set_each(&left, list_path, &z);
    for (size_t i = 0; i < a->conflicts_len; i++) {
        assert_str(a->conflicts[i].manager, "\"one\"");
        assert_true(lists(&x, a->conflicts[i].field));  // the one owns it,
        assert_true(begins(&y, a->conflicts[i].field)); // the other wants it, or what is in it,
        assert_false(lists(&z, a->conflicts[i].field)); // and by force has it
    }
    sbuf_done(&x.text);
    sbuf_done(&y.text);
    sbuf_done(&z.text);
}

static void state_done(struct state *s)
{
    sbuf_done(&s->object);
}
#define cleanup_state cleanup_with(state_done)

// A configuration that says nothing but which object it is.
static void say_nothing(const struct world *w, struct sbuf *out)
{
    sbuf_addf(out,
              "{\"apiVersion\":\"%.*s\",\"kind\":\"%.*s\",\"metadata\":{\"name\":\"n\","
              "\"namespace\":\"ns\"}}",
              STR_ARG(w->kind->api_version), STR_ARG(w->kind->kind));
}

static void check_pair(struct world *w, struct str first, struct str second)
{
    cleanup_state struct state none = {0}, one = {0}, again = {0}, both = {0}, forced = {0},
                               less = {0};
    cleanup_sbuf struct sbuf nothing = {0};
    struct managed_applied a = {0}, f = {0};
    assert_int_equal(managed_empty(w->kind, &w->arena, &none.object, NULL), 0);
    if (apply(w, &none, "one", first, false, &one, &a) < 0)
        return; // not a configuration
    // Twice is once.
    assert_int_equal(apply(w, &one, "one", first, false, &again, &a), 0);
    if (!str_eq(sbuf_str(&one.object), sbuf_str(&again.object)))
        fail_msg("twice is not once:\n%.*s\n%.*s\n%.*s", STR_ARG(first),
                 STR_ARG(sbuf_str(&one.object)), STR_ARG(sbuf_str(&again.object)));
    assert_true(same_entries(&one.entries, &again.entries));
    int r = apply(w, &one, "two", second, false, &both, &a);
    int forcing = apply(w, &one, "two", second, true, &forced, &f);
    if (r == -ERR_CONFLICT) {
        w->conflicts++;
        assert_int_equal(forcing, 0);
        assert_true(a.conflicts_len > 0);
        check_conflicts(w, &a, first, second, &forced);
        return;
    }
    assert_int_equal(r, forcing);
    if (r < 0)
        return;
    w->pairs++;
    // Without conflicts force changes nothing.
    assert_true(same_object(w, &both, &forced));
    assert_true(same_entries(&both.entries, &forced.entries));
    // What only the second stated goes with it, what the first states stays.
    say_nothing(w, &nothing);
    assert_int_equal(apply(w, &both, "two", sbuf_str(&nothing), false, &less, &a), 0);
    if (!same_object(w, &less, &one))
        fail_msg(
            "something is left or lost:\nfirst %.*s\nsecond %.*s\none %.*s\nboth %.*s\nless %.*s",
            STR_ARG(first), STR_ARG(second), STR_ARG(sbuf_str(&one.object)),
            STR_ARG(sbuf_str(&both.object)), STR_ARG(sbuf_str(&less.object)));
    struct field_set left = owned_by(w, &less, "two"), mine = owned_by(w, &less, "one"),
                     before = owned_by(w, &one, "one");
    assert_true(field_set_empty(&left));
    assert_true(field_set_equal(&mine, &before));
}

static struct str text_of(const yyjson_val *v, const char *key)
{
    const yyjson_val *m = json_get(v, str_z(key));
    return m && json_is_string(m) ? json_str(m) : STR("");
}

// --- Configurations people write -----------------------------------------------------------------

// Adds a configuration without what nobody means: nulls, empty containers, items without their keys. On those,
// typed objects differ from what was stated, and the laws (upstream's, too) do not hold. False: nothing is left.
static bool tidy(const struct field_type *t, const yyjson_val *v, struct sbuf *out);

static bool has_keys(const struct field_type *t, const yyjson_val *item)
{
    if (field_shape_of(t) != SHAPE_LIST_MAP)
        return true;
    const struct api_field_info *info = t->field->info;
    struct str rest = str_z(t->field->flags & API_LIST_MAP ? info->keys : info->merge_key);
    while (rest.n) {
        struct str name;
        str_cut(rest, ',', &name, &rest);
        if (!json_get(item, name))
            return false;
    }
    return true;
}

static bool tidy_part(const struct field_type *t, const yyjson_val *v, struct str key, bool first,
                      struct sbuf *out)
{
    size_t before = out->n;
    if (!first)
        sbuf_addc(out, ',');
    if (key.p) {
        sbuf_add_json_str(out, key, false);
        sbuf_addc(out, ':');
    }
    if (tidy(t, v, out))
        return true;
    sbuf_truncate(out, before);
    return false;
}

static bool tidy(const struct field_type *t, const yyjson_val *v, struct sbuf *out)
{
    size_t start = out->n;
    struct json_writer w = {.out = out};
    if (!json_is_container(v)) {
        if (!json_is_null(v))
            json_write_value(&w, v);
        return !json_is_null(v);
    }
    bool any = false, object = json_is_object(v);
    sbuf_addc(out, object ? '{' : '[');
    if (object) {
        json_obj_foreach(v, key, value) {
            struct field_type bt;
            if (!field_type_below(t, json_str(key), &bt))
                bt = (struct field_type){.deduced = true};
            any |= tidy_part(&bt, value, json_str(key), !any, out);
        }
    } else {
        struct field_type bt;
        (void)field_type_below(t, STR(""), &bt);
        json_arr_foreach(v, item) {
            if (has_keys(t, item))
                any |= tidy_part(&bt, item, (struct str){0}, !any, out);
        }
    }
    if (any)
        sbuf_addc(out, object ? '}' : ']');
    else
        sbuf_truncate(out, start);
    return any;
}

// Two configurations that follow each other in a row.
static void check_row(struct world *w, struct str row)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct sbuf texts[2] = {{0}, {0}};
    size_t n = 0;
    parse(row, &doc);
    w->kind = api_kind_find(text_of(doc.root, "apiVersion"), text_of(doc.root, "kind"));
    json_arr_foreach(json_get(doc.root, STR("steps")), step) {
        if (!str_eqz(text_of(step, "op"), "apply"))
            continue;
        struct sbuf *to = &texts[n++ % 2];
        const struct field_type t = {.type = w->kind->type};
        sbuf_clear(to);
        assert_true(tidy(&t, json_get(step, STR("object")), to));
        if (n > 1) {
            check_pair(w, sbuf_str(&texts[n % 2]), sbuf_str(to));
            check_pair(w, sbuf_str(to), sbuf_str(&texts[n % 2]));
        }
    }
    sbuf_done(&texts[0]);
    sbuf_done(&texts[1]);
    arena_done(&w->arena);
}

static void laws_hold(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    struct world w = {0};
    // NOLINTBEGIN(concurrency-mt-unsafe): one thread
    const char *path = getenv("APPLY_ROWS");
    char sample[4096];
    (void)snprintf(sample, sizeof(sample), "%s/apply_rows.jsonl", getenv("TEST_DATA"));
    // NOLINTEND(concurrency-mt-unsafe)
    read_file(path ? path : sample, &text);
    for (struct str rest = sbuf_str(&text); rest.n;) {
        struct str row;
        str_cut(rest, '\n', &row, &rest);
        check_row(&w, row);
    }
    (void)fprintf(stderr, "%zu pairs without, %zu with conflicts\n", w.pairs, w.conflicts);
    assert_true(w.pairs > 0 && w.conflicts > 0);
}

// --- Many of them --------------------------------------------------------------------------------

#define OWNERS 300
#define KEYS   3000

static void add_data(struct sbuf *out, const char *prefix, const char *value)
{
    for (int i = 0; i < KEYS; i++)
        sbuf_addf(out, "\"%s%05d\":\"%s\",", prefix, i, value);
}

// A ConfigMap: what add_data writes, and a key for each owner.
static void make_map(struct sbuf *out, const char *value, bool more)
{
    sbuf_addz(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"n\"},"
                   "\"data\":{");
    add_data(out, "k", value);
    if (more)
        add_data(out, "l", value);
    for (int i = 0; i < OWNERS; i++)
        sbuf_addf(out, "%s\"z%05d\":\"x\"", i ? "," : "", i);
    sbuf_addz(out, "}}");
}

// Owners of one key each, by whom the order is turned around: what is read need not be sorted.
static struct api_managed_fields_entry_array make_owners(struct arena *a)
{
    struct api_managed_fields_entry_array all = {
        arena_array(a, struct api_managed_fields_entry, OWNERS), OWNERS};
    for (int i = 0; i < OWNERS; i++)
        all.p[i] = (struct api_managed_fields_entry){
            .manager = arena_strf(a, "m%05d", i),
            .operation = STR("Apply"),
            .api_version = STR("v1"),
            .fields_type = STR("FieldsV1"),
            .fields_v1 = arena_strf(a, "{\"f:data\":{\"f:z%05d\":{},\"f:k%05d\":{}}}", i, i)};
    return all;
}

// Each owner costs what it owns, not what the object has: an object may have thousands of both.
static void many_owners_are_cheap(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc before = {0}, after = {0};
    cleanup_sbuf struct sbuf x = {0}, y = {0};
    make_map(&x, "a", false);
    make_map(&y, "b", true);
    parse(sbuf_str(&x), &before);
    parse(sbuf_str(&y), &after);
    struct api_managed_fields_entry_array entries = make_owners(&arena), ret = {0};
    const struct managed_request q = {.kind = api_kind_find(STR("v1"), STR("ConfigMap")),
                                      .manager = STR("updater"),
                                      .now = {1700000000, 0},
                                      .force = true};
    size_t used = arena.used_bytes;
    assert_int_equal(managed_update(&q, before.root, after.root, &entries, &arena, &ret, NULL), 0);
    assert_int_equal(ret.n, OWNERS + 1);
    assert_str(ret.p[7].manager, "m00007");
    assert_str(ret.p[7].fields_v1, "{\"f:data\":{\"f:z00007\":{}}}"); // the updater has the other
    assert_true(arena.used_bytes - used < (size_t)64 * 1024 * 1024);
    // One of them states something else: what it leaves out goes, for all that is owned is joined first.
    cleanup_json_doc struct json_doc config = {0};
    struct managed_applied applied = {0};
    parse(
        STR("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"n\"},\"data\":"
            "{\"new\":\"x\"}}"),
        &config);
    const struct managed_request again = {.kind = q.kind, .manager = STR("m00007"), .now = q.now};
    used = arena.used_bytes;
    assert_int_equal(managed_apply(&again, after.root, config.root, &ret, &arena, &applied, NULL),
                     0);
    assert_true(applied.changed);
    assert_true(str_contains(sbuf_str(&applied.object), STR("\"new\"")));
    assert_false(str_contains(sbuf_str(&applied.object), STR("\"z00007\"")));
    assert_true(str_contains(sbuf_str(&applied.object), STR("\"z00008\"")));
    assert_true(arena.used_bytes - used < (size_t)64 * 1024 * 1024);
    sbuf_done(&applied.object);
}

// Conflicts are listed as far as there is room: every one of them names its whole path.
static void conflicts_are_bounded(void **state)
{
    (void)state;
    struct world w = {.kind = api_kind_find(STR("v1"), STR("Pod"))};
    cleanup_state struct state none = {0}, one = {0}, two = {0};
    struct sbuf configs[2] = {{0}, {0}};
    for (int k = 0; k < 2; k++) {
        sbuf_addz(&configs[k],
                  "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\","
                  "\"annotations\":{");
        for (int i = 0; i < 100; i++) {
            sbuf_addf(&configs[k], "%s\"", i ? "," : "");
            sbuf_add_repeat(&configs[k], 'a', 10000);
            sbuf_addf(&configs[k], "%d\":\"%d\"", i, k);
        }
        sbuf_addz(&configs[k], "}}}");
    }
    struct managed_applied a = {0};
    assert_int_equal(managed_empty(w.kind, &w.arena, &none.object, NULL), 0);
    assert_int_equal(apply(&w, &none, "one", sbuf_str(&configs[0]), false, &one, &a), 0);
    assert_int_equal(apply(&w, &one, "two", sbuf_str(&configs[1]), false, &two, &a), -ERR_CONFLICT);
    assert_in_range(a.conflicts_len, 1, MANAGED_CONFLICT_BYTES_MAX / 10000 + 1);
    sbuf_done(&configs[0]);
    sbuf_done(&configs[1]);
    arena_done(&w.arena);
}

// The set of what is owned is longer than the request that it was made from; what one request may send is then no bound for it.
static void what_was_applied_can_be_applied_again(void **state)
{
    (void)state;
    struct world w = {.kind = api_kind_find(STR("v1"), STR("ConfigMap"))};
    cleanup_state struct state none = {0}, one = {0}, two = {0};
    cleanup_sbuf struct sbuf config = {0};
    sbuf_addz(&config,
              "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"n\"},"
              "\"data\":{");
    for (int i = 0; i < 250000; i++)
        sbuf_addf(&config, "%s\"%x\":\"\"", i ? "," : "", (unsigned)i);
    sbuf_addz(&config, "}}");
    assert_true(config.n < DRAY_REQUEST_BYTES_MAX);
    struct managed_applied a = {0};
    assert_int_equal(managed_empty(w.kind, &w.arena, &none.object, NULL), 0);
    assert_int_equal(apply(&w, &none, "one", sbuf_str(&config), false, &one, &a), 0);
    assert_true(a.entries.p[0].fields_v1.n > DRAY_REQUEST_BYTES_MAX);
    assert_int_equal(apply(&w, &one, "one", sbuf_str(&config), false, &two, &a), 0);
    arena_done(&w.arena);
}

RUN_TESTS(TEST_CASE(laws_hold), TEST_CASE(many_owners_are_cheap), TEST_CASE(conflicts_are_bounded),
          TEST_CASE(what_was_applied_can_be_applied_again))
