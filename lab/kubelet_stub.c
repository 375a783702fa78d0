// SPDX-License-Identifier: Apache-2.0
//
// dray kubelet-stub: the kubelet's part of DRA, for authors of drivers. It finds drivers in the
// registration directory and has them prepare and unprepare claims, without a kubelet.
#include "lab/kubelet_stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/mem.h"
#include "client/remote.h"
#include "cmd/common.h"
#include "cmd/input.h"
#include "cmd/verb.h"
#include "node/checkpoint.h"

#include "base/banned.h"

struct stub_args stub_args = {
    .registry = "/var/lib/kubelet/plugins_registry", .timeout_s = 45, .wait_s = 5};

static int stub_run_list(void);
static int stub_run_prepare(void);
static int stub_run_unprepare(void);
static int stub_run_claims(void);
static int stub_run_abandon(void);

static const struct cli_option stub_options[] = {
    {"--registry", NULL, "DIR", "find drivers here; default /var/lib/kubelet/plugins_registry",
     .text = &stub_args.registry},
    {"--plugins", NULL, "DIR",
     "create this directory if it is missing, for drivers that listen there",
     .text = &stub_args.plugins},
    {"--state", NULL, "DIR",
     "keep the checkpoint here; default: dray-kubelet-stub beside the registry",
     .text = &stub_args.state},
    {"--node", NULL, "NAME", "be the kubelet of this node", .text = &stub_args.node},
    {"--cdi-dir", NULL, "DIR", "read CDI specs here; repeatable; default /etc/cdi and /var/run/cdi",
     .many = &stub_args.cdi_dirs},
    {"--timeout", NULL, "SECONDS", "limit a call to a driver; default 45",
     .number = &stub_args.timeout_s, .least = 1, .most = 86400},
    {"--wait", NULL, "SECONDS", "wait for drivers to register; default 5",
     .number = &stub_args.wait_s, .least = 1, .most = 86400},
    {"--output", "-o", "json", "print a line of JSON for each claim or driver",
     .text = &stub_args.output, .choices = "json"},
};
static const struct cli_option prepare_options[] = {
    {"--filename", "-f", "FILE", "read claims from a file; repeatable", .many = &stub_args.files},
};
static const struct cli_option run_options[] = {
    {"--wipe-slices", NULL, NULL, "delete the slices of the node as kubelet does",
     .flag = &stub_args.wipe},
    {"--pod-resources", NULL, "SOCKET", "serve the PodResources API here",
     .text = &stub_args.pod_resources},
};
static const struct cli_group stub_group = CLI_GROUP("Options", stub_options);
static const struct cli_group prepare_group = CLI_GROUP("Claims", prepare_options);
static const struct cli_group run_group = CLI_GROUP("Running", run_options);

