// SPDX-License-Identifier: Apache-2.0
//
// Nodes, pods and namespaces as the scheduler sees them.
#include "sched/core/cluster.h"

#include "api/match/claim.h"

#include "base/banned.h"

static const char *const fixed_names[RES_FIXED + 1] = {"cpu", "memory", "ephemeral-storage", "pods",
                                                       "unknown resources"};

static struct str cluster_copy_str(struct str s)
{
    return str_make(xstrndup(s.p ? s.p : "", s.n), s.n);
}

static void cluster_free_str(struct str *s)
{
    free((void *)(uintptr_t)s->p);
    *s = (struct str){0};
}

void cluster_init(struct cluster *c)
{
    *c = (struct cluster){0};
    list_init(&c->affine);
    for (size_t i = 0; i < array_len(fixed_names); i++)
        (void)cluster_resource(c, str_z(fixed_names[i]));
}

uint32_t cluster_resource(struct cluster *c, struct str name)
{
    const uint32_t *known = map_get(&c->res_numbers, name);
    if (known)
        return *known;
    struct str kept = cluster_copy_str(name);
    uint32_t number = (uint32_t)c->res_names.n;
    vec_push(&c->res_names, kept);
    *map_put(&c->res_numbers, kept) = number;
    return number;
}

uint32_t cluster_resource_asked(struct cluster *c, struct str name)
{
    const uint32_t *known = c->res_names.n < RES_MANY ? NULL : map_get(&c->res_numbers, name);
    return known ? *known : c->res_names.n < RES_MANY ? cluster_resource(c, name) : RES_STRANGE;
}

static int64_t *amount_slot(struct amount_vec *v, uint32_t res)
{
    while (v->n <= res)
        vec_push(v, 0);
    return &v->p[res];
}

// --- Nodes ---------------------------------------------------------------------------------------

struct sched_node *cluster_node(struct cluster *c, struct str name)
{
    struct sched_node **known = map_get(&c->nodes, name);
    if (known)
        return *known;
    struct sched_node *n = xcalloc(1, sizeof(*n));
    n->name = cluster_copy_str(name);
    list_init(&n->nominated);
    if (c->holes.n) {
        n->index = vec_pop(&c->holes);
        c->order.p[n->index] = n;
    } else {
        n->index = (uint32_t)c->order.n;
        vec_push(&c->order, n);
    }
    *map_put(&c->nodes, n->name) = n;
    return n;
}

static void cluster_node_free(struct sched_node *n)
{
    typed_object_unref(n->object);
    cluster_free_str(&n->name);
    vec_done(&n->allocatable);
    vec_done(&n->requested);
    vec_done(&n->pods);
    free(n);
}

// The reader empties the list; it does not grow beyond the length that means that all may have
// changed.
static void cluster_node_changed(struct cluster *c, struct sched_node *n)
{
    n->version = ++c->version;
    if (c->changed.n <= c->order.n)
        vec_push(&c->changed, n->index);
}

static bool node_forget(struct cluster *c, struct sched_node *n)
{
    if (n->object || n->pods.n || !list_empty(&n->nominated))
        return false;
    (void)map_del(&c->nodes, n->name);
    c->order.p[n->index] = NULL;
    vec_push(&c->holes, n->index);
    cluster_node_free(n);
    return true;
}

static const struct api_container_image_array *cluster_images_of(const struct typed_object *o)
{
    static const struct api_container_image_array none;
    return o ? &((const struct api_node *)o->object.value)->status.images : &none;
}

static bool cluster_images_equal(const struct api_container_image_array *x,
                                 const struct api_container_image_array *y)
{
    bool equal = x->n == y->n;
    for (size_t i = 0; equal && i < x->n; i++) {
        equal = x->p[i].size_bytes == y->p[i].size_bytes && x->p[i].names.n == y->p[i].names.n;
        for (size_t k = 0; equal && k < x->p[i].names.n; k++)
            equal = str_eq(x->p[i].names.p[k], y->p[i].names.p[k]);
    }
    return equal;
}

#define IMAGE_BYTES_MAX (INT64_C(1) << 50) // as nodes report them

