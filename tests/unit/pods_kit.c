// SPDX-License-Identifier: Apache-2.0
#include "pods_kit.h"

#include "base/banned.h"

// --- The machine ---------------------------------------------------------------------------------

static char *copy(struct str s)
{
    return xstrndup(s.n ? s.p : "", s.n);
}

static bool has_word(const char *list, struct str word)
{
    struct str rest = str_z(list ? list : "");
    while (rest.n > 0) {
        struct str one;
        (void)str_cut(rest, ' ', &one, &rest);
        if (one.n && str_eq(one, word))
            return true;
    }
    return false;
}

static void container_free(struct fake_container *c)
{
    free(c->id);
    free(c->pod_uid);
    free(c->pod_id);
    free(c->name);
    free(c->image);
    free(c->command);
    free(c->env);
    free(c->mounts);
    free(c->devices);
    free(c->labels);
    free(c);
}

static void sandbox_free(struct fake_sandbox *s)
{
    free(s->id);
    free(s->namespace);
    free(s->name);
    free(s->uid);
    free(s->address);
    free(s->handler);
    free(s);
}

void fake_machine_done(struct fake_machine *m)
{
    vec_foreach(&m->containers, c)
        container_free(*c);
    vec_foreach(&m->sandboxes, s)
        sandbox_free(*s);
    vec_done(&m->containers);
    vec_done(&m->sandboxes);
    sbuf_done(&m->log);
}

void fake_machine_reboot(struct fake_machine *m)
{
    vec_foreach(&m->sandboxes, s)
        (*s)->ready = false;
    vec_foreach(&m->containers, c) {
        if ((*c)->state == RUNTIME_EXITED)
            continue;
        (*c)->state = RUNTIME_EXITED;
        (*c)->exit_code = 255;
        (*c)->finished_ns = m->clock->wall;
        (*c)->told = true;
    }
}

size_t fake_running(const struct fake_machine *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->containers.n; i++)
        n += m->containers.p[i]->state == RUNTIME_RUNNING;
    return n;
}

struct fake_container *fake_find(struct fake_machine *m, const char *name)
{
    struct fake_container *found = NULL;
    vec_foreach(&m->containers, c)
        if (strcmp((*c)->name, name) == 0 && (!found || (*c)->attempt >= found->attempt))
            found = *c;
    return found;
}

static struct fake_container *by_id(struct fake_machine *m, struct str id)
{
    vec_foreach(&m->containers, c)
        if (str_eqz(id, (*c)->id))
            return *c;
    return NULL;
}

static struct fake_sandbox *sandbox_by_id(struct fake_machine *m, struct str id)
{
    vec_foreach(&m->sandboxes, s)
        if (str_eqz(id, (*s)->id))
            return *s;
    return NULL;
}

static void status_of(const struct fake_container *c, struct runtime_container_status *s)
{
    *s = (struct runtime_container_status){.id = str_z(c->id),
                                           .pod_uid = str_z(c->pod_uid),
                                           .pod_id = str_z(c->pod_id),
                                           .name = str_z(c->name),
                                           .attempt = c->attempt,
                                           .state = c->state,
                                           .image = str_z(c->image),
                                           .image_id = STR("sha256:feed"),
                                           .created_ns = c->created_ns,
                                           .started_ns = c->started_ns,
                                           .finished_ns = c->finished_ns,
                                           .exit_code = c->exit_code};
}

static void end(struct fake_machine *m, struct fake_container *c, int32_t code)
{
    if (c->state != RUNTIME_EXITED) {
        c->state = RUNTIME_EXITED;
        c->exit_code = code;
        c->finished_ns = m->clock->wall;
    }
}

static void watch_doubles(struct fake_machine *m, const struct fake_container *c)
{
    int n = 0;
    vec_foreach(&m->containers, o)
        n += (*o)->state == RUNTIME_RUNNING && strcmp((*o)->name, c->name) == 0 &&
             strcmp((*o)->pod_uid, c->pod_uid) == 0;
    if (n > m->most_running)
        m->most_running = n;
}

// --- The runtime ---------------------------------------------------------------------------------

enum op {
    OP_IMAGE,
    OP_POD_RUN,
    OP_POD_STOP,
    OP_POD_REMOVE,
    OP_CREATE,
    OP_START,
    OP_STOP,
    OP_REMOVE,
    OP_LIST,
    OP_EXEC
};