static const struct cli_verb stub_list = {
    .name = "list",
    .summary = "list the drivers that register",
    .synopsis = "list [OPTIONS]",
    .text = "Lists the drivers that register.",
    .groups = {&stub_group, &common_connect},
    .run = stub_run_list,
};
static const struct cli_verb stub_prepare = {
    .name = "prepare",
    .summary = "prepare claims",
    .synopsis = "prepare [-f FILE]… [NAMESPACE/CLAIM]… [OPTIONS]",
    .text = "Prepares allocated claims of an API server or of files; prints the devices, their CDI "
            "names and what these change "
            "in a container.",
    .groups = {&prepare_group, &stub_group, &common_connect},
    .words = &stub_args.words,
    .run = stub_run_prepare,
};
static const struct cli_verb stub_unprepare = {
    .name = "unprepare",
    .summary = "unprepare claims",
    .synopsis = "unprepare NAMESPACE/CLAIM… [OPTIONS]",
    .text = "Unprepares claims that were prepared here.",
    .groups = {&stub_group, &common_connect},
    .words = &stub_args.words,
    .word = "NAMESPACE/CLAIM",
    .words_least = 1,
    .run = stub_run_unprepare,
};
static const struct cli_verb stub_claims = {
    .name = "claims",
    .summary = "list prepared claims",
    .synopsis = "claims [OPTIONS]",
    .text = "Lists the prepared claims of the checkpoint.",
    .groups = {&stub_group, &common_connect},
    .run = stub_run_claims,
};
static const struct cli_verb stub_abandon = {
    .name = "abandon",
    .summary = "forget drivers that are gone",
    .synopsis = "abandon DRIVER… [OPTIONS]",
    .text = "Forgets drivers that will not return, so that their claims can be unprepared.",
    .groups = {&stub_group, &common_connect},
    .words = &stub_args.words,
    .word = "DRIVER",
    .words_least = 1,
    .run = stub_run_abandon,
};
static const struct cli_verb stub_run_verb = {
    .name = "run",
    .summary = "report drivers and health until stopped",
    .synopsis = "run [--kubeconfig FILE --node NAME] [OPTIONS]",
    .text = "Reports drivers and the health of devices. With --kubeconfig and --node it also "
            "prepares the claims of pods bound "
            "to the node and unprepares them when the pods end.",
    .groups = {&run_group, &stub_group, &common_connect},
    .run = kubelet_stub_run,
};
static const struct cli_verb *const stub_verbs[] = {
    &stub_list, &stub_prepare, &stub_unprepare, &stub_claims, &stub_abandon, &stub_run_verb, NULL};

const struct cli_verb kubelet_stub_verb = {
    .name = "kubelet-stub",
    .summary = "call DRA drivers as kubelet does",
    .chapter = CLI_DEVELOPERS,
    .text = "Registers DRA drivers as kubelet does and calls them, for authors of drivers.",
    .examples = "dray kubelet-stub list\n"
                "dray kubelet-stub prepare -f claim.yaml\n"
                "dray kubelet-stub run --kubeconfig admin.kubeconfig --node n1",
    .subverbs = stub_verbs,
};

// --- The manager and what it needs ---------------------------------------------------------------

static void read_boot_id(struct sbuf *out)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f)
        return;
    sbuf_commit(out, fread(sbuf_space(out, 128), 1, 128, f));
    (void)fclose(f);
}

bool kubelet_stub_has_server(const struct stub_args *a)
{
    return common.kubeconfig || common.context || (kubeconfig_env() && a->files.n == 0);
}

static int kubelet_stub_connect(struct stub *s, struct err *err)
{
    const struct stub_args *a = s->args;
    struct kubeconfig_target target;
    if (!kubelet_stub_has_server(a))
        return 0;
    int r = kubeconfig_find(&s->config, common.kubeconfig, common.context, &target, err);
    const struct client_remote_options o = {.target = &target,
                                            .user_agent = STR("dray-kubelet-stub")};
    return r < 0 ? r : client_remote_new(s->loop, &o, &s->client, err);
}

static void name_state(struct stub *s)
{
    const struct stub_args *a = s->args;
    struct str registry = str_z(a->registry);
    while (registry.n > 1 && registry.p[registry.n - 1] == '/')
        registry.n--;
    if (a->state) {
        sbuf_addz(&s->state, a->state);
        return;
    }
    ptrdiff_t slash = str_rfind_char(registry, '/');
    sbuf_add(&s->state, str_upto(registry, slash < 0 ? 0 : (size_t)slash + 1));
    sbuf_addz(&s->state, "dray-kubelet-stub");
}

static void kubelet_stub_on_scanned(void *arg, size_t unsettled)
{
    struct stub *s = arg;
    if (s->gone || !s->go)
        return;
    if (!s->ready(s, unsettled) && exec_now_ns(loop_exec(s->loop)) < s->give_up_ns)
        return;
    s->gone = true;
    s->go(s);
}

static void kubelet_stub_on_plugin_failed(void *arg, struct str path, const struct err *err)
{
    (void)arg;
    (void)fprintf(stderr, "%.*s: %s\n", STR_ARG(path), err->msg);
}

