// SPDX-License-Identifier: Apache-2.0
//
// What happens to a cluster: users, administrators, drivers and kubelets do things, machines crash.
#include "ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/banned.h"

enum { NODES = 4 };

static const char *const spaces[SPACES] = {"default", "red", "blue"};

// Whose claims may have admin access.
#define ADMIN_SPACE "blue"

// --- Doing ---------------------------------------------------------------------------------------

// Something under way: it is logged when it fails in a way that tells of a mistake in here.
struct deed {
    struct sim *s;
    char *what;
};

static void done(void *arg, const struct client_answer *a)
{
    struct deed *d = arg;
    if (a->code == -ERR_INVALID || a->code == -ERR_BAD_REQUEST)
        sim_break(d->s, "%s was refused: %s", d->what, a->err->msg);
    else if (d->s->verbose && a->code)
        sim_log(d->s, "  (%s: %s)", d->what, err_reason(-a->code));
    free(d->what);
    free(d);
}

static struct deed *deed(struct sim *s, const char *verb, const char *kind, const char *namespace,
                         const char *name)
{
    struct deed *d = xcalloc(1, sizeof(*d));
    struct sbuf b = {0};
    sbuf_addf(&b, "%s %s %s%s%s", verb, kind, namespace, *namespace ? "/" : "", name);
    d->s = s;
    d->what = sbuf_take(&b);
    sim_log(s, "%s", d->what);
    return d;
}

const struct api_kind *op_kind(const char *kind)
{
    static const char *const core[] = {"Pod", "Node", "Namespace"};
    for (size_t i = 0; i < array_len(core); i++)
        if (strcmp(core[i], kind) == 0)
            return api_kind_find(STR("v1"), str_z(kind));
    if (strcmp(kind, "PodGroup") == 0)
        return api_kind_find(STR("scheduling.k8s.io/v1beta1"), str_z(kind));
    if (strcmp(kind, "PriorityClass") == 0)
        return api_kind_find(STR("scheduling.k8s.io/v1"), str_z(kind));
    return api_kind_find(STR("resource.k8s.io/v1"), str_z(kind));
}

// create takes JSON with single quotes for double ones; ` stands for a single one.
void op_create(struct sim *s, const char *kind, const char *namespace, const char *name,
               const struct sbuf *body)
{
    struct arena cleanup_arena arena = {0};
    struct err err = {0};
    struct json_doc doc = {0};
    struct api_object object = {0};
    for (size_t i = 0; i < body->n; i++)
        body->p[i] = body->p[i] == '\'' ? '"' : body->p[i] == '`' ? '\'' : body->p[i];
    if (json_parse(sbuf_str(body), NULL, &doc, &err) < 0 ||
        api_decode_as(op_kind(kind), &doc, doc.root, &arena, NULL, &object, &err) < 0) {
        (void)fprintf(stderr, "sim: %s in %s\n", err.msg, body->p);
        abort();
    }
    json_doc_done(&doc);
    api_set_type_meta(&object);
    client_create(s->hands, &object, NULL, done, deed(s, "create", kind, namespace, name));
}

void op_delete(struct sim *s, const char *kind, const char *namespace, const char *name,
               const struct api_delete_options *options)
{
    const struct client_key key = {op_kind(kind), str_z(namespace), str_z(name)};
    client_delete(s->hands, &key, options, done, deed(s, "delete", kind, namespace, name));
}

void op_patch(struct sim *s, const char *kind, const char *namespace, const char *name,
              const char *subresource, const char *text)
{
    struct sbuf b = {0};
    for (; *text; text++)
        sbuf_addc(&b, *text == '\'' ? '"' : *text);
    const struct client_key key = {op_kind(kind), str_z(namespace), str_z(name)};
    const struct client_write how = {.subresource = str_z(subresource)};
    sim_log(s, "  with %s", b.p);
    client_patch(s->hands, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&b), &how, done,
                 deed(s, "patch", kind, namespace, name));
    sbuf_done(&b);
}