struct fake_call {
    struct list_node node;
    struct fake_runtime *r;
    enum op op;
    struct exec_timer timer;
    char *id, *word;
    struct fake_sandbox *sandbox;     // to be made
    struct fake_container *container; // to be made
    runtime_id_fn id_done;
    runtime_done_fn done;
    void (*list)(void *arg, const struct runtime_list *all);
    struct runtime_exec_options exec;
    int64_t kill_ns;
    bool cancelled, timed_out, done_now;
    void *arg;
};

static struct fake_runtime *of(struct runtime *r)
{
    return container_of(r, struct fake_runtime, runtime);
}

static void call_free(struct fake_call *c)
{
    exec_timer_stop(c->r->exec, &c->timer);
    list_remove(&c->node);
    if (c->sandbox)
        sandbox_free(c->sandbox);
    if (c->container)
        container_free(c->container);
    free(c->id);
    free(c->word);
    free(c);
}

static void run(void *arg);

static struct fake_call *call_new(struct fake_runtime *r, enum op op, struct str id, void *arg)
{
    struct fake_call *c = xcalloc(1, sizeof(*c));
    *c = (struct fake_call){.r = r, .op = op, .id = copy(id), .arg = arg};
    c->timer = (struct exec_timer){.fn = run, .arg = c};
    list_push_back(&r->calls, &c->node);
    exec_timer_start(r->exec, &c->timer, 0);
    return c;
}

static void note(struct fake_machine *m, const char *what, const char *about)
{
    sbuf_addf(&m->log, "%s %s\n", what, about);
}

static void tell_ends(struct fake_runtime *r)
{
    struct fake_machine *m = r->machine;
    for (size_t i = 0; i < m->containers.n; i++) {
        struct fake_container *c = m->containers.p[i];
        if (c->state != RUNTIME_EXITED || c->told)
            continue;
        c->told = true;
        struct runtime_container_status s;
        status_of(c, &s);
        if (r->runtime.listener.exited)
            r->runtime.listener.exited(r->runtime.listener.arg, &s);
    }
}

static void tick(void *arg)
{
    struct fake_runtime *r = arg;
    struct fake_machine *m = r->machine;
    if (r->cut)
        return;
    int64_t next = INT64_MAX;
    vec_foreach(&m->containers, c) {
        if ((*c)->state != RUNTIME_RUNNING || (*c)->own_end_ns == 0)
            continue;
        int64_t due = (*c)->started_ns + (*c)->own_end_ns - m->clock->wall;
        if (due <= 0)
            end(m, *c, (*c)->own_code);
        else if (due < next)
            next = due;
    }
    if (next != INT64_MAX)
        exec_timer_start(r->exec, &r->tick, next);
    tell_ends(r);
}

static void tick_soon(struct fake_runtime *r)
{
    exec_timer_start(r->exec, &r->tick, 0);
}

static int refuse(struct err *err, int code, const char *why)
{
    return err_set(err, code, "%s", why);
}

static void run_image(struct fake_call *c)
{
    struct err err = {0};
    bool here = has_word(c->r->machine->images, str_z(c->id));
    bool there = has_word(c->r->machine->registry, str_z(c->id)) && !c->word;
    int code = 0;
    if (strcmp(c->id, "Bad Name") == 0)
        code = refuse(&err, ERR_BAD_REQUEST, "invalid reference format");
    else if (!here && !c->word && has_word(c->r->machine->huge, str_z(c->id)))
        code = refuse(&err, ENOSPC, "no space");
    else if (!here && !there)
        code = refuse(&err, ERR_NOT_FOUND, "not found");
    c->id_done(c->arg, code, code == 0 ? str_z(c->id) : (struct str){0}, &err);
}

static void run_pod(struct fake_call *c)
{
    struct fake_machine *m = c->r->machine;
    struct err err = {0};
    if (c->r->refuse_pods) {
        c->id_done(c->arg, refuse(&err, ERR_UNAVAILABLE, "no network"), (struct str){0}, &err);
        return;
    }
    struct fake_sandbox *s = sandbox_by_id(m, str_z(c->sandbox->id));
    if (!s) {
        s = take_ptr(c->sandbox);
        s->created_ns = ++m->clock->wall; // nothing is made at the same time
        vec_push(&m->sandboxes, s);
    }
    s->ready = true;
    note(m, "pod_run", s->name);
    c->id_done(c->arg, 0, str_z(s->id), &err);
}

