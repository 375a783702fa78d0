// SPDX-License-Identifier: Apache-2.0
//
// The rules that the schema states: a walk over an object of the request's version by the tables.
//
// On update, data that did not change is not looked at again. A field is held against the old
// object's field; items of a list against the old item with the same keys, if the list has keys (a
// set's item against itself); entries of a map against the old entry. Items of other lists are new
// whenever anything in the list has changed.
//
// A rule that needs a value ends the look at a field when there is none, and so does a list that is
// too long. Upstream knows rules in trial (alpha) that never reach a user: those of object
// metadata, of conditions, of dependent fields and of the length of list items. They are left out;
// the same is checked by hand.
#include "api/validate/validate_int.h"
#include "base/utf8.h"

#include "base/banned.h"

#define POOL_NAME_MAX  253
#define DOMAIN_MAX     63
#define IDENTIFIER_MAX 32

struct walk {
    struct validator *v;
    bool update;
    bool beta; // whether rules of that stage are enforced
};

// --- Formats -------------------------------------------------------------------------------------

static void format_uuid(struct validator *v, const struct path *at, struct str value)
{
    if (!name_is_uuid(value))
        cause_invalid(v->causes, at, value, STR("must be a lowercase UUID in 8-4-4-4-12 format"));
}

// Adds the messages of a check of part, each with a prefix.
static void say_of(struct validator *v, const struct path *at, struct str part, struct str before)
{
    struct name_msgs msgs = {.arena = scratch(v)};
    name_dns_subdomain(part, &msgs);
    for (size_t i = 0; i < msgs.n; i++)
        cause_invalid(v->causes, at, part,
                      arena_strf(scratch(v), "%.*s%.*s", STR_ARG(before), STR_ARG(msgs.p[i])));
}

static void format_pool_name(struct validator *v, const struct path *at, struct str value)
{
    if (value.n > POOL_NAME_MAX)
        cause_too_long(v->causes, at, POOL_NAME_MAX);
    struct str rest = value, part;
    bool more = true;
    for (size_t i = 0; more; i++) {
        more = str_cut(rest, '/', &part, &rest);
        if (part.n == 0)
            cause_invalid(v->causes, at, value,
                          arena_strf(scratch(v), "segment %zu: must not be empty", i));
        else
            say_of(v, at, part, arena_strf(scratch(v), "segment %zu: ", i));
    }
}

static void format_identifier(struct validator *v, const struct path *at, struct str value)
{
    if (value.n > IDENTIFIER_MAX)
        cause_too_long(v->causes, at, IDENTIFIER_MAX);
    validate_format(v, at, value, name_c_identifier, NULL);
}

static void format_fully_qualified_name(struct validator *v, const struct path *at,
                                        struct str value)
{
    struct str domain, name;
    if (!str_cut(value, '/', &domain, &name)) {
        format_identifier(v, at, value);
        cause_invalid(
            v->causes, at, value,
            STR("a fully qualified name must be a domain and a name separated by a slash"));
        return;
    }
    // A known gap of upstream's, kept: more than one slash is not looked at.
    if (str_find_char(name, '/') >= 0)
        return;
    if (domain.n == 0)
        cause_invalid(v->causes, at, STR(""), STR("prefix must not be empty"));
    if (domain.n > DOMAIN_MAX)
        cause_too_long(v->causes, at, DOMAIN_MAX);
    if (domain.n)
        say_of(v, at, domain, STR("prefix: "));
    if (name.n == 0)
        cause_invalid(v->causes, at, STR(""), STR("name must not be empty"));
    else
        format_identifier(v, at, name);
}