static void cluster_image_count(struct cluster *c, struct str name, int64_t bytes, bool add)
{
    struct image_use *use = map_get(&c->images, name);
    if (!use && add) {
        char *own = xstrndup(name.p, name.n);
        use = map_put(&c->images, str_make(own, name.n));
        *use = (struct image_use){.name = own,
                                  .bytes = bytes < 0                 ? 0
                                           : bytes > IMAGE_BYTES_MAX ? IMAGE_BYTES_MAX
                                                                     : bytes};
    }
    if (!use)
        return;
    use->nodes += add ? 1 : (size_t)-1;
    if (use->nodes == 0) {
        char *own = use->name;
        (void)map_del(&c->images, name);
        free(own);
    }
}

// A node's images have changed: those it had are counted no more. Added before removed: the size of
// an image stays while a node has it.
static void cluster_images_changed(struct cluster *c, const struct typed_object *before,
                                   const struct typed_object *after)
{
    const struct api_container_image_array *sets[] = {cluster_images_of(after),
                                                      cluster_images_of(before)};
    if (cluster_images_equal(sets[0], sets[1]))
        return;
    for (size_t s = 0; s < array_len(sets); s++)
        for (size_t i = 0; i < sets[s]->n; i++)
            for (size_t k = 0; k < sets[s]->p[i].names.n; k++)
                cluster_image_count(c, sets[s]->p[i].names.p[k], sets[s]->p[i].size_bytes, s == 0);
}

const struct image_use *cluster_image(const struct cluster *c, struct str image)
{
    return map_get(&c->images, image);
}

bool cluster_node_has_image(const struct sched_node *n, struct str image)
{
    const struct api_container_image_array *all = cluster_images_of(n->object);
    for (size_t i = 0; i < all->n; i++)
        if (str_listed(all->p[i].names.p, all->p[i].names.n, image))
            return true;
    return false;
}

struct sched_node *cluster_node_set(struct cluster *c, struct str name,
                                    const struct typed_object *object)
{
    struct sched_node *n = cluster_node(c, name);
    c->nodes_known += object && !n->object;
    c->nodes_known -= !object && n->object;
    const struct typed_object *old = n->object;
    n->object = object ? typed_object_ref(object) : NULL;
    n->api = object ? object->object.value : NULL;
    cluster_images_changed(c, old, object);
    cluster_node_changed(c, n);
    vec_clear(&n->allocatable);
    const struct api_quantity_map *offers = n->api ? &n->api->status.allocatable : NULL;
    for (size_t i = 0; offers && i < offers->n; i++) {
        uint32_t res = cluster_resource(c, offers->p[i].key);
        int64_t offer = res == RES_CPU ? quantity_milli(&offers->p[i].value)
                                       : quantity_value(&offers->p[i].value);
        *amount_slot(&n->allocatable, res) = offer > 0 ? offer : 0;
    }
    typed_object_unref(old);
    return node_forget(c, n) ? NULL : n;
}

// --- Pods ----------------------------------------------------------------------------------------

struct sched_pod *cluster_pod(const struct cluster *c, struct str key)
{
    struct sched_pod **known = map_get(&c->pods, key);
    return known ? *known : NULL;
}

// As in Kubernetes, "::" is an address like any other: it clashes with itself and with 0.0.0.0.
bool cluster_port_is_any(const struct pod_port *p)
{
    return str_eqz(p->ip, "0.0.0.0");
}

int cluster_port_cmp(const void *a, const void *b)
{
    const struct pod_port *x = a;
    const struct pod_port *y = b;
    if (x->port != y->port)
        return x->port < y->port ? -1 : 1;
    int order = str_cmp(x->protocol, y->protocol);
    if (order == 0)
        order = cluster_port_is_any(y) - cluster_port_is_any(x);
    return order ? order : str_cmp(x->ip, y->ip);
}

