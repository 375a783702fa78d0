// SPDX-License-Identifier: Apache-2.0
//
// CustomResourceDefinitions: which names they get, what becomes of the kinds when a definition is
// visible, changed or gone. What upstream's controllers do in several steps (accepting names,
// establishing, emptying) is done here as part of the write itself, so that a client that has the
// answer to a creation can use the new kind.
#include <stdlib.h>

#include "registry/stage_int.h"
#include "store/pending.h"

#include "base/banned.h"

#define CLEANUP_FINALIZER STR("customresourcecleanup.apiextensions.k8s.io")

// How soon to try again after a failure.
#define SWEEP_RETRY_NS CLOCK_NS_PER_SEC

typedef struct api_custom_resource_definition definition;
typedef struct api_custom_resource_definition_names names;
typedef struct api_custom_resource_definition_condition condition;

// --- Conditions ----------------------------------------------------------------------------------

static condition *find_condition(const definition *crd, struct str type)
{
    for (size_t i = 0; i < crd->status.conditions.n; i++)
        if (str_eq(crd->status.conditions.p[i].type, type))
            return &crd->status.conditions.p[i];
    return NULL;
}

static bool definitions_is_true(const definition *crd, struct str type)
{
    const condition *c = find_condition(crd, type);
    return c && str_eqz(c->status, "True");
}

static void set_condition(struct op *op, definition *crd, condition c)
{
    condition *have = find_condition(crd, c.type);
    c.last_transition_time = op->now;
    if (have) {
        if (str_eq(have->status, c.status))
            c.last_transition_time = have->last_transition_time;
        *have = c;
        return;
    }
    struct api_custom_resource_definition_condition_array *list = &crd->status.conditions;
    condition *all = arena_array(op->arena, condition, list->n + 1);
    for (size_t i = 0; i < list->n; i++)
        all[i] = list->p[i];
    all[list->n] = c;
    list->p = all;
    list->n++;
}

// --- Names ---------------------------------------------------------------------------------------

// A name that a definition wants, as a resource or as a kind.
struct wish {
    const struct op *op;
    const definition *crd;
    struct str name;
    bool kind;
    bool taken;
};

static void look_at_other(void *arg, const struct object *o)
{
    struct wish *w = arg;
    cleanup_arena struct arena arena = {0};
    struct api_object other = {0};
    if (w->taken || str_eq(o->name, w->crd->metadata.name) ||
        encode_read_stored(o, &w->op->now, &arena, &other, NULL) < 0)
        return;
    const definition *d = other.value;
    const names *n = &d->status.accepted_names;
    if (!str_eq(d->spec.group, w->crd->spec.group))
        return;
    w->taken = w->kind ? str_eq(n->kind, w->name) || str_eq(n->list_kind, w->name)
                       : str_eq(n->plural, w->name) || str_eq(n->singular, w->name) ||
                             api_str_listed(&n->short_names, w->name);
}

// Whether another definition of the group has accepted a name; also one that is being written.
static bool definitions_is_taken(struct op *op, const definition *crd, struct str name, bool kind)
{
    struct registry *reg = op->reg;
    struct store_walk walk = {.kind = reg->kinds.definition};
    struct wish w = {op, crd, name, kind, false};
    if (store_walk_start(reg->store, &walk, NULL) < 0)
        return false;
    for (const struct object *o; (o = store_walk_next(reg->store, &walk));)
        look_at_other(&w, o);
    store_walk_done(&walk);
    store_pending(reg->store, reg->kinds.definition, look_at_other, &w);
    return w.taken;
}

// Accepts a name unless another has it. Returns whether it could.
static bool definitions_accept_name(struct op *op, const definition *crd, struct str wanted,
                                    struct str *accepted, bool kind)
{
    if (!str_eq(wanted, *accepted) && definitions_is_taken(op, crd, wanted, kind))
        return false;
    *accepted = wanted;
    return true;
}