void op_metadata(struct sbuf *b, const char *namespace, const char *name)
{
    sbuf_addf(b, "'metadata':{'name':'%s'", name);
    if (*namespace)
        sbuf_addf(b, ",'namespace':'%s'", namespace);
    sbuf_addz(b, "}");
}

// --- Classes, nodes, slices ----------------------------------------------------------------------

static void make_class(struct sim *s, const char *name, bool extended)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "{");
    op_metadata(&b, "", name);
    sbuf_addf(&b, ",'spec':{'selectors':[{'cel':{'expression':'device.driver == `%s`'}}]%s}}", name,
              extended ? ",'extendedResourceName':'gpu.d/card'" : "");
    op_create(s, "DeviceClass", "", name, &b);
}

// Pods without a class have priority 0.
static void make_priorities(struct sim *s)
{
    static const char *const names[] = {"middle", SIM_HIGHEST};
    for (unsigned i = 0; i < array_len(names); i++) {
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addz(&b, "{");
        op_metadata(&b, "", names[i]);
        sbuf_addf(&b, ",'value':%u}", 10 * (i + 1));
        op_create(s, "PriorityClass", "", names[i], &b);
    }
}

static const char *const classes[] = {"gpu.d", "part.d", "net.d", "fabric.d"};

static void name_node(char out[8], uint64_t number)
{
    (void)snprintf(out, 8, "n-%u", (unsigned)number);
}

static void make_node(struct sim *s, uint64_t number)
{
    char name[8];
    cleanup_sbuf struct sbuf b = {0};
    name_node(name, number);
    sbuf_addf(&b,
              "{'metadata':{'name':'%s','labels':{'kubernetes.io/hostname':'%s','zone':'%s'}},"
              "'status':{'allocatable':{'cpu':'8','memory':'8Gi','pods':'8'},'capacity':{'cpu':'8',"
              "'memory':'8Gi','pods':'8'},'conditions':[{'type':'Ready','status':'True'}]}}",
              name, name, number % 2 ? "a" : "b");
    op_create(s, "Node", "", name, &b);
}

static void taint(struct sim *s, struct sbuf *b)
{
    static const char *const effects[] = {"NoSchedule", "NoExecute", "None"};
    if (sim_draw(s, 8) == 0)
        sbuf_addf(b, ",'taints':[{'key':'sick','effect':'%s'}]", effects[sim_draw(s, 3)]);
}

// Devices of which some are missing or tainted at times.
static void add_gpus(struct sim *s, struct sbuf *b)
{
    bool first = true;
    for (uint64_t i = 0; i < 4; i++) {
        if (sim_draw(s, 6) == 0)
            continue;
        sbuf_addf(b,
                  "%s{'name':'gpu-%u','attributes':{'numa':{'int':%u},'model':{'string':'%s'}},"
                  "'capacity':{'memory':{'value':'%uGi'}}",
                  first ? "" : ",", (unsigned)i, (unsigned)(i / 2), i % 2 ? "big" : "small",
                  i % 2 ? 80U : 40U);
        if (i == 3) // has to be made ready
            sbuf_addz(b, ",'bindsToNode':true,'bindingConditions':['gpu.d/Ready'],"
                         "'bindingFailureConditions':['gpu.d/Failed']");
        taint(s, b);
        sbuf_addz(b, "}");
        first = false;
    }
}

// Partitions of one thing: all of it, halves, quarters.
static void add_partitions(struct sim *s, struct sbuf *b)
{
    for (unsigned size = 4; size > 0; size /= 2)
        for (unsigned at = 0; at < 4; at += size) {
            sbuf_addf(b,
                      "%s{'name':'p%u-%u','attributes':{'size':{'int':%u}},'consumesCounters':[{"
                      "'counterSet':'chip','counters':{",
                      size == 4 ? "" : ",", size, at, size);
            for (unsigned i = at; i < at + size; i++)
                sbuf_addf(b, "'cell-%u':{'value':'1'},", i);
            sbuf_addf(b, "'memory':{'value':'%uGi'}}}]", size);
            taint(s, b);
            sbuf_addz(b, "}");
        }
}