static int make_manager(struct stub *s, void (*more)(struct stub *s, struct dra_options *o),
                        struct err *err)
{
    const struct stub_args *a = s->args;
    cleanup_sbuf struct sbuf boot = {0};
    read_boot_id(&boot);
    struct dra_options o = {
        .exec = loop_exec(s->loop),
        .client = s->client,
        .transport = s->transport,
        .disk = s->disk,
        .features = &s->features,
        .node = str_z(a->node),
        .boot_id = str_trim(sbuf_str(&boot)),
        .registry = a->registry,
        .keep_slices = true,
        .times = {.call_ns = a->timeout_s * CLOCK_NS_PER_SEC, .look_ns = CLOCK_NS_PER_SEC / 10},
        .plugin_failed = kubelet_stub_on_plugin_failed,
        .looked = kubelet_stub_on_scanned,
        .arg = s,
    };
    if (more)
        more(s, &o);
    return dra_new(&o, &s->dra, err);
}

int kubelet_stub_open(struct stub *s, void (*more)(struct stub *s, struct dra_options *o),
                      struct err *err)
{
    const struct stub_args *a = s->args;
    features_init(&s->features, FEATURES_MINOR);
    s->features.on[FEATURE_DRA_OPTIONAL_NODE_OPERATIONS] = true;
    s->features.on[FEATURE_RESOURCE_HEALTH_STATUS] = true;
    s->features.on[FEATURE_RESOURCE_HEALTH_STATUS_MESSAGE] = true;
    if (a->plugins)
        (void)mkdir(a->plugins, 0750); // drivers say what is wrong with it
    name_state(s);
    int r = disk_folder_new(s->state.p, &s->disk, err);
    if (r == 0)
        r = loop_new(&s->loop, err);
    if (r == 0)
        r = kubelet_stub_connect(s, err);
    if (r < 0)
        return r;
    s->transport = transport_grpc_new(s->loop);
    s->give_up_ns = exec_now_ns(loop_exec(s->loop)) + a->wait_s * CLOCK_NS_PER_SEC;
    return make_manager(s, more, err);
}

static void kubelet_stub_on_settled(void *arg)
{
    struct stub *s = arg;
    loop_stop(s->loop);
}

void kubelet_stub_close(struct stub *s)
{
    vec_foreach(&s->claims, c)
        typed_object_unref(*c);
    vec_done(&s->claims);
    dra_free(s->dra);
    if (s->client)
        client_free(s->client);
    if (s->loop) {
        exec_post(loop_exec(s->loop), kubelet_stub_on_settled, s);
        loop_run(s->loop); // what was cancelled is answered
    }
    transport_grpc_free(s->transport);
    disk_folder_free(s->disk);
    kubeconfig_done(&s->config);
    loop_free(s->loop);
    sbuf_done(&s->state);
}

static int kubelet_stub_finish(struct stub *s, int r, const struct err *err)
{
    if (r < 0)
        (void)fprintf(stderr, "dray kubelet-stub: %s\n", err->msg);
    bool good = r == 0 && !s->failed;
    kubelet_stub_close(s);
    return good ? VERB_OK : VERB_NO;
}

// kubelet_stub_call waits until drivers are ready, then runs go, which stops the loop. load, if not
// NULL, reads what go works on. Returns one of VERB_*.
static int kubelet_stub_call(bool (*ready)(struct stub *s, size_t unsettled),
                             void (*go)(struct stub *s),
                             int (*load)(struct stub *s, struct err *err))
{
    struct stub s = {.args = &stub_args, .ready = ready, .go = go};
    struct err err = {0};
    int r = kubelet_stub_open(&s, NULL, &err);
    if (r == 0 && load)
        r = load(&s, &err);
    if (r == 0) {
        dra_start(s.dra);
        loop_run(s.loop);
    }
    return kubelet_stub_finish(&s, r, &err);
}

// --- list ----------------------------------------------------------------------------------------