static struct str definitions_names_in_use(struct op *op, struct str name)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_quoted(&b, name);
    return arena_strf(op->arena, "%.*s is already in use", STR_ARG(sbuf_str(&b)));
}

static condition accept_names(struct op *op, definition *crd)
{
    const names *want = &crd->spec.names;
    names *got = &crd->status.accepted_names;
    condition c = {.type = STR("NamesAccepted"),
                   .status = STR("True"),
                   .reason = STR("NoConflicts"),
                   .message = STR("no conflicts found")};
    const struct {
        struct str name, *to, reason;
        bool kind;
    } all[] = {
        {want->plural, &got->plural, STR("PluralConflict"), false},
        {want->singular, &got->singular, STR("SingularConflict"), false},
        {want->kind, &got->kind, STR("KindConflict"), true},
        {want->list_kind, &got->list_kind, STR("ListKindConflict"), true},
    };
    struct str bad_short = {0};
    for (size_t i = 0; i < want->short_names.n; i++)
        if (!api_str_listed(&got->short_names, want->short_names.p[i]) &&
            definitions_is_taken(op, crd, want->short_names.p[i], false))
            bad_short = want->short_names.p[i];
    if (bad_short.n == 0)
        got->short_names = want->short_names;
    got->categories = want->categories;
    for (size_t i = 0; i < array_len(all); i++)
        if (!definitions_accept_name(op, crd, all[i].name, all[i].to, all[i].kind))
            c = (condition){c.type, STR("False"), .reason = all[i].reason,
                            .message = definitions_names_in_use(op, all[i].name)};
    if (bad_short.n && str_eqz(c.status, "True"))
        c = (condition){c.type, STR("False"), .reason = STR("ShortNamesConflict"),
                        .message = definitions_names_in_use(op, bad_short)};
    return c;
}

void definitions_settle(struct op *op, const struct api_object *object)
{
    definition *crd = object->value;
    if (crd->metadata.deletion_timestamp.set || op->request->subresource.n)
        return;
    const condition accepted = accept_names(op, crd);
    set_condition(op, crd, accepted);
    if (definitions_is_true(crd, STR("Established")))
        return;
    bool good = str_eqz(accepted.status, "True");
    set_condition(op, crd,
                  (condition){STR("Established"), good ? STR("True") : STR("False"),
                              .reason = good ? STR("InitialNamesAccepted") : STR("NotAccepted"),
                              .message = good ? STR("the initial names have been accepted")
                                              : STR("not all names are accepted")});
}

// --- Kinds ---------------------------------------------------------------------------------------

static void definitions_notify_listeners(struct registry *reg)
{
    if (reg->hooks.kinds_changed)
        reg->hooks.kinds_changed(reg->hooks.kinds_changed_arg);
}

// Defines the kinds of a visible definition. Returns whether its objects must be deleted.
static bool definitions_define_kinds(struct registry *reg, const struct object *o)
{
    static const struct api_time unknown;
    cleanup_arena struct arena arena = {0};
    struct api_object object = {0};
    if (encode_read_stored(o, &unknown, &arena, &object, NULL) < 0)
        return false;
    const definition *crd = object.value;
    if (definitions_is_true(crd, STR("Established")))
        custom_define(reg->customs, crd);
    return crd->metadata.deletion_timestamp.set;
}

static void definitions_undefine_kinds(struct registry *reg, const struct object *o)
{
    static const struct api_time unknown;
    cleanup_arena struct arena arena = {0};
    struct api_object object = {0};
    if (encode_read_stored(o, &unknown, &arena, &object, NULL) < 0)
        return;
    const definition *crd = object.value;
    custom_undefine(reg->customs, crd->spec.group, crd->status.accepted_names.kind);
}

static void definitions_resolve_names(struct registry *reg);