static void add_links(struct sim *s, struct sbuf *b)
{
    for (unsigned i = 0; i < 2; i++) {
        sbuf_addf(b,
                  "%s{'name':'nic-%u','allowMultipleAllocations':true,'capacity':{'rate':{'value':"
                  "'10G','requestPolicy':{'default':'1G','validRange':{'min':'1G','step':'1G'}}}}",
                  i ? "," : "", i);
        taint(s, b);
        sbuf_addz(b, "}");
    }
}

static void slice_body(struct sim *s, struct sbuf *b, const char *driver, const char *node,
                       int64_t generation, const char *name)
{
    sbuf_addz(b, "{");
    op_metadata(b, "", name);
    sbuf_addf(b, ",'spec':{'driver':'%s','pool':{'name':'%s','generation':%lld,", driver, node,
              (long long)generation);
    bool parts = strcmp(driver, "part.d") == 0;
    bool fabric = strcmp(driver, "fabric.d") == 0;
    bool counters = parts && strstr(name, "counters");
    sbuf_addf(b, "'resourceSliceCount':%d},", parts ? 2 : 1);
    if (fabric)
        sbuf_addz(b, "'nodeSelector':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'zone',"
                     "'operator':'In','values':['a']}]}]},");
    else
        sbuf_addf(b, "'nodeName':'%s',", node);
    if (counters) {
        sbuf_addz(b, "'sharedCounters':[{'name':'chip','counters':{'memory':{'value':'4Gi'}");
        for (unsigned i = 0; i < 4; i++)
            sbuf_addf(b, ",'cell-%u':{'value':'1'}", i);
        sbuf_addz(b, "}}]}}");
        return;
    }
    sbuf_addz(b, "'devices':[");
    if (parts)
        add_partitions(s, b);
    else if (strcmp(driver, "net.d") == 0)
        add_links(s, b);
    else
        add_gpus(s, b);
    sbuf_addz(b, "]}}");
}

static void slice_name(char out[64], const char *driver, const char *node, bool counters)
{
    (void)snprintf(out, 64, "%s-%s%s", node, driver, counters ? "-counters" : "");
}

static void make_pool(struct sim *s, const char *driver, const char *node)
{
    int64_t generation = s->clock.mono / CLOCK_NS_PER_MS + 1;
    for (int counters = 0; counters < (strcmp(driver, "part.d") == 0 ? 2 : 1); counters++) {
        char name[64];
        cleanup_sbuf struct sbuf b = {0};
        slice_name(name, driver, node, counters);
        slice_body(s, &b, driver, node, generation, name);
        op_create(s, "ResourceSlice", "", name, &b);
    }
}

// A driver publishes anew: the next generation, with other devices or taints.
static void change_pool(struct sim *s, const char *driver, const char *node)
{
    int64_t generation = s->clock.mono / CLOCK_NS_PER_MS + 1;
    for (int counters = 0; counters < (strcmp(driver, "part.d") == 0 ? 2 : 1); counters++) {
        char name[64];
        cleanup_sbuf struct sbuf b = {0};
        slice_name(name, driver, node, counters);
        slice_body(s, &b, driver, node, generation, name);
        struct sbuf text = {0}; // a merge replaces lists whole
        sbuf_add(&text, sbuf_str(&b));
        for (size_t i = 0; i < text.n; i++)
            if (text.p[i] == '\'')
                text.p[i] = '"';
        const struct client_key key = {op_kind("ResourceSlice"), STR(""), str_z(name)};
        client_patch(s->hands, &key, CLIENT_PATCH_MERGE, sbuf_str(&text), NULL, done,
                     deed(s, "publish", "ResourceSlice", "", name));
        sbuf_done(&text);
    }
}

static const char *const drivers[] = {"gpu.d", "part.d", "net.d"};

static void remove_pool(struct sim *s, const char *driver, const char *node)
{
    for (int counters = 0; counters < (strcmp(driver, "part.d") == 0 ? 2 : 1); counters++) {
        char name[64];
        slice_name(name, driver, node, counters);
        op_delete(s, "ResourceSlice", "", name, NULL);
    }
}