static const struct format {
    const char *name;
    const char *origin;
    name_check check; // or, for those with more to them:
    void (*run)(struct validator *v, const struct path *at, struct str value);
} formats[] = {
    {"k8s-short-name", "format=k8s-short-name", name_dns_label, NULL},
    {"k8s-long-name", "format=k8s-long-name", name_dns_subdomain, NULL},
    {"k8s-long-name-caseless", "format=k8s-long-name-caseless", name_dns_subdomain_caseless, NULL},
    {"k8s-label-key", "format=k8s-label-key", name_label_key, NULL},
    {"k8s-label-value", "format=k8s-label-value", name_label_value, NULL},
    {"k8s-path-segment-name", "format=k8s-path-segment-name", name_path_segment, NULL},
    {"k8s-extended-resource-name", "format=k8s-extended-resource-name", name_extended_resource,
     NULL},
    {"k8s-uuid", "format=k8s-uuid", NULL, format_uuid},
    {"k8s-resource-pool-name", "format=k8s-resource-pool-name", NULL, format_pool_name},
    {"k8s-resource-fully-qualified-name", "format=k8s-resource-fully-qualified-name", NULL,
     format_fully_qualified_name},
};

static void apply_format(struct validator *v, const struct path *at, const char *name,
                         struct str value)
{
    for (size_t i = 0; name && i < array_len(formats); i++) {
        const struct format *f = &formats[i];
        if (!str_eqz(str_z(f->name), name))
            continue;
        size_t from = v->causes->n;
        if (f->check)
            validate_format(v, at, value, f->check, NULL);
        else
            f->run(v, at, value);
        causes_mark(v->causes, from, f->origin, false);
        return;
    }
}

// --- Values --------------------------------------------------------------------------------------

static void apply_enum(struct validator *v, const struct path *at, const char *const *values,
                       struct str value)
{
    struct str sorted[16];
    size_t n = 0;
    for (; values[n] && n < array_len(sorted); n++) {
        size_t i = n;
        if (str_eqz(value, values[n]))
            return;
        for (; i > 0 && str_cmp(str_z(values[n]), sorted[i - 1]) < 0; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = str_z(values[n]);
    }
    cause_not_supported(v->causes, at, value, sorted, n);
}

static void apply_text(struct validator *v, const struct path *at,
                       const struct api_field_info *info, struct str value)
{
    apply_format(v, at, info->format, value);
    if (info->max_length && utf8_count(value) > (size_t)info->max_length) {
        size_t n = cause_too_long_characters(v->causes, at, (size_t)info->max_length);
        v->causes->p[n].origin = "maxLength";
    }
    if (info->max_bytes && value.n > (size_t)info->max_bytes) {
        size_t n = cause_too_long(v->causes, at, (size_t)info->max_bytes);
        v->causes->p[n].origin = "maxBytes";
    }
    if (info->values)
        apply_enum(v, at, info->values, value);
}

static void apply_number(struct validator *v, const struct path *at,
                         const struct api_field_info *info, int64_t value)
{
    if (info->has_max && value > info->max) {
        size_t n = cause_invalid_i64(v->causes, at, value,
                                     arena_strf(scratch(v), "must be less than or equal to %lld",
                                                (long long)info->max));
        v->causes->p[n].origin = "maximum";
    }
    if (info->has_min && value < info->min) {
        size_t n = cause_invalid_i64(v->causes, at, value,
                                     arena_strf(scratch(v), "must be greater than or equal to %lld",
                                                (long long)info->min));
        v->causes->p[n].origin = "minimum";
    }
}

static void apply_scalar(struct validator *v, const struct path *at, const struct api_field *f,
                         const void *value)
{
    if (f->elem == API_STR)
        apply_text(v, at, f->info, *(const struct str *)value);
    else if (f->elem == API_I32)
        apply_number(v, at, f->info, *(const int32_t *)value);
    else if (f->elem == API_I64)
        apply_number(v, at, f->info, *(const int64_t *)value);
}

// --- Lists ---------------------------------------------------------------------------------------

static void walk_struct(struct walk *w, const struct api_type *t, const struct path *at,
                        const void *value, const void *old, bool standard);

// Kinds that were made with such rules have them enforced whatever the gate.
static bool is_native(const struct api_type *t)
{
    return str_eqz(t->package, "scheduling/v1beta1");
}

// The rules of all other types outside resource.k8s.io are in trial.
static bool has_rules(const struct api_type *t)
{
    return str_starts(t->package, STR("resource/")) || is_native(t);
}

static const char *list_keys(const struct api_field *f)
{
    if (f->flags & API_LIST_MAP)
        return f->info->keys;
    return f->info->unique && str_eqz(str_z(f->info->unique), "map") ? f->info->unique_by : NULL;
}

static bool is_set(const struct api_field *f)
{
    return (f->flags & API_LIST_SET) || (f->info->unique && str_eqz(str_z(f->info->unique), "set"));
}

static bool declarative_keys_equal(const struct api_field *f, const char *keys, const void *a,
                                   const void *b)
{
    struct str rest = str_z(keys), key;
    while (rest.n) {
        str_cut(rest, ',', &key, &rest);
        if (!api_field_equal(api_type_field(f->sub, key), a, b))
            return false;
    }
    return true;
}

static bool same_item(const struct api_field *f, const void *a, const void *b)
{
    if (f->elem == API_STR)
        return str_eq(*(const struct str *)a, *(const struct str *)b);
    const char *keys = f->elem == API_STRUCT ? list_keys(f) : NULL;
    return keys && declarative_keys_equal(f, keys, a, b);
}

static const char *list_item(const struct api_field *f, const struct api_span *list, size_t i)
{
    return (const char *)list->p + i * api_elem_size(f);
}

static const void *declarative_find_item(const struct api_field *f, const struct api_span *list,
                                         const void *item)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (same_item(f, list_item(f, list, i), item))
            return list_item(f, list, i);
    return NULL;
}