void cluster_ports_of_pod(struct sched_pod *p)
{
    struct port_vec VEC(struct pod_port) ports = {0};
    const struct api_container_array *lists[] = {&p->api->spec.containers,
                                                 &p->api->spec.init_containers};
    for (size_t l = 0; l < array_len(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++) {
            const struct api_container *k = &lists[l]->p[i];
            if (l == 1 && !(k->has_restart_policy && str_eqz(k->restart_policy, "Always")))
                continue; // only sidecars keep their ports
            for (size_t j = 0; j < k->ports.n; j++)
                if (k->ports.p[j].host_port > 0)
                    vec_push(&ports,
                             (struct pod_port){
                                 k->ports.p[j].host_ip.n ? k->ports.p[j].host_ip : STR("0.0.0.0"),
                                 k->ports.p[j].protocol.n ? k->ports.p[j].protocol : STR("TCP"),
                                 k->ports.p[j].host_port});
        }
    if (ports.n > 1)
        qsort(ports.p, ports.n, sizeof(*ports.p), cluster_port_cmp);
    free(p->ports);
    p->ports = ports.p;
    p->ports_len = ports.n;
}

static void take_off(struct cluster *c, struct sched_pod *p);

// Both are sorted.
static bool cluster_pod_shrank(const struct sched_pod *p, const struct pod_need *before, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        while (k < p->needs_len && p->needs[k].res < before[i].res)
            k++;
        if (k == p->needs_len || p->needs[k].res != before[i].res ||
            p->needs[k].amount < before[i].amount)
            return true;
    }
    return false;
}

bool cluster_pod_set(struct cluster *c, struct sched_pod *p, const struct typed_object *object)
{
    const struct typed_object *old = p->object;
    struct sched_node *at = p->node;
    if (at)
        take_off(c, p); // and back again below
    p->object = typed_object_ref(object);
    p->api = object->object.value;
    p->queue.priority = p->api->spec.has_priority ? p->api->spec.priority : 0;
    p->signature = 0;
    struct pod_need *needs = p->needs;
    size_t needs_len = p->needs_len;
    p->needs = NULL;
    needs_of_pod(c, p, NULL);
    cluster_ports_of_pod(p);
    bool less = cluster_pod_shrank(p, needs, needs_len);
    free(needs);
    if (at)
        cluster_place(c, p, at);
    typed_object_unref(old);
    return less;
}

struct sched_pod *cluster_pod_add(struct cluster *c, const struct typed_object *object)
{
    const struct api_object_meta *m = object->meta;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(m->namespace), STR_ARG(m->name));
    struct sched_pod *p = xcalloc(1, sizeof(*p));
    p->key = cluster_copy_str(sbuf_str(&key));
    *map_put(&c->pods, p->key) = p;
    (void)cluster_pod_set(c, p, object);
    return p;
}

static void cluster_pod_free(struct sched_pod *p)
{
    typed_object_unref(p->object);
    cluster_free_str(&p->key);
    for (size_t i = 0; i < p->claims_len; i++)
        cluster_free_str(&p->claims[i]);
    free(p->claims);
    free(p->needs);
    free(p->ports);
    free(p->queue.search);
    free(p->report.reason);
    free(p->report.message);
    free(p->report.gate);
    free(p->report.given_up);
    free(p->report.given_up_device);
    free(p);
}

void cluster_nominate(struct cluster *c, struct sched_pod *p, struct str node)
{
    struct sched_node *old = p->on.nominated.node;
    if (old ? str_eq(old->name, node) : !node.n)
        return;
    struct sched_node *new = node.n ? cluster_node(c, node) : NULL;
    if (old)
        list_remove(&p->on.nominated.by_node);
    if (new)
        list_push_back(&new->nominated, &p->on.nominated.by_node);
    p->on.nominated.node = new;
    c->nominated_len += new != NULL;
    c->nominated_len -= old != NULL;
    if (old)
        (void)node_forget(c, old);
}

void cluster_pod_remove(struct cluster *c, struct sched_pod *p)
{
    cluster_nominate(c, p, (struct str){0});
    if (p->node)
        cluster_lift(c, p);
    (void)map_del(&c->pods, p->key);
    cluster_pod_free(p);
}

static bool has_terms(const struct api_pod *pod)
{
    const struct api_affinity *a = pod->spec.affinity;
    return a && (a->pod_affinity || a->pod_anti_affinity);
}