static void add_node(struct sim *s, uint64_t number)
{
    char name[8];
    name_node(name, number);
    make_node(s, number);
    for (size_t i = 0; i < array_len(drivers); i++)
        make_pool(s, drivers[i], name);
}

void op_remove_node(struct sim *s, const char *name)
{
    op_delete(s, "Node", "", name, NULL);
    for (size_t i = 0; i < array_len(drivers); i++)
        remove_pool(s, drivers[i], name);
}

// --- Requests ------------------------------------------------------------------------------------

static void request(struct sim *s, struct sbuf *b, const char *space, unsigned number)
{
    uint64_t what = sim_draw(s, strcmp(space, ADMIN_SPACE) == 0 ? 11 : 9);
    const char *tolerate =
        sim_draw(s, 4) == 0 ? ",'tolerations':[{'key':'sick','operator':'Exists'}]" : "";
    sbuf_addf(b, "%s{'name':'r%u',", number ? "," : "", number);
    if (what < 4) {
        sbuf_addf(b, "'exactly':{'deviceClassName':'gpu.d','count':%u%s%s}",
                  1 + (unsigned)sim_draw(s, 2),
                  sim_draw(s, 3) ? ""
                                 : ",'selectors':[{'cel':{'expression':"
                                   "'device.attributes[`gpu.d`].model == `big`'}}]",
                  tolerate);
    } else if (what == 4) {
        sbuf_addf(b, "'exactly':{'deviceClassName':'gpu.d','allocationMode':'All'%s}", tolerate);
    } else if (what == 5) {
        sbuf_addf(b,
                  "'exactly':{'deviceClassName':'part.d','selectors':[{'cel':{'expression':"
                  "'device.attributes[`part.d`].size == %u'}}]%s}",
                  1U << sim_draw(s, 3), tolerate);
    } else if (what == 6) {
        sbuf_addf(b,
                  "'exactly':{'deviceClassName':'net.d','capacity':{'requests':{'rate':'%uG'}}%s}",
                  1 + (unsigned)sim_draw(s, 6), tolerate);
    } else if (what == 7) {
        sbuf_addz(b, "'firstAvailable':[{'name':'best','deviceClassName':'part.d','selectors':[{"
                     "'cel':{'expression':'device.attributes[`part.d`].size == 4'}}]},{'name':"
                     "'good','deviceClassName':'gpu.d','count':2}]");
    } else if (what == 8) {
        sbuf_addf(b, "'exactly':{'deviceClassName':'fabric.d'%s}", tolerate);
    } else {
        sbuf_addf(b, "'exactly':{'deviceClassName':'%s','adminAccess':true%s%s}",
                  what == 9 ? "gpu.d" : "part.d", sim_draw(s, 2) ? ",'allocationMode':'All'" : "",
                  tolerate);
    }
    sbuf_addz(b, "}");
}

static void claim_spec(struct sim *s, struct sbuf *b, const char *space)
{
    unsigned n = 1 + (unsigned)(sim_draw(s, 3) == 0);
    sbuf_addz(b, "'spec':{'devices':{'requests':[");
    for (unsigned i = 0; i < n; i++)
        request(s, b, space, i);
    sbuf_addz(b, "]");
    if (n > 1 && sim_draw(s, 4) == 0)
        sbuf_addz(b, ",'constraints':[{'matchAttribute':'gpu.d/numa'}]");
    sbuf_addz(b, "}}");
}

static void make_claim(struct sim *s, const char *space)
{
    char name[8];
    cleanup_sbuf struct sbuf b = {0};
    (void)snprintf(name, sizeof(name), "c%u", (unsigned)sim_draw(s, CLAIMS));
    sbuf_addz(&b, "{");
    op_metadata(&b, space, name);
    sbuf_addz(&b, ",");
    claim_spec(s, &b, space);
    sbuf_addz(&b, "}");
    op_create(s, "ResourceClaim", space, name, &b);
}