// A text that two items have in common when they count as the same. Keys of lists are strings; one
// that is not there differs from an empty one.
static struct str item_key(const struct api_field *f, const void *item, struct arena *arena)
{
    if (f->elem == API_STR)
        return *(const struct str *)item;
    cleanup_sbuf struct sbuf b = {0};
    struct str rest = str_z(list_keys(f)), key;
    while (rest.n) {
        str_cut(rest, ',', &key, &rest);
        const struct api_field *part = api_type_field(f->sub, key);
        bool set = part->shape != API_OPT || api_field_present(part, item);
        struct str text = set ? *(const struct str *)api_member_const(part, item) : STR("");
        sbuf_addc(&b, set ? '1' : '0');
        sbuf_add_u64(&b, text.n);
        sbuf_addc(&b, ' ');
        sbuf_add(&b, text);
    }
    return arena_str(arena, sbuf_str(&b));
}

static void declarative_check_unique(struct validator *v, const struct path *at,
                                     const struct api_field *f, const struct api_span *list)
{
    cleanup_seen struct seen keys = {0};
    for (size_t i = 0; i < list->n; i++) {
        const void *item = list_item(f, list, i);
        if (!seen_add(&keys, item_key(f, item, scratch(v))))
            continue;
        if (f->elem == API_STR)
            cause_duplicate(v->causes, AT_ITEM(at, i), *(const struct str *)item);
        else
            cause_duplicate_json(v->causes, AT_ITEM(at, i),
                                 validate_show_json(f->sub, item, scratch(v)));
    }
}

static void walk_struct_list(struct walk *w, const struct path *at, const struct api_field *f,
                             const struct api_span *list, const struct api_span *old, bool standard)
{
    bool keyed = list_keys(f) != NULL;
    if (!has_rules(f->sub))
        return;
    for (size_t i = 0; i < list->n; i++) {
        const void *item = list_item(f, list, i);
        const void *before = keyed ? declarative_find_item(f, old, item) : NULL;
        if (w->update && before && api_equal(f->sub, item, before))
            continue;
        walk_struct(w, f->sub, AT_ITEM(at, i), item, before, standard);
    }
}