static void definitions_on_event(void *arg, const struct store_event *e)
{
    struct registry *reg = arg;
    if (e->type == STORE_DELETED) {
        definitions_undefine_kinds(reg, e->object);
        definitions_resolve_names(reg);
    } else if (definitions_define_kinds(reg, e->object)) {
        reg->definitions.all = true;
        exec_timer_start(reg->exec, &reg->definitions.timer, 0);
    }
    definitions_notify_listeners(reg);
}

static void definitions_sweep(void *arg);

int definitions_start(struct registry *reg, struct err *err)
{
    struct store_walk walk = {.kind = reg->kinds.definition};
    int r = store_walk_start(reg->store, &walk, err);
    if (r < 0)
        return r;
    bool dying = false;
    for (const struct object *o; (o = store_walk_next(reg->store, &walk));)
        dying |= definitions_define_kinds(reg, o);
    store_walk_done(&walk);
    reg->definitions.watch = (struct store_watch){.kind = reg->kinds.definition,
                                                  .seen = store_revision(reg->store),
                                                  .event = definitions_on_event,
                                                  .arg = reg};
    reg->definitions.timer = (struct exec_timer){.fn = definitions_sweep, .arg = reg};
    if (dying) {
        reg->definitions.all = true;
        exec_timer_start(reg->exec, &reg->definitions.timer, 0);
    }
    r = store_watch_start(reg->store, &reg->definitions.watch, err);
    reg->definitions.watched = r == 0;
    return r;
}

void definitions_stop(struct registry *reg)
{
    exec_timer_stop(reg->exec, &reg->definitions.timer);
    if (reg->definitions.watched)
        store_watch_stop(reg->store, &reg->definitions.watch);
    reg->definitions.watched = false;
    reg->hooks.kinds_changed = NULL;
}

void registry_set_kinds_hook(struct registry *reg, void (*fn)(void *arg), void *arg)
{
    reg->hooks.kinds_changed = fn;
    reg->hooks.kinds_changed_arg = arg;
}

const struct custom_kinds *registry_customs(const struct registry *reg)
{
    return reg->customs;
}

// --- Errands -------------------------------------------------------------------------------------

struct errand {
    struct registry *reg;
    struct registry_request request;
    struct arena arena;
};

static void definitions_on_request_done(void *arg, const struct registry_answer *answer)
{
    struct errand *e = arg;
    if (e->reg->definitions.watched && answer->code < 0 && answer->code != -ERR_NOT_FOUND &&
        answer->code != -ERR_CONFLICT) {
        e->reg->definitions.all = true;
        exec_timer_start(e->reg->exec, &e->reg->definitions.timer, SWEEP_RETRY_NS);
    }
    arena_done(&e->arena);
    free(e);
}

static struct errand *definitions_new_request(struct registry *reg, const struct api_kind *kind,
                                              struct str name)
{
    struct errand *e = xcalloc(1, sizeof(*e));
    e->reg = reg;
    e->request.kind = kind;
    e->request.name = arena_str(&e->arena, name);
    return e;
}

// Another definition let go of names: those who wait for one may have it now.
static void definitions_resolve_names(struct registry *reg)
{
    struct store_walk walk = {.kind = reg->kinds.definition};
    if (store_walk_start(reg->store, &walk, NULL) < 0)
        return;
    for (const struct object *o; (o = store_walk_next(reg->store, &walk));) {
        struct errand *e = definitions_new_request(reg, reg->kinds.definition, o->name);
        struct op *op =
            op_new(reg, &e->request, VERB_UPDATE, &e->arena, definitions_on_request_done, e);
        struct api_object object = {0};
        const struct object *head = op_head(op, o->name);
        int r = head ? op_decode(op, head, &object) : 0;
        if (head && r == 0 && !definitions_is_true(object.value, STR("NamesAccepted"))) {
            definitions_settle(op, &object);
            r = op_write_change(op, &object, head);
        }
        op_finish(op, r);
    }
    store_walk_done(&walk);
}

// --- The end -------------------------------------------------------------------------------------