static void stop_pod(struct fake_call *c, bool remove)
{
    struct fake_machine *m = c->r->machine;
    struct err err = {0};
    struct fake_sandbox *s = sandbox_by_id(m, str_z(c->id));
    note(m, remove ? "pod_remove" : "pod_stop", s ? s->name : "?");
    for (size_t i = 0; s && i < m->containers.n; i++)
        if (strcmp(m->containers.p[i]->pod_id, s->id) == 0)
            end(m, m->containers.p[i], 137);
    if (s)
        s->ready = false;
    for (size_t i = 0; s && remove && i < m->sandboxes.n; i++)
        if (m->sandboxes.p[i] == s) {
            m->sandboxes.p[i] = m->sandboxes.p[--m->sandboxes.n];
            sandbox_free(s);
            s = NULL;
        }
    tell_ends(c->r);
    c->done(c->arg, 0, &err);
}

static void create(struct fake_call *c)
{
    struct fake_machine *m = c->r->machine;
    struct err err = {0};
    struct fake_container *k = by_id(m, str_z(c->container->id));
    if (!k) {
        k = take_ptr(c->container);
        k->created_ns = ++m->clock->wall;
        vec_push(&m->containers, k);
    }
    note(m, "create", k->name);
    c->id_done(c->arg, 0, str_z(k->id), &err);
}

static void start(struct fake_call *c)
{
    struct fake_machine *m = c->r->machine;
    struct err err = {0};
    struct fake_container *k = by_id(m, str_z(c->id));
    int code = 0;
    if (!k)
        code = refuse(&err, ERR_NOT_FOUND, "no such container");
    else if (strcmp(k->command, "nostart") == 0)
        code = refuse(&err, ERR_INVALID, "exec: \"nostart\": executable file not found in $PATH");
    if (code == 0 && k->state == RUNTIME_CREATED) {
        k->state = RUNTIME_RUNNING;
        k->started_ns = m->clock->wall;
        watch_doubles(m, k);
        tick_soon(c->r);
    }
    note(m, "start", k ? k->name : "?");
    c->done(c->arg, code, &err);
}

static void stop(struct fake_call *c)
{
    struct fake_machine *m = c->r->machine;
    struct err err = {0};
    struct fake_container *k = by_id(m, str_z(c->id));
    if (k && k->state == RUNTIME_RUNNING && k->stubborn && c->kill_ns > 0) {
        note(m, "term", k->name);
        exec_timer_start(c->r->exec, &c->timer, c->kill_ns);
        c->kill_ns = 0;
        return;
    }
    if (k) {
        note(m, "stop", k->name);
        end(m, k, k->stubborn ? 137 : 143);
        tell_ends(c->r);
    }
    c->done_now = true;
    c->done(c->arg, 0, &err);
}

static void remove_container(struct fake_call *c)
{
    struct fake_machine *m = c->r->machine;
    struct err err = {0};
    for (size_t i = 0; i < m->containers.n; i++)
        if (str_eqz(str_z(c->id), m->containers.p[i]->id)) {
            note(m, "remove", m->containers.p[i]->name);
            container_free(m->containers.p[i]);
            m->containers.p[i] = m->containers.p[--m->containers.n];
            break;
        }
    c->done(c->arg, 0, &err);
}

static void list_all(struct fake_call *c)
{
    struct fake_machine *m = c->r->machine;
    struct runtime_pod_status *ps = xcalloc(m->sandboxes.n + 1, sizeof(*ps));
    struct runtime_container_status *cs = xcalloc(m->containers.n + 1, sizeof(*cs));
    for (size_t i = 0; i < m->sandboxes.n; i++) {
        const struct fake_sandbox *s = m->sandboxes.p[i];
        ps[i] = (struct runtime_pod_status){.id = str_z(s->id),
                                            .namespace = str_z(s->namespace),
                                            .name = str_z(s->name),
                                            .uid = str_z(s->uid),
                                            .attempt = s->attempt,
                                            .state = s->ready ? RUNTIME_POD_READY
                                                              : RUNTIME_POD_NOT_READY,
                                            .address = str_z(s->address),
                                            .created_ns = s->created_ns};
    }
    for (size_t i = 0; i < m->containers.n; i++)
        status_of(m->containers.p[i], &cs[i]);
    const struct runtime_list all = {ps, m->sandboxes.n, cs, m->containers.n};
    c->list(c->arg, &all);
    free(ps);
    free(cs);
}