static void show_plugin(void *arg, const struct plugin_view *v)
{
    const struct stub *s = arg;
    if (!s->args->output) {
        printf("%-32.*s %-20.*s %-24.*s %-10s %.*s\n", STR_ARG(v->driver), STR_ARG(v->service),
               STR_ARG(v->health_service.n ? v->health_service : STR("-")),
               v->connected ? "connected" : "silent", STR_ARG(v->endpoint));
        return;
    }
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    const struct {
        const char *key;
        struct str value;
    } rows[] = {{"driver", v->driver},
                {"service", v->service},
                {"healthService", v->health_service},
                {"endpoint", v->endpoint}};
    json_write_object_begin(&w);
    for (size_t i = 0; i < array_len(rows); i++) {
        json_write_key(&w, str_z(rows[i].key));
        json_write_str(&w, rows[i].value);
    }
    json_write_key(&w, STR("connected"));
    json_write_bool(&w, v->connected);
    json_write_object_end(&w);
    puts(out.p);
}

static void count_plugin(void *arg, const struct plugin_view *v)
{
    size_t *counts = arg;
    counts[0]++;
    counts[1] += v->connected;
}

static bool list_ready(struct stub *s, size_t unsettled)
{
    size_t counts[2] = {0, 0};
    plugins_each(dra_plugins(s->dra), count_plugin, counts);
    return unsettled == 0 && counts[0] > 0 && counts[0] == counts[1];
}

static void list_go(struct stub *s)
{
    size_t counts[2] = {0, 0};
    plugins_each(dra_plugins(s->dra), count_plugin, counts);
    if (counts[0] == 0 && !s->args->output)
        printf("no driver registered in %s\n", s->args->registry);
    else if (!s->args->output)
        printf("%-32s %-20s %-24s %-10s %s\n", "DRIVER", "SERVICE", "HEALTH", "STATE", "ENDPOINT");
    plugins_each(dra_plugins(s->dra), show_plugin, s);
    s->failed = counts[0] == 0;
    loop_stop(s->loop);
}

static int stub_run_list(void)
{
    return kubelet_stub_call(list_ready, list_go, NULL);
}

// --- prepare -------------------------------------------------------------------------------------

static void prepare_next(struct stub *s);

// The consumer that a claim is prepared for: one for each, so that each can go by itself.
static void add_consumer(struct sbuf *out, struct str claim_uid)
{
    sbuf_addf(out, "dray-kubelet-stub-%.*s", STR_ARG(claim_uid));
}

static bool drivers_ready(struct stub *s, size_t unsettled)
{
    (void)unsettled;
    if (s->fetching > 0)
        return false;
    vec_foreach(&s->claims, it) {
        const struct api_resource_claim *c = (*it)->object.value;
        const struct api_allocation_result *a = c->status.allocation;
        for (size_t i = 0; a && i < a->devices.results.n; i++)
            if (!plugins_usable(dra_plugins(s->dra), a->devices.results.p[i].driver))
                return false;
    }
    return true;
}

static void kubelet_stub_on_prepared(void *arg, int code, const struct err *err)
{
    struct stub *s = arg;
    const struct api_object_meta *meta = s->claims.p[s->next]->meta;
    const struct node_claim *c = node_claims_find(dra_claims(s->dra), meta->namespace, meta->name);
    if (code == -ECANCELED)
        return;
    if (code < 0 || !c) {
        (void)fprintf(stderr, "%.*s/%.*s: %s\n", STR_ARG(meta->namespace), STR_ARG(meta->name),
                      err ? err->msg : "not known");
        s->failed = true;
    } else {
        kubelet_stub_show_claim(s->args, c, exec_now_ns(loop_exec(s->loop)) - s->begun_ns);
    }
    s->next++;
    prepare_next(s);
}

static void prepare_next(struct stub *s)
{
    if (s->next == s->claims.n) {
        loop_stop(s->loop);
        return;
    }
    const struct typed_object *claim = s->claims.p[s->next];
    cleanup_sbuf struct sbuf consumer = {0};
    add_consumer(&consumer, claim->meta->uid);
    s->begun_ns = exec_now_ns(loop_exec(s->loop));
    dra_prepare_claims(s->dra, sbuf_str(&consumer), &claim, 1, kubelet_stub_on_prepared, s);
}