static void make_template(struct sim *s, const char *space)
{
    char name[8];
    cleanup_sbuf struct sbuf b = {0};
    (void)snprintf(name, sizeof(name), "t%u", (unsigned)sim_draw(s, TEMPLATES));
    sbuf_addz(&b, "{");
    op_metadata(&b, space, name);
    sbuf_addz(&b, ",'spec':{");
    claim_spec(s, &b, space);
    sbuf_addz(&b, "}}");
    op_create(s, "ResourceClaimTemplate", space, name, &b);
}

// --- Pods ----------------------------------------------------------------------------------------

static void pod_claims(struct sim *s, struct sbuf *b)
{
    uint64_t how = sim_draw(s, 10);
    unsigned templates = how < 4 ? 1 : how == 4 ? 2 : how == 5 ? 1 : 0;
    unsigned named = how >= 5 && how < 8 ? 1 : 0;
    if (templates + named == 0)
        return;
    sbuf_addz(b, ",'resourceClaims':[");
    for (unsigned i = 0; i < templates; i++)
        sbuf_addf(b, "%s{'name':'e%u','resourceClaimTemplateName':'t%u'}", i ? "," : "", i,
                  (unsigned)sim_draw(s, TEMPLATES));
    if (named)
        sbuf_addf(b, "%s{'name':'shared','resourceClaimName':'c%u'}", templates ? "," : "",
                  (unsigned)sim_draw(s, CLAIMS));
    sbuf_addz(b, "]");
}

static void make_pod(struct sim *s, const char *space)
{
    char name[16];
    cleanup_sbuf struct sbuf b = {0};
    if (store_count(s->store, op_kind("Pod"), STR("")) >= PODS_MAX)
        return;
    (void)snprintf(name, sizeof(name), "pod-%u", (unsigned)s->next_pod++ % 40);
    sbuf_addz(&b, "{");
    op_metadata(&b, space, name);
    sbuf_addf(&b, ",'spec':{'schedulerName':'%s','terminationGracePeriodSeconds':1",
              sim_draw(s, 2) ? "dray" : "other");
    uint64_t priority = s->priorities ? sim_draw(s, 4) : 0;
    if (priority > 1)
        sbuf_addf(&b, ",'priorityClassName':'%s'", priority == 2 ? "middle" : SIM_HIGHEST);
    if (priority && sim_draw(s, 8) == 0)
        sbuf_addz(&b, ",'preemptionPolicy':'Never'");
    if (sim_draw(s, 5) == 0)
        sbuf_addf(&b, ",'nodeSelector':{'zone':'%s'}", sim_draw(s, 2) ? "a" : "b");
    if (sim_draw(s, 12) == 0)
        sbuf_addz(&b, ",'schedulingGates':[{'name':'wait'}]");
    sbuf_addz(&b, ",'containers':[{'name':'c','image':'i','resources':{'requests':{");
    sbuf_addf(&b, "'cpu':'%u'", (s->priorities ? 3 : 1) + (unsigned)sim_draw(s, 3));
    if (sim_draw(s, 6) == 0) {
        unsigned cards = 1 + (unsigned)sim_draw(s, 2);
        sbuf_addf(&b, ",'gpu.d/card':'%u'},'limits':{'gpu.d/card':'%u'", cards, cards);
    }
    sbuf_addz(&b, "}}}]");
    if (!s->priorities || sim_draw(s, 3) == 0) // devices are no reason to preempt
        pod_claims(s, &b);
    sbuf_addz(&b, "}}");
    op_create(s, "Pod", space, name, &b);
}

// some_object picks one of those that are there.
static const struct object *some_object(struct sim *s, const char *kind)
{
    const struct api_kind *k = op_kind(kind);
    size_t n = store_count(s->store, k, STR(""));
    if (n == 0)
        return NULL;
    uint64_t which = sim_draw(s, n);
    struct err err;
    struct store_walk walk = {.kind = k};
    if (store_walk_start(s->store, &walk, &err) < 0)
        abort();
    const struct object *o = NULL;
    for (uint64_t i = 0; i <= which; i++)
        o = store_walk_next(s->store, &walk);
    o = object_ref(o);
    store_walk_done(&walk);
    return o;
}