static void run_exec(struct fake_call *c)
{
    struct err err = {0};
    struct str word = str_z(c->word), what;
    (void)str_cut(word, ' ', &what, &word);
    if (c->cancelled) {
        c->exec.done(c->exec.arg, refuse(&err, ECANCELED, "cancelled"), 0, &err);
        return;
    }
    if (str_eqz(what, "hang") && !c->timed_out) {
        c->timed_out = true;
        exec_timer_start(c->r->exec, &c->timer,
                         c->exec.timeout_ns ? c->exec.timeout_ns : 3600 * CLOCK_NS_PER_SEC);
        return;
    }
    note(c->r->machine, "exec", c->word);
    bool ok =
        str_eqz(what, "true") || (str_eqz(what, "check") && has_word(c->r->machine->good, word));
    if (!ok && c->exec.output)
        c->exec.output(c->exec.arg, 2, STR("no good"));
    c->done_now = true;
    c->exec.done(c->exec.arg, c->timed_out ? refuse(&err, ERR_TIMEOUT, "timed out") : 0, ok ? 0 : 1,
                 &err);
}

static void run(void *arg)
{
    struct fake_call *c = arg;
    struct fake_runtime *r = c->r;
    if (r->cut)
        return; // dead: nothing more is done, nobody is told
    switch (c->op) {
    case OP_IMAGE:
        run_image(c);
        break;
    case OP_POD_RUN:
        run_pod(c);
        break;
    case OP_POD_STOP:
    case OP_POD_REMOVE:
        stop_pod(c, c->op == OP_POD_REMOVE);
        break;
    case OP_CREATE:
        create(c);
        break;
    case OP_START:
        start(c);
        break;
    case OP_STOP:
        stop(c);
        break;
    case OP_REMOVE:
        remove_container(c);
        break;
    case OP_LIST:
        list_all(c);
        break;
    case OP_EXEC:
        run_exec(c);
        break;
    }
    if (!exec_timer_armed(&c->timer))
        call_free(c);
}

static void fake_about(struct runtime *r, struct str *version, const struct str **missing,
                       size_t *n)
{
    (void)r;
    *version = STR("fake/1");
    *missing = NULL;
    *n = 0;
}

static void fake_image(struct runtime *r, const struct runtime_image *q, runtime_id_fn done,
                       void *arg)
{
    struct fake_call *c = call_new(of(r), OP_IMAGE, q->reference, arg);
    c->id_done = done;
    if (q->pull == RUNTIME_PULL_NEVER)
        c->word = copy(STR("never"));
}

static void fake_pod_run(struct runtime *r, const struct runtime_pod *q, runtime_id_fn done,
                         void *arg)
{
    struct fake_call *c = call_new(of(r), OP_POD_RUN, q->uid, arg);
    struct sbuf id = {0}, address = {0};
    sbuf_addf(&id, "pod-%.*s-%u", STR_ARG(q->uid), q->attempt);
    sbuf_addf(&address, "10.0.0.%u", ++of(r)->machine->made);
    c->id_done = done;
    c->sandbox = xcalloc(1, sizeof(*c->sandbox));
    *c->sandbox = (struct fake_sandbox){.id = sbuf_take(&id),
                                        .namespace = copy(q->namespace),
                                        .name = copy(q->name),
                                        .uid = copy(q->uid),
                                        .address = sbuf_take(&address),
                                        .attempt = q->attempt,
                                        .users = q->users,
                                        .limits = q->limits,
                                        .handler = copy(q->handler)};
}

static void fake_pod_stop(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    call_new(of(r), OP_POD_STOP, id, arg)->done = done;
}

static void fake_pod_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    call_new(of(r), OP_POD_REMOVE, id, arg)->done = done;
}

static const char *fake_netns(struct runtime *r, struct str id)
{
    (void)r;
    (void)id;
    return NULL;
}

static char *join(const struct str *p, size_t n, const char *between)
{
    struct sbuf b = {0};
    for (size_t i = 0; i < n; i++)
        sbuf_addf(&b, "%s%.*s", i ? between : "", STR_ARG(p[i]));
    return sbuf_take(&b);
}