static void on_fetched(void *arg, const struct client_answer *a)
{
    struct stub *s = arg;
    s->fetching--;
    if (a->code == 0) {
        vec_push(&s->claims, typed_object_ref(a->object));
    } else if (a->code != -ECANCELED) {
        (void)fprintf(stderr, "dray kubelet-stub: %s\n", a->err->msg);
        s->failed = true;
    }
}

static bool kubelet_stub_split_name(struct str text, struct str *namespace, struct str *name)
{
    if (!str_cut(text, '/', namespace, name)) {
        *name = text;
        *namespace = STR("default");
    }
    return name->n > 0 && namespace->n > 0 && str_find_char(*name, '/') < 0;
}

static int fetch_claims(struct stub *s, struct err *err)
{
    vec_foreach(&s->args->words, word) {
        struct str text = str_z(*word);
        struct client_key key = {
            .kind = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"))};
        if (!kubelet_stub_split_name(text, &key.namespace, &key.name))
            return err_set(err, ERR_INVALID, "%.*s is not NAMESPACE/CLAIM", STR_ARG(text));
        if (!s->client)
            return err_set(err, ERR_INVALID,
                           "%.*s: name the API server with --kubeconfig, or the claim's file with "
                           "-f",
                           STR_ARG(text));
        s->fetching++;
        client_get(s->client, &key, on_fetched, s);
    }
    return 0;
}

// A claim of a file may have neither namespace nor UID; the UID must be the same each time.
static void kubelet_stub_complete_claim(struct typed_object *o)
{
    struct api_object_meta *meta = o->meta;
    if (meta->namespace.n == 0)
        meta->namespace = STR("default");
    if (meta->uid.n == 0)
        meta->uid = arena_strf(&o->arena, "00000000-0000-4000-8000-%08x%04x",
                               checkpoint_crc(meta->name), checkpoint_crc(meta->namespace) >> 16);
}

// Any version of a claim will do.
static int take_document(struct stub *s, const struct json_doc *doc, struct err *err)
{
    const struct api_kind *v1 = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"));
    struct typed_object *o = typed_object_new();
    struct api_object read = {0};
    int r = api_decode(doc, doc->root, &o->arena, NULL, &read, err);
    bool is_claim = r == 0 && str_eqz(read.kind->kind, "ResourceClaim");
    if (r == 0 && is_claim)
        r = read.kind == v1 ? (o->object = read, 0)
                            : api_convert(&read, v1, &o->arena, &o->object, err);
    if (r < 0 || !is_claim) {
        typed_object_unref(o);
        return r;
    }
    o->meta = api_object_meta(&o->object);
    kubelet_stub_complete_claim(o);
    vec_push(&s->claims, o);
    return 0;
}

static int kubelet_stub_read_claims(struct stub *s, const char *path, struct err *err)
{
    cleanup_input struct input in = {0};
    size_t before = s->claims.n;
    int r = input_open(&in, path, err);
    while (r == 0) {
        cleanup_json_doc struct json_doc doc = {0};
        r = input_next(&in, &doc, err);
        if (r <= 0)
            break;
        r = take_document(s, &doc, err);
    }
    if (r < 0)
        (void)err_wrap(err, "%s", path);
    else if (s->claims.n == before)
        r = err_set(err, ERR_INVALID, "%s has no ResourceClaim", path);
    return r;
}

static int kubelet_stub_load_claims(struct stub *s, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < stub_args.files.n; i++)
        r = kubelet_stub_read_claims(s, stub_args.files.p[i], err);
    return r < 0 ? r : fetch_claims(s, err);
}

static int stub_run_prepare(void)
{
    if (stub_args.words.n == 0 && stub_args.files.n == 0)
        return cli_usage_error("kubelet-stub prepare", "NAMESPACE/CLAIM or -f FILE is missing");
    return kubelet_stub_call(drivers_ready, prepare_next, kubelet_stub_load_claims);
}