// with_some does something to an object that is there.
void op_with_some(struct sim *s, const char *kind,
                  void (*fn)(struct sim *s, const char *namespace, const char *name))
{
    const struct object *o = some_object(s, kind);
    if (!o)
        return;
    struct arena cleanup_arena arena = {0};
    fn(s, arena_str(&arena, o->namespace).p, arena_str(&arena, o->name).p);
    object_unref(o);
}

static void delete_pod(struct sim *s, const char *namespace, const char *name)
{
    const struct api_delete_options now = {.has_grace_period_seconds = true};
    op_delete(s, "Pod", namespace, name, sim_draw(s, 4) == 0 ? &now : NULL);
}

// Only what was bound can run and end.
static void finish_pod(struct sim *s, const char *namespace, const char *name)
{
    const struct store_key key = {op_kind("Pod"), str_z(namespace), str_z(name)};
    struct arena cleanup_arena arena = {0};
    struct api_object object;
    struct err err;
    const struct object *o = store_get(s->store, &key);
    if (!o || registry_decode(o, key.kind, &arena, &object, &err) < 0)
        return;
    const struct api_pod *pod = object.value;
    if (pod->spec.node_name.n)
        op_patch(s, "Pod", namespace, name, "status",
                 sim_draw(s, 2) ? "{'status':{'phase':'Succeeded'}}"
                                : "{'status':{'phase':'Failed'}}");
}

static void open_gate(struct sim *s, const char *namespace, const char *name)
{
    const struct client_key key = {op_kind("Pod"), str_z(namespace), str_z(name)};
    client_patch(s->hands, &key, CLIENT_PATCH_MERGE, STR("{\"spec\":{\"schedulingGates\":null}}"),
                 NULL, done, deed(s, "open the gate of", "Pod", namespace, name));
}

static void delete_claim(struct sim *s, const char *namespace, const char *name)
{
    op_delete(s, "ResourceClaim", namespace, name, NULL);
}

static void delete_template(struct sim *s, const char *namespace, const char *name)
{
    op_delete(s, "ResourceClaimTemplate", namespace, name, NULL);
}

// --- The administrator ---------------------------------------------------------------------------

static void cordon(struct sim *s, const char *namespace, const char *name)
{
    (void)namespace;
    op_patch(s, "Node", "", name, "",
             sim_draw(s, 3) == 0 ? "{'spec':{'unschedulable':true}}"
                                 : "{'spec':{'unschedulable':null}}");
}

static void change_rule(struct sim *s)
{
    static const char *const effects[] = {"NoSchedule", "NoExecute", "None"};
    if (sim_draw(s, 2)) {
        op_delete(s, "DeviceTaintRule", "", "rule", NULL);
        return;
    }
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b,
              "{'metadata':{'name':'rule'},'spec':{'deviceSelector':{'driver':'%s','pool':'n-%u'},"
              "'taint':{'key':'repair','effect':'%s'}}}",
              drivers[sim_draw(s, 3)], (unsigned)sim_draw(s, NODES), effects[sim_draw(s, 3)]);
    op_create(s, "DeviceTaintRule", "", "rule", &b);
}

static void change_class(struct sim *s)
{
    size_t which = (size_t)sim_draw(s, array_len(classes));
    if (sim_draw(s, 2))
        op_delete(s, "DeviceClass", "", classes[which], NULL);
    else
        make_class(s, classes[which], which == 0);
}

static void make_space(struct sim *s, const char *space)
{
    cleanup_sbuf struct sbuf b = {0};
    bool admin = strcmp(space, ADMIN_SPACE) == 0;
    sbuf_addf(&b, "{'metadata':{'name':'%s'%s}}", space,
              admin ? ",'labels':{'resource.kubernetes.io/admin-access':'true'}" : "");
    op_create(s, "Namespace", "", space, &b);
}