static void behave(struct fake_container *k, const struct runtime_container *q)
{
    int64_t code = 0, ms = 0;
    k->stubborn = q->command_len && str_eqz(q->command[0], "stubborn");
    if (q->command_len < 2 || !str_eqz(q->command[0], "exit"))
        return;
    (void)!str_to_i64(q->command[1], &code);
    if (q->command_len > 2)
        (void)!str_to_i64(q->command[2], &ms);
    k->own_code = (int32_t)code;
    k->own_end_ns = ms ? ms * CLOCK_NS_PER_MS : 1;
}

static void fake_create(struct runtime *r, struct str pod_id, const struct runtime_container *q,
                        runtime_id_fn done, void *arg)
{
    struct fake_call *c = call_new(of(r), OP_CREATE, pod_id, arg);
    const struct fake_sandbox *s = sandbox_by_id(of(r)->machine, pod_id);
    struct fake_container *k = xcalloc(1, sizeof(*k));
    struct sbuf id = {0}, env = {0}, mounts = {0}, labels = {0};
    const char *uid = s ? s->uid : "?";
    sbuf_addf(&id, "%s-%.*s-%u", uid, STR_ARG(q->name), q->attempt);
    for (size_t i = 0; i < q->env_len; i++)
        sbuf_addf(&env, "%.*s=%.*s\n", STR_ARG(q->env[i].name), STR_ARG(q->env[i].value));
    for (size_t i = 0; i < q->mounts_len; i++)
        sbuf_addf(&mounts, "%s:%s:%s%s\n", q->mounts[i].container_path, q->mounts[i].host_path,
                  q->mounts[i].sub_path,
                  q->mounts[i].recursive   ? ":rro"
                  : q->mounts[i].read_only ? ":ro"
                                           : "");
    sbuf_addf(&labels, "%.*s %.*s %.*s", STR_ARG(q->security.apparmor),
              STR_ARG(q->security.selinux_label), STR_ARG(q->security.mount_label));
    *k = (struct fake_container){.id = sbuf_take(&id),
                                 .pod_uid = copy(str_z(uid)),
                                 .pod_id = copy(pod_id),
                                 .name = copy(q->name),
                                 .image = copy(q->image),
                                 .command = join(q->command, q->command_len, " "),
                                 .env = sbuf_take(&env),
                                 .mounts = sbuf_take(&mounts),
                                 .labels = sbuf_take(&labels),
                                 .devices = join(q->cdi_devices, q->cdi_devices_len, " "),
                                 .attempt = q->attempt,
                                 .state = RUNTIME_CREATED};
    behave(k, q);
    c->container = k;
    c->id_done = done;
}

static void fake_start(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    call_new(of(r), OP_START, id, arg)->done = done;
}

static void fake_stop(struct runtime *r, struct str id, int64_t grace_ns, runtime_done_fn done,
                      void *arg)
{
    struct fake_call *c = call_new(of(r), OP_STOP, id, arg);
    c->done = done;
    c->kill_ns = grace_ns;
}

static void fake_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    call_new(of(r), OP_REMOVE, id, arg)->done = done;
}

static bool fake_status(struct runtime *r, struct str id, struct runtime_container_status *ret)
{
    const struct fake_container *k = by_id(of(r)->machine, id);
    if (k)
        status_of(k, ret);
    return k != NULL;
}

static void fake_list(struct runtime *r, void (*fn)(void *arg, const struct runtime_list *all),
                      void *arg)
{
    call_new(of(r), OP_LIST, STR(""), arg)->list = fn;
}

static struct runtime_exec *fake_exec(struct runtime *r, const struct runtime_exec_options *o)
{
    struct fake_call *c = call_new(of(r), OP_EXEC, o->container_id, NULL);
    c->exec = *o;
    c->word = join(o->command, o->command_len, " ");
    return (struct runtime_exec *)c;
}

static void fake_exec_cancel(struct runtime_exec *x)
{
    struct fake_call *c = (struct fake_call *)x;
    c->cancelled = true;
    exec_timer_start(c->r->exec, &c->timer, 0);
}

static const struct runtime_features *fake_features(const struct runtime *r)
{
    static const struct runtime_features none = {.no_users = "its runtime has none"};
    const struct fake_machine *m = container_of(r, const struct fake_runtime, runtime)->machine;
    return m->features ? m->features : &none;
}