static void apply_items(struct walk *w, const struct path *at, const struct api_field *f,
                        const struct api_span *list, const struct api_span *old)
{
    if (f->elem != API_STR || (!f->info->item_format && !f->info->values))
        return;
    for (size_t i = 0; i < list->n; i++) {
        const void *item = list_item(f, list, i);
        if (w->update && is_set(f) && declarative_find_item(f, old, item))
            continue;
        apply_format(w->v, AT_ITEM(at, i), f->info->item_format, *(const struct str *)item);
        if (f->info->values)
            apply_enum(w->v, AT_ITEM(at, i), f->info->values, *(const struct str *)item);
    }
}

// --- Maps ----------------------------------------------------------------------------------------

static const char *map_entry(const struct api_field *f, const struct api_span *map, size_t i)
{
    return (const char *)map->p + i * api_entry_size(f);
}

static struct str declarative_entry_key(const char *entry)
{
    return *(const struct str *)(const void *)entry;
}

static const char *declarative_find_entry(const struct api_field *f, const struct api_span *map,
                                          struct str key)
{
    for (size_t i = 0; map && i < map->n; i++)
        if (str_eq(declarative_entry_key(map_entry(f, map, i)), key))
            return map_entry(f, map, i);
    return NULL;
}

static void apply_keys(struct walk *w, const struct path *at, const struct api_field *f,
                       const struct api_span *map, const struct api_span *old)
{
    for (size_t i = 0; f->info->key_format && i < map->n; i++) {
        struct str key = declarative_entry_key(map_entry(f, map, i));
        if (!w->update || !declarative_find_entry(f, old, key))
            apply_format(w->v, at, f->info->key_format, key);
    }
}

static void walk_map(struct walk *w, const struct path *at, const struct api_field *f,
                     const struct api_span *map, const struct api_span *old, bool standard)
{
    if (f->elem != API_STRUCT || !has_rules(f->sub))
        return;
    for (size_t i = 0; i < map->n; i++) {
        const char *entry = map_entry(f, map, i),
                   *before = declarative_find_entry(f, old, declarative_entry_key(entry));
        const void *value = entry + API_ENTRY_VALUE;
        const void *old_value = before ? before + API_ENTRY_VALUE : NULL;
        if (w->update && before && api_equal(f->sub, value, old_value))
            continue;
        walk_struct(w, f->sub, AT_KEY(at, declarative_entry_key(entry)), value, old_value,
                    standard);
    }
}

// --- Fields --------------------------------------------------------------------------------------

static bool declarative_is_empty(const struct api_field *f, const void *owner)
{
    if (f->shape == API_LIST || f->shape == API_MAP)
        return ((const struct api_span *)api_member_const(f, owner))->n == 0;
    return !api_field_present(f, owner);
}

// Whether all gates of a field are on.
static bool gates_on(const struct validator *v, const struct api_field *f)
{
    struct str rest = str_z(f->info->gates), name;
    while (rest.n) {
        str_cut(rest, ',', &name, &rest);
        enum feature which = feature_find(name);
        if (which != FEATURE_NONE && !gate(v, which))
            return false;
    }
    return true;
}

static void say_update(struct walk *w, const struct path *at, const char *text)
{
    size_t n = cause_invalid_json(w->v->causes, at, STR("null"), str_z(text));
    w->v->causes->p[n].origin = "update";
}