static void cluster_count_pod(struct sched_node *n, const struct sched_pod *p)
{
    for (size_t i = 0; i < p->needs_len; i++) {
        int64_t *sum = amount_slot(&n->requested, p->needs[i].res);
        *sum = amount_add(*sum, p->needs[i].amount);
    }
    for (size_t i = 0; i < 2; i++)
        n->nonzero[i] = amount_add(n->nonzero[i], p->nonzero[i]);
    n->ports += (uint32_t)p->ports_len;
}

static int64_t cluster_sum_of(const struct sched_node *n, uint32_t res)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n->pods.n; i++)
        for (size_t k = 0; k < n->pods.p[i]->needs_len; k++)
            if (n->pods.p[i]->needs[k].res == res)
                sum = amount_add(sum, n->pods.p[i]->needs[k].amount);
    return sum;
}

static int64_t nonzero_of(const struct sched_node *n, size_t at)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n->pods.n; i++)
        sum = amount_add(sum, n->pods.p[i]->nonzero[at]);
    return sum;
}

// The pod is not among the node's any more. A sum that came to its end does not tell what is left:
// it is rebuilt.
static void cluster_discount_pod(struct sched_node *n, const struct sched_pod *p)
{
    for (size_t i = 0; i < p->needs_len; i++) {
        int64_t *sum = amount_slot(&n->requested, p->needs[i].res);
        *sum = *sum == INT64_MAX ? cluster_sum_of(n, p->needs[i].res) : *sum - p->needs[i].amount;
    }
    for (size_t i = 0; i < 2; i++)
        n->nonzero[i] =
            n->nonzero[i] == INT64_MAX ? nonzero_of(n, i) : n->nonzero[i] - p->nonzero[i];
    n->ports -= (uint32_t)p->ports_len;
}

// --- Priorities ----------------------------------------------------------------------------------

// Where a priority is, or would be.
static size_t priority_at(const struct cluster *c, int32_t priority)
{
    size_t low = 0;
    size_t high = c->priorities.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->priorities.p[middle].priority < priority)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void cluster_count_priority(struct cluster *c, int32_t priority)
{
    size_t at = priority_at(c, priority);
    if (at == c->priorities.n || c->priorities.p[at].priority != priority) {
        vec_push(&c->priorities, (struct priority_count){0});
        memmove(&c->priorities.p[at + 1], &c->priorities.p[at],
                (c->priorities.n - 1 - at) * sizeof(*c->priorities.p));
        c->priorities.p[at] = (struct priority_count){priority, 0};
    }
    c->priorities.p[at].pods++;
}

static void cluster_discount_priority(struct cluster *c, int32_t priority)
{
    size_t at = priority_at(c, priority);
    assert(at < c->priorities.n && c->priorities.p[at].priority == priority);
    if (--c->priorities.p[at].pods)
        return;
    c->priorities.n--;
    memmove(&c->priorities.p[at], &c->priorities.p[at + 1],
            (c->priorities.n - at) * sizeof(*c->priorities.p));
}

bool cluster_has_lower(const struct cluster *c, int32_t priority)
{
    return c->priorities.n && c->priorities.p[0].priority < priority;
}

// --- Pods on nodes -------------------------------------------------------------------------------

void cluster_show(struct cluster *c, struct sched_pod *p, struct sched_node *n)
{
    assert(!p->node);
    p->node = n;
    p->on.at = (uint32_t)n->pods.n;
    vec_push(&n->pods, p);
    cluster_count_pod(n, p);
    list_push_back(&cluster_namespace(c, p->api->metadata.namespace)->pods, &p->on.by_namespace);
    if (has_terms(p->api))
        list_push_back(&c->affine, &p->on.by_affinity);
}

void cluster_place(struct cluster *c, struct sched_pod *p, struct sched_node *n)
{
    cluster_show(c, p, n);
    cluster_count_priority(c, p->queue.priority);
    cluster_node_changed(c, n);
}

void cluster_hide(struct sched_pod *p)
{
    struct sched_node *n = p->node;
    assert(n && n->pods.p[p->on.at] == p);
    n->pods.p[p->on.at] = *vec_last(&n->pods);
    n->pods.p[p->on.at]->on.at = p->on.at;
    n->pods.n--;
    cluster_discount_pod(n, p);
    list_remove(&p->on.by_namespace);
    list_remove(&p->on.by_affinity);
    p->node = NULL;
}