static void fake_measure(const struct runtime *r, const struct runtime_measure *what,
                         struct runtime_usage *ret)
{
    const struct fake_machine *m = container_of(r, const struct fake_runtime, runtime)->machine;
    for (size_t i = 0; i < what->containers_len; i++)
        vec_foreach(&m->containers, c) {
            if (!str_eqz(what->containers[i], (*c)->id))
                continue;
            ret->containers[i].memory_bytes = (*c)->memory_bytes;
            ret->containers[i].disk_bytes = (uint64_t)(*c)->disk_bytes;
            ret->memory_bytes += (*c)->memory_bytes;
            ret->processes++;
        }
}

static const struct runtime_ops fake_ops = {
    .about = fake_about,
    .image_ensure = fake_image,
    .pod_run = fake_pod_run,
    .pod_stop = fake_pod_stop,
    .pod_remove = fake_pod_remove,
    .pod_netns = fake_netns,
    .container_create = fake_create,
    .container_start = fake_start,
    .container_stop = fake_stop,
    .container_remove = fake_remove,
    .container_status = fake_status,
    .list = fake_list,
    .measure = fake_measure,
    .features = fake_features,
    .exec = fake_exec,
    .exec_cancel = fake_exec_cancel,
};

void fake_runtime_init(struct fake_runtime *r, struct fake_machine *m, struct exec *exec)
{
    *r = (struct fake_runtime){
        .runtime = {.ops = &fake_ops}, .machine = m, .exec = exec, .tick = {.fn = tick, .arg = r}};
    list_init(&r->calls);
    tick_soon(r);
}

// All calls that are left end as a dying process ends them: what waits for them is freed.
void fake_runtime_done(struct fake_runtime *r)
{
    struct err err = {0};
    const struct runtime_list nothing = {0};
    int code = err_set(&err, ECANCELED, "gone");
    exec_timer_stop(r->exec, &r->tick);
    while (!list_empty(&r->calls)) {
        struct fake_call *c = list_entry(r->calls.head.next, struct fake_call, node);
        list_remove(&c->node);
        if (c->op == OP_EXEC)
            c->exec.done(c->exec.arg, code, 0, &err);
        else if (c->op == OP_LIST)
            c->list(c->arg, &nothing);
        else if (c->id_done)
            c->id_done(c->arg, code, (struct str){0}, &err);
        else
            c->done(c->arg, code, &err);
        call_free(c);
    }
}

// --- The client ----------------------------------------------------------------------------------

struct cut_call {
    struct list_node node;
    struct cut_client *owner;
    client_done_fn done;
    void *arg;
};

static struct cut_client *cut_of(struct client *c)
{
    return container_of(c, struct cut_client, client);
}

static void cut_answer(void *arg, const struct client_answer *a)
{
    struct cut_call *k = arg;
    bool there = list_linked(&k->node) && !k->owner->cut;
    if (there) {
        list_remove(&k->node);
        k->done(k->arg, a);
        free(k);
        return;
    }
    if (!list_linked(&k->node)) // ended by cut_client_done
        free(k);
    else
        k->owner = NULL; // answered, nobody hears it
}

static struct cut_call *cut_new(struct cut_client *c, client_done_fn done, void *arg)
{
    struct cut_call *k = xcalloc(1, sizeof(*k));
    *k = (struct cut_call){.owner = c, .done = done, .arg = arg};
    list_push_back(&c->calls, &k->node);
    return k;
}

static void cut_get(struct client *c, const struct client_key *key, client_done_fn done, void *arg)
{
    struct cut_call *k = cut_new(cut_of(c), done, arg);
    if (!cut_of(c)->cut)
        client_get(cut_of(c)->inner, key, cut_answer, k);
    else
        k->owner = NULL;
}

static void cut_create(struct client *c, const struct api_object *o, const struct client_write *how,
                       client_done_fn done, void *arg)
{
    struct cut_call *k = cut_new(cut_of(c), done, arg);
    if (!cut_of(c)->cut)
        client_create(cut_of(c)->inner, o, how, cut_answer, k);
    else
        k->owner = NULL;
}