// What may not become of a field or list that an object has, or lacks, from its beginning.
static bool apply_update(struct walk *w, const struct path *at, const struct api_field *f,
                         const void *owner, const void *old)
{
    size_t from = w->v->causes->n;
    if (!w->update || !old)
        return true;
    bool had = !declarative_is_empty(f, old), has = !declarative_is_empty(f, owner);
    if ((f->flags & API_NO_SET) && !had && has)
        say_update(w, at, "field cannot be set once created");
    if ((f->flags & API_NO_UNSET) && had && !has)
        say_update(w, at, "field cannot be cleared once set");
    const struct api_span *now = api_member_const(f, owner), *was = api_member_const(f, old);
    for (size_t i = 0; (f->flags & API_NO_ADD) && i < now->n; i++) {
        if (!declarative_find_item(f, was, list_item(f, now, i)))
            cause_forbidden(w->v->causes, AT_ITEM(at, i), STR("item may not be added"));
    }
    for (size_t i = 0; (f->flags & API_NO_REMOVE) && i < was->n; i++)
        if (!declarative_find_item(f, now, list_item(f, was, i)))
            cause_forbidden(w->v->causes, at, STR("item may not be removed"));
    return w->v->causes->n == from;
}

// The rules that end the look at a field. False: do not go on.
static bool apply_first(struct walk *w, const struct path *at, const struct api_field *f,
                        const void *owner, const void *old)
{
    struct validator *v = w->v;
    bool empty = declarative_is_empty(f, owner);
    if ((f->flags & API_CLOSED) && !gates_on(v, f)) {
        if (!empty)
            cause_forbidden(v->causes, at, STR(""));
        return false;
    }
    if (!apply_update(w, at, f, owner, old))
        return false;
    bool fixed = (f->flags & API_IMMUTABLE) && w->update &&
                 !(empty && (!old || declarative_is_empty(f, old)));
    if (fixed) {
        size_t n = cause_invalid_json(v->causes, at, STR("null"), STR("field is immutable"));
        v->causes->p[n].origin = "immutable";
    }
    if (empty && fixed)
        return false;
    if (empty) {
        if (f->flags & API_MUST)
            cause_required(v->causes, at, STR(""));
        return false;
    }
    const struct api_span *list = api_member_const(f, owner);
    if (f->shape == API_LIST && f->info->max_items && list->n > (size_t)f->info->max_items) {
        size_t n = cause_too_many(v->causes, at, list->n, (size_t)f->info->max_items);
        v->causes->p[n].origin = "maxItems";
        return false;
    }
    bool changes = (f->flags & API_NO_MODIFY) && w->update && old && api_field_present(f, old);
    if (changes)
        say_update(w, at, "field cannot be modified once set");
    return !changes && !fixed;
}

// The rules of the field itself; what stands below comes after.
static void apply_own(struct walk *w, const struct path *at, const struct api_field *f,
                      const void *owner, const void *old)
{
    const void *value = api_member_const(f, owner);
    const struct api_span *before = old ? api_member_const(f, old) : NULL;
    if (f->shape == API_LIST) {
        bool trial = f->elem == API_STRUCT && !has_rules(f->sub);
        if (!trial && (is_set(f) || (f->elem == API_STRUCT && list_keys(f))))
            declarative_check_unique(w->v, at, f, value);
        apply_items(w, at, f, value, before);
    } else if (f->shape == API_MAP) {
        apply_keys(w, at, f, value, before);
    } else {
        apply_scalar(w->v, at, f, value);
    }
}

static void walk_below(struct walk *w, const struct path *at, const struct api_field *f,
                       const void *owner, const void *old, bool standard)
{
    const void *value = api_member_const(f, owner), *before = old ? api_member_const(f, old) : NULL;
    if (f->elem != API_STRUCT)
        return;
    if (f->shape == API_LIST) {
        walk_struct_list(w, at, f, value, before, standard);
    } else if (f->shape == API_MAP) {
        walk_map(w, at, f, value, before, standard);
    } else if (has_rules(f->sub)) {
        if (api_field_is_pointer(f)) {
            value = *(const void *const *)value;
            before = before ? *(const void *const *)before : NULL;
        }
        walk_struct(w, f->sub, at, value, before, standard);
    }
}