static void change_pools(struct sim *s)
{
    char node[8];
    name_node(node, sim_draw(s, NODES));
    const char *driver = drivers[sim_draw(s, array_len(drivers))];
    uint64_t how = sim_draw(s, 10);
    if (how == 0)
        remove_pool(s, driver, node);
    else if (how == 1)
        make_pool(s, driver, node);
    else if (how == 2)
        change_pool(s, "fabric.d", "fabric");
    else
        change_pool(s, driver, node);
}

static void change_nodes(struct sim *s)
{
    char name[8];
    uint64_t number = sim_draw(s, NODES);
    switch (sim_draw(s, 5)) {
    case 0:
        name_node(name, number);
        op_remove_node(s, name);
        break;
    case 1:
    case 2:
        add_node(s, number);
        break;
    default:
        op_with_some(s, "Node", cordon);
    }
}

static void change_spaces(struct sim *s)
{
    const char *space = spaces[1 + sim_draw(s, SPACES - 1)];
    if (sim_draw(s, 3) == 0)
        op_delete(s, "Namespace", "", space, NULL);
    else
        make_space(s, space);
}

// --- Crashes -------------------------------------------------------------------------------------

static int64_t some_time(struct sim *s)
{
    return s->clock.mono + (int64_t)sim_draw(s, 5000) * CLOCK_NS_PER_MS;
}

static void crash(struct sim *s)
{
    uint64_t which = sim_draw(s, PARTS + 1);
    if (which == PARTS) {
        server_crash(s);
        s->server_back_ns = some_time(s);
    } else if (s->parts[which].client) {
        part_crash(s, &s->parts[which]);
        s->parts[which].back_ns = some_time(s);
    }
}

static void come_back(struct sim *s)
{
    if (!s->store && s->clock.mono >= s->server_back_ns)
        server_start(s);
    for (size_t i = 0; i < PARTS; i++) {
        struct part *p = &s->parts[i];
        if (p->used && !p->client && s->clock.mono >= p->back_ns)
            part_start(s, p);
    }
}

// --- The public part -----------------------------------------------------------------------------

void sim_furnish(struct sim *s)
{
    for (size_t i = 0; i < SPACES; i++)
        if (i)
            make_space(s, spaces[i]);
    for (size_t i = 0; i < array_len(classes); i++)
        make_class(s, classes[i], i == 0);
    if (s->priorities)
        make_priorities(s);
    for (uint64_t i = 0; i + 1 < NODES; i++)
        add_node(s, i);
    make_pool(s, "fabric.d", "fabric");
    (void)sim_run(s, CLOCK_NS_PER_SEC, 100000);
    for (unsigned i = 0; i < 12; i++) {
        make_template(s, spaces[sim_draw(s, SPACES)]);
        make_claim(s, spaces[sim_draw(s, SPACES)]);
    }
}

void sim_operate_calmly(struct sim *s)
{
    const char *space = spaces[sim_draw(s, SPACES)];
    if (s->groups && sim_draw(s, 3) == 0) {
        sim_operate_group(s, space);
        return;
    }
    uint64_t what = sim_draw(s, 80);
    if (what < 36)
        make_pod(s, space);
    else if (what < 50)
        op_with_some(s, "Pod", delete_pod);
    else if (what < 60)
        op_with_some(s, "Pod", finish_pod);
    else if (what < 63)
        op_with_some(s, "Pod", open_gate);
    else if (what < 69)
        make_claim(s, space);
    else if (what < 72)
        op_with_some(s, "ResourceClaim", delete_claim);
    else if (what < 77)
        make_template(s, space);
    else
        op_with_some(s, "ResourceClaimTemplate", delete_template);
}

void sim_operate(struct sim *s)
{
    come_back(s);
    uint64_t what = sim_draw(s, 100);
    if (what < 4) {
        crash(s);
        return;
    }
    if (!s->store)
        return;
    if (what < 78)
        sim_operate_calmly(s);
    else if (what < 83)
        sim_drive(s, 2, 4);
    else if (what < 91)
        change_pools(s);
    else if (what < 95)
        change_nodes(s);
    else if (what < 97)
        change_rule(s);
    else if (what < 98)
        change_class(s);
    else
        change_spaces(s);
}