int definitions_delete(struct op *op, const struct object *old, const struct api_object *decoded,
                       const struct api_delete_options *options)
{
    definition *crd = decoded->value;
    struct api_str_array *have = &crd->metadata.finalizers;
    if (crd->metadata.deletion_timestamp.set)
        return delete_decoded(op, old, decoded, options);
    crd->metadata.deletion_timestamp = op->now;
    if (!api_str_listed(have, CLEANUP_FINALIZER)) {
        struct str *list = arena_array(op->arena, struct str, have->n + 1);
        for (size_t i = 0; i < have->n; i++)
            list[i] = have->p[i];
        list[have->n] = CLEANUP_FINALIZER;
        *have = (struct api_str_array){list, have->n + 1};
    }
    set_condition(op, crd,
                  (condition){STR("Terminating"), STR("True"),
                              .reason = STR("InstanceDeletionPending"),
                              .message = STR("CustomResourceDefinition marked for deletion; "
                                             "CustomResource deletion will begin soon")});
    return op_write_change(op, decoded, old);
}

static void definitions_remove_finalizer(struct registry *reg, const struct object *o)
{
    struct errand *e = definitions_new_request(reg, reg->kinds.definition, o->name);
    struct op *op =
        op_new(reg, &e->request, VERB_UPDATE, &e->arena, definitions_on_request_done, e);
    struct api_object object = {0};
    int r = op_decode(op, o, &object);
    if (r == 0) {
        struct api_str_array *list = &((definition *)object.value)->metadata.finalizers;
        size_t n = 0;
        for (size_t i = 0; i < list->n; i++)
            if (!str_eq(list->p[i], CLEANUP_FINALIZER))
                list->p[n++] = list->p[i];
        list->n = n;
        r = n ? op_write_change(op, &object, o) : op_write_removal(op, o, false);
    }
    op_finish(op, r);
}

// hub_of is the kind whose objects go with a definition; NULL: none. Of one whose names were never
// accepted the kind may be another's.
static const struct api_kind *hub_of(struct registry *reg, const definition *crd)
{
    return definitions_is_true(crd, STR("Established"))
               ? custom_hub(reg->customs, crd->spec.group, crd->spec.names.kind)
               : NULL;
}

static void sweep_one(struct registry *reg, const struct object *o, bool all)
{
    static const struct api_time unknown;
    cleanup_arena struct arena arena = {0};
    struct api_object object = {0};
    if (encode_read_stored(o, &unknown, &arena, &object, NULL) < 0)
        return;
    const definition *crd = object.value;
    if (!crd->metadata.deletion_timestamp.set ||
        !api_str_listed(&crd->metadata.finalizers, CLEANUP_FINALIZER))
        return;
    const struct api_kind *hub = hub_of(reg, crd);
    size_t left = hub ? store_count(reg->store, hub, STR("")) : 0;
    if (left && all) {
        struct errand *e = definitions_new_request(reg, hub, STR(""));
        registry_delete_collection(reg, &e->request, NULL, NULL, &e->arena,
                                   definitions_on_request_done, e);
    }
    if (left == 0)
        definitions_remove_finalizer(reg, o);
}

static void definitions_sweep(void *arg)
{
    struct registry *reg = arg;
    struct store_walk walk = {.kind = reg->kinds.definition};
    bool all = reg->definitions.all;
    reg->definitions.all = false;
    if (store_walk_start(reg->store, &walk, NULL) < 0)
        return;
    for (const struct object *o; (o = store_walk_next(reg->store, &walk));) {
        const struct store_key key = {reg->kinds.definition, STR(""), o->name};
        const struct object *head = object_ref(store_head(reg->store, &key));
        if (head)
            sweep_one(reg, head, all);
        object_unref(head);
    }
    store_walk_done(&walk);
}

void definitions_due(struct registry *reg, const struct api_kind *hub)
{
    if (reg->definitions.watched && hub->custom->terminating &&
        !exec_timer_armed(&reg->definitions.timer))
        exec_timer_start(reg->exec, &reg->definitions.timer, 0);
}