static void cut_update(struct client *c, const struct api_object *o, const struct client_write *how,
                       client_done_fn done, void *arg)
{
    struct cut_call *k = cut_new(cut_of(c), done, arg);
    if (!cut_of(c)->cut)
        client_update(cut_of(c)->inner, o, how, cut_answer, k);
    else
        k->owner = NULL;
}

static void cut_patch(struct client *c, const struct client_key *key, enum client_patch type,
                      struct str body, const struct client_write *how, client_done_fn done,
                      void *arg)
{
    struct cut_call *k = cut_new(cut_of(c), done, arg);
    if (!cut_of(c)->cut)
        client_patch(cut_of(c)->inner, key, type, body, how, cut_answer, k);
    else
        k->owner = NULL;
}

static void cut_remove(struct client *c, const struct client_key *key,
                       const struct api_delete_options *o, client_done_fn done, void *arg)
{
    struct cut_call *k = cut_new(cut_of(c), done, arg);
    if (!cut_of(c)->cut)
        client_delete(cut_of(c)->inner, key, o, cut_answer, k);
    else
        k->owner = NULL;
}

static void cut_remove_all(struct client *c, const struct api_kind *kind,
                           const struct client_list_options *o, client_done_fn done, void *arg)
{
    struct cut_call *k = cut_new(cut_of(c), done, arg);
    if (!cut_of(c)->cut)
        client_delete_all(cut_of(c)->inner, kind, o, cut_answer, k);
    else
        k->owner = NULL;
}

static struct client_watch *cut_watch(struct client *c, const struct api_kind *kind,
                                      const struct client_list_options *o, uint64_t since,
                                      client_event_fn event, void *arg)
{
    return client_watch(cut_of(c)->inner, kind, o, since, event, arg);
}

static struct client *watching; // the inner one of the last cut_client: watches are its own

static void cut_watch_stop(struct client_watch *w)
{
    client_watch_stop(watching, w);
}

void cut_client_init(struct cut_client *c, struct client *inner)
{
    static const struct client_ops ops = {.get = cut_get,
                                          .create = cut_create,
                                          .update = cut_update,
                                          .patch = cut_patch,
                                          .remove = cut_remove,
                                          .remove_all = cut_remove_all,
                                          .watch = cut_watch,
                                          .watch_stop = cut_watch_stop};
    *c = (struct cut_client){.client = {.ops = &ops, .exec = inner->exec}, .inner = inner};
    list_init(&c->calls);
    watching = inner;
}

void cut_client_done(struct cut_client *c)
{
    struct err err = {0};
    const struct client_answer a = {.code = err_set(&err, ECANCELED, "gone"), .err = &err};
    struct list_node *n;
    while ((n = list_pop_front(&c->calls))) {
        struct cut_call *k = list_entry(n, struct cut_call, node);
        k->done(k->arg, &a);
        if (!k->owner)
            free(k); // else its answer is still to come, and frees it
    }
}

// --- The network ---------------------------------------------------------------------------------

struct net_call {
    struct exec *exec;
    struct exec_timer timer;
    bool ok;
    probe_net_fn done;
    void *arg;
};

static void net_answer(void *arg)
{
    struct net_call *c = arg;
    c->done(c->arg, c->ok, c->ok ? STR("ok") : STR("connection refused"));
    free(c);
}

static struct probe_net_call *net_check(struct probe_net *n, const struct probe_net_request *q,
                                        probe_net_fn done, void *arg)
{
    static const char *const names[] = {"tcp", "http", "https", "grpc"};
    struct fake_net *f = container_of(n, struct fake_net, net);
    struct sbuf word = {0};
    sbuf_addf(&word, "%s:%u", names[q->kind], q->port);
    struct net_call *c = xcalloc(1, sizeof(*c));
    *c = (struct net_call){
        .exec = f->exec, .ok = has_word(f->open, sbuf_str(&word)), .done = done, .arg = arg};
    c->timer = (struct exec_timer){.fn = net_answer, .arg = c};
    exec_timer_start(f->exec, &c->timer, 0);
    sbuf_done(&word);
    return (struct probe_net_call *)c;
}

static void net_cancel(struct probe_net_call *call)
{
    struct net_call *c = (struct net_call *)call;
    exec_timer_stop(c->exec, &c->timer);
    free(c);
}

void fake_net_init(struct fake_net *n, struct exec *exec)
{
    *n = (struct fake_net){.net = {.check = net_check, .cancel = net_cancel}, .exec = exec};
}