// --- unprepare -----------------------------------------------------------------------------------

static void unprepare_next(struct stub *s);

static const struct node_claim *named_claim(const struct stub *s, struct str text)
{
    struct str namespace, name;
    return kubelet_stub_split_name(text, &namespace, &name)
               ? node_claims_find(dra_claims(s->dra), namespace, name)
               : NULL;
}

static bool unprepare_ready(struct stub *s, size_t unsettled)
{
    (void)unsettled;
    vec_foreach(&s->args->words, word) {
        struct str text = str_z(*word);
        const struct node_claim *c = named_claim(s, text);
        for (size_t i = 0; c && i < c->drivers.n; i++)
            if (!plugins_usable(dra_plugins(s->dra), c->drivers.p[i].name))
                return false;
    }
    return true;
}

static void kubelet_stub_on_unprepared(void *arg, int code, const struct err *err)
{
    struct stub *s = arg;
    struct str text = str_z(s->args->words.p[s->next]);
    if (code == -ECANCELED)
        return;
    if (code < 0) {
        (void)fprintf(stderr, "%.*s: %s\n", STR_ARG(text), err->msg);
        s->failed = true;
        s->next++;
    } else if (!named_claim(s, text)) {
        printf("%.*s: unprepared in %.1f ms\n", STR_ARG(text),
               (double)(exec_now_ns(loop_exec(s->loop)) - s->begun_ns) / (double)CLOCK_NS_PER_MS);
        s->next++;
    }
    unprepare_next(s); // the same once more while it has consumers
}

static void unprepare_next(struct stub *s)
{
    if (s->next == s->args->words.n) {
        loop_stop(s->loop);
        return;
    }
    struct str text = str_z(s->args->words.p[s->next]);
    const struct node_claim *c = named_claim(s, text);
    if (!c || c->pods.n == 0) {
        (void)fprintf(stderr, "%.*s: was not prepared here (%s/%s)\n", STR_ARG(text), s->state.p,
                      DRA_STATE_FILE);
        s->failed = true;
        s->next++;
        unprepare_next(s);
        return;
    }
    s->begun_ns = exec_now_ns(loop_exec(s->loop));
    dra_unprepare_uid(s->dra, str_z(c->pods.p[0]), kubelet_stub_on_unprepared, s);
}

static int stub_run_unprepare(void)
{
    return kubelet_stub_call(unprepare_ready, unprepare_next, NULL);
}

// --- claims, abandon -----------------------------------------------------------------------------

static int stub_run_claims(void)
{
    struct stub s = {.args = &stub_args};
    struct err err = {0};
    int r = kubelet_stub_open(&s, NULL, &err);
    if (r == 0) {
        const struct node_claims *all = dra_claims(s.dra);
        map_foreach(&all->by_key, i)
            kubelet_stub_show_claim(&stub_args, *map_value(&all->by_key, i), -1);
        if (map_len(&all->by_key) == 0 && !stub_args.output)
            puts("nothing is prepared");
    }
    return kubelet_stub_finish(&s, r, &err);
}

static bool abandon_ready(struct stub *s, size_t unsettled)
{
    (void)s;
    return unsettled == 0;
}

static void abandon_go(struct stub *s)
{
    vec_foreach(&s->args->words, word) {
        struct str driver = str_z(*word);
        struct err err = {0};
        int r = dra_abandon(s->dra, driver, false, &err);
        if (r < 0)
            (void)fprintf(stderr, "dray kubelet-stub: %s\n", err.msg);
        else
            printf("%.*s: %d claim%s forgot it\n", STR_ARG(driver), r, r == 1 ? "" : "s");
        s->failed = s->failed || r < 0;
    }
    loop_stop(s->loop);
}

static int stub_run_abandon(void)
{
    return kubelet_stub_call(abandon_ready, abandon_go, NULL);
}