static void take_off(struct cluster *c, struct sched_pod *p)
{
    struct sched_node *n = p->node;
    cluster_hide(p);
    cluster_discount_priority(c, p->queue.priority);
    cluster_node_changed(c, n);
}

void cluster_lift(struct cluster *c, struct sched_pod *p)
{
    struct sched_node *n = p->node;
    take_off(c, p);
    (void)node_forget(c, n);
}

// --- Namespaces ----------------------------------------------------------------------------------

struct sched_namespace *cluster_namespace(struct cluster *c, struct str name)
{
    struct sched_namespace **known = map_get(&c->namespaces, name);
    if (known)
        return *known;
    struct sched_namespace *n = xcalloc(1, sizeof(*n));
    n->name = cluster_copy_str(name);
    list_init(&n->pods);
    *map_put(&c->namespaces, n->name) = n;
    return n;
}

static void namespace_free(struct sched_namespace *n)
{
    typed_object_unref(n->object);
    cluster_free_str(&n->name);
    free(n);
}

void cluster_namespace_set(struct cluster *c, struct str name, const struct typed_object *object)
{
    struct sched_namespace *n = cluster_namespace(c, name);
    const struct typed_object *old = n->object;
    n->object = object ? typed_object_ref(object) : NULL;
    typed_object_unref(old);
    if (!object && list_empty(&n->pods)) {
        (void)map_del(&c->namespaces, n->name);
        namespace_free(n);
    }
}

void cluster_done(struct cluster *c)
{
    vec_done(&c->priorities);
    map_foreach(&c->pods, i)
        cluster_pod_free(*map_value(&c->pods, i));
    map_foreach(&c->nodes, i)
        cluster_node_free(*map_value(&c->nodes, i));
    map_foreach(&c->namespaces, i)
        namespace_free(*map_value(&c->namespaces, i));
    vec_foreach(&c->res_names, r)
        cluster_free_str(r);
    map_foreach(&c->images, i)
        free(map_value(&c->images, i)->name);
    map_done(&c->images);
    map_done(&c->pods);
    map_done(&c->nodes);
    map_done(&c->namespaces);
    map_done(&c->res_numbers);
    vec_done(&c->res_names);
    vec_done(&c->order);
    vec_done(&c->holes);
    vec_done(&c->changed);
}

// --- Check ---------------------------------------------------------------------------------------

static bool cluster_check_node(const struct cluster *c, const struct sched_node *n,
                               struct sbuf *out)
{
    struct amount_vec sums = {0};
    size_t ports = 0;
    bool good = true;
    for (size_t i = 0; i < n->pods.n; i++) {
        const struct sched_pod *p = n->pods.p[i];
        good &= p->node == n && p->on.at == i && cluster_pod(c, p->key) == p;
        ports += p->ports_len;
        for (size_t k = 0; k < p->needs_len; k++)
            *amount_slot(&sums, p->needs[k].res) =
                amount_add(amount_at(&sums, p->needs[k].res), p->needs[k].amount);
    }
    for (uint32_t r = 0; r < c->res_names.n; r++)
        good &= amount_at(&sums, r) == amount_at(&n->requested, r);
    good &= ports == n->ports && c->order.p[n->index] == n;
    vec_done(&sums);
    if (!good)
        sbuf_addf(out, "node %.*s: its sums are not those of its pods\n", STR_ARG(n->name));
    return good;
}

bool cluster_check(const struct cluster *c, struct sbuf *problems)
{
    bool good = true;
    map_foreach(&c->nodes, i)
        good &= cluster_check_node(c, *map_value(&c->nodes, i), problems);
    map_foreach(&c->pods, i) {
        const struct sched_pod *p = *map_value(&c->pods, i);
        struct str should = pod_is_terminal(p->api) ? (struct str){0} : p->api->spec.node_name;
        struct str is = p->node && !p->assumed ? p->node->name : (struct str){0};
        if (p->assumed || str_eq(is, should))
            continue;
        good = false;
        sbuf_addf(problems, "pod %.*s is counted on \"%.*s\" but runs on \"%.*s\"\n",
                  STR_ARG(p->key), STR_ARG(is), STR_ARG(should));
    }
    return good;
}