// Marks what was added since `from`, or takes it away again if its stage is not enforced.
static void declarative_settle_causes(struct walk *w, size_t from, bool standard)
{
    if (!standard && !w->beta)
        w->v->causes->n = from;
    for (size_t i = from; i < w->v->causes->n; i++) {
        w->v->causes->p[i].declared = true;
        w->v->causes->p[i].beta = !standard;
    }
}

static void walk_field(struct walk *w, const struct api_field *f, const struct path *at,
                       const void *owner, const void *old, bool standard)
{
    if (w->update && old && api_field_equal(f, owner, old))
        return;
    standard = standard || (f->flags & API_STANDARD);
    // An embedded struct adds no step to the path.
    struct path own = at ? path_field(at, f->name) : path_root(f->name);
    const struct path *field = f->shape == API_INLINE ? at : &own;
    size_t from = w->v->causes->n;
    bool on = f->shape == API_INLINE || apply_first(w, field, f, owner, old);
    if (on && f->shape != API_INLINE)
        apply_own(w, field, f, owner, old);
    declarative_settle_causes(w, from, standard);
    if (on)
        walk_below(w, field, f, owner, old, standard);
}

// --- Structs -------------------------------------------------------------------------------------

static void check_union(struct walk *w, const struct api_type *t, const struct path *at,
                        const void *value, const void *old)
{
    cleanup_sbuf struct sbuf set = {0}, all = {0};
    size_t n = 0;
    bool changed = false;
    for (size_t i = 0; i < t->fields_len; i++) {
        const struct api_field *f = &t->fields[i];
        if (!(f->flags & API_UNION))
            continue;
        bool now = !declarative_is_empty(f, value);
        changed = changed || now != (old && !declarative_is_empty(f, old));
        sbuf_addf(&all, "%s`%.*s`", all.n ? ", " : "", STR_ARG(f->name));
        if (now)
            sbuf_addf(&set, "%s%.*s", n++ ? ", " : "{", STR_ARG(f->name));
    }
    if (all.n == 0 || n == 1 || (w->update && old && !changed))
        return;
    struct validator *v = w->v;
    sbuf_addc(&set, '}');
    size_t i =
        n == 0 ? cause_invalid(v->causes, at, STR(""),
                               arena_strf(scratch(v), "must specify one of: %s", all.p))
               : cause_invalid(v->causes, at, sbuf_str(&set),
                               arena_strf(scratch(v), "must specify exactly one of: %s", all.p));
    v->causes->p[i].origin = "union";
}

static void walk_struct(struct walk *w, const struct api_type *t, const struct path *at,
                        const void *value, const void *old, bool standard)
{
    size_t from = w->v->causes->n;
    check_union(w, t, at, value, old);
    declarative_settle_causes(w, from, standard);
    for (size_t i = 0; i < t->fields_len; i++)
        walk_field(w, &t->fields[i], at, value, old, standard);
}

// DeviceClass is the one kind whose name has a rule of this sort.
static void check_class_name(struct walk *w, const struct api_object *object,
                             const struct api_object *old)
{
    const struct api_object_meta *meta = api_object_meta(object);
    const struct api_object_meta *before = old ? api_object_meta(old) : NULL;
    size_t from = w->v->causes->n;
    if (meta->name.n && !(before && str_eq(before->name, meta->name)))
        apply_format(w->v, AT(AT(NULL, "metadata"), "name"), "k8s-long-name", meta->name);
    declarative_settle_causes(w, from, false);
}

void validate_declarative(struct validator *v, const struct api_object *object,
                          const struct api_object *old)
{
    struct walk w = {
        .v = v,
        .update = v->op != API_CREATE,
        .beta = gate(v, FEATURE_DECLARATIVE_VALIDATION_BETA),
    };
    if (!has_rules(object->kind->type))
        return;
    if (object->kind->type == &api_device_class_type)
        check_class_name(&w, object, old);
    walk_struct(&w, object->kind->type, NULL, object->value, old ? old->value : NULL,
                is_native(object->kind->type));
}
