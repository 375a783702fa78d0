// SPDX-License-Identifier: Apache-2.0
//
// Writes the process part of config.json (user, arguments, environment, capabilities), puts the
// parts together and applies CDI edits to the result.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "base/map.h"
#include "cdi/apply.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "node/image/image_blob.h"
#include "node/oci/oci_int.h"
#include "os/file.h"

#include "base/banned.h"

#define FILTER_BYTES_MAX  ((size_t)1 << 20)
#define FILTER_ANNOTATION "run.oci.seccomp_bpf_data"
#define CONTAINER_UMASK   022 // as containerd and CRI-O have it; else a runtime may pass on its own
#define DEFAULT_PATH      "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// --- User ----------------------------------------------------------------------------------------

struct groups VEC(uint32_t);

static int id_from(int64_t said, const char *what, uint32_t *ret, struct err *err)
{
    if (said < 0 || said >= UINT32_MAX)
        return err_set(err, ERR_INVALID, "%s %lld is out of range", what, (long long)said);
    *ret = (uint32_t)said;
    return 0;
}

static void oci_config_add_group(struct groups *all, uint32_t id, struct arena *arena)
{
    vec_foreach(all, g)
        if (*g == id)
            return;
    vec_push_arena(arena, all, id);
}

static int oci_config_find_user(const struct oci_options *o, struct arena *arena,
                                struct oci_user *ret, struct err *err)
{
    const struct runtime_security *s = &o->container->security;
    cleanup_fd int rootfs = open(o->image->rootfs.p, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct str said = o->image->config.user;
    struct oci_user u = {0};
    struct groups groups = {0};
    if (s->has_user)
        said = arena_strf(arena, "%lld", (long long)s->user);
    else if (s->user_name.n)
        said = s->user_name;
    int r = oci_user_find(rootfs, said, arena, &u, err);
    if (r == 0 && s->has_user)
        r = id_from(s->user, "runAsUser", &u.uid, err);
    if (r == 0 && s->has_group)
        r = id_from(s->group, "runAsGroup", &u.gid, err);
    if (r < 0)
        return r;
    // Its own group too: a process could otherwise leave it and get past a mode that shuts the
    // group out.
    vec_push_arena(arena, &groups, u.gid);
    for (size_t i = 0; !s->strict_groups && i < u.groups_len; i++)
        oci_config_add_group(&groups, u.groups[i], arena);
    for (size_t i = 0; i < s->groups_len; i++) {
        uint32_t id;
        r = id_from(s->groups[i], "a supplemental group", &id, err);
        if (r < 0)
            return r;
        oci_config_add_group(&groups, id, arena);
    }
    u.groups = groups.p;
    u.groups_len = groups.n;
    if (s->must_not_be_root && u.uid == 0)
        return err_set(err, ERR_FORBIDDEN, "container has runAsNonRoot and image will run as root");
    *ret = u;
    return 0;
}

static void write_user(struct json_writer *w, const struct oci_user *u)
{
    json_write_object_in(w, "user");
    json_write_number(w, "uid", u->uid);
    json_write_number(w, "gid", u->gid);
    json_write_number(w, "umask", CONTAINER_UMASK);
    if (u->groups_len) {
        json_write_array_in(w, "additionalGids");
        for (size_t i = 0; i < u->groups_len; i++)
            json_write_u64(w, u->groups[i]);
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

// --- Process -------------------------------------------------------------------------------------

static int write_args(struct json_writer *w, const struct oci_options *o, struct err *err)
{
    const struct runtime_container *c = o->container;
    const struct image_config *image = &o->image->config;
    size_t n = 0;
    json_write_array_in(w, "args");
    for (size_t i = 0; i < c->command_len; i++, n++)
        json_write_str(w, c->command[i]);
    for (size_t i = 0; !c->command_len && i < image->entrypoint.n; i++, n++)
        json_write_str(w, image->entrypoint.p[i]);
    for (size_t i = 0; i < c->args_len; i++, n++)
        json_write_str(w, c->args[i]);
    for (size_t i = 0; !c->command_len && !c->args_len && i < image->command.n; i++, n++)
        json_write_str(w, image->command.p[i]);
    json_write_array_end(w);
    if (n == 0)
        return err_set(err, ERR_INVALID,
                       "no command specified: neither the container nor its image has one");
    return 0;
}

struct variables MAP(struct str);

static void oci_config_set_variable(struct variables *all, struct str name, struct str value)
{
    if (name.n)
        *map_put(all, name) = value;
}

static void write_env(struct json_writer *w, const struct oci_options *o,
                      const struct oci_user *user)
{
    struct variables all = {0};
    oci_config_set_variable(&all, STR("PATH"), STR(DEFAULT_PATH));
    if (o->pod->hostname.n)
        oci_config_set_variable(&all, STR("HOSTNAME"), o->pod->hostname);
    if (o->container->tty)
        oci_config_set_variable(&all, STR("TERM"), STR("xterm"));
    if (user->home.n)
        oci_config_set_variable(&all, STR("HOME"), user->home);
    vec_foreach(&o->image->config.env, e) {
        struct str name, value;
        (void)str_cut(*e, '=', &name, &value);
        oci_config_set_variable(&all, name, value);
    }
    for (size_t i = 0; i < o->container->env_len; i++)
        oci_config_set_variable(&all, o->container->env[i].name, o->container->env[i].value);
    json_write_array_in(w, "env");
    map_foreach(&all, i) {
        cleanup_sbuf struct sbuf one = {0};
        sbuf_addf(&one, "%.*s=", STR_ARG(map_key(&all, i)));
        sbuf_add(&one, *map_value(&all, i));
        json_write_str(w, sbuf_str(&one));
    }
    json_write_array_end(w);
    map_done(&all);
}

static void write_caps(struct json_writer *w, const struct oci_caps *caps)
{
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    json_write_object_in(w, "capabilities");
    for (size_t i = 0; i < array_len(sets); i++) {
        json_write_array_in(w, sets[i]);
        vec_foreach(caps, c)
            json_write_str(w, *c);
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

static int write_process(struct json_writer *w, const struct oci_options *o,
                         const struct oci_caps *caps, struct arena *arena, struct err *err)
{
    struct oci_user user;
    struct str folder =
        o->container->working_dir.n ? o->container->working_dir : o->image->config.working_dir;
    int r = oci_config_find_user(o, arena, &user, err);
    if (r == 0 && folder.n)
        r = oci_path_check(folder, "the working directory", err);
    // Descriptors that a runtime forgot to close were a way out more than once.
    if (r == 0 && str_starts(folder, STR("/proc/")))
        r = err_set(err, ERR_INVALID, "the working directory may not be in /proc");
    if (r < 0)
        return r;
    json_write_object_in(w, "process");
    json_write_flag(w, "terminal", o->container->tty);
    write_user(w, &user);
    r = write_args(w, o, err);
    write_env(w, o, &user);
    json_write_text(w, "cwd", folder.n ? folder : STR("/"));
    write_caps(w, caps);
    json_write_flag(w, "noNewPrivileges", o->container->security.no_new_privileges);
    if (o->container->security.apparmor.n)
        json_write_text(w, "apparmorProfile", o->container->security.apparmor);
    if (o->container->security.selinux_label.n)
        json_write_text(w, "selinuxLabel", o->container->security.selinux_label);
    if (o->container->limits.oom_score_adj)
        json_write_number(w, "oomScoreAdj", o->container->limits.oom_score_adj);
    json_write_object_end(w);
    return r;
}

// Takes a compiled filter, as the text of an annotation, instead of the rules where there is one.
static void oci_config_use_filter(const struct oci_options *o, struct sbuf *seccomp,
                                  struct sbuf *out)
{
    cleanup_sbuf struct sbuf name = {0}, path = {0}, filter = {0};
    if (!o->filters || seccomp->n == 0)
        return;
    image_sha256(sbuf_str(seccomp), false, &name);
    sbuf_addf(&path, "%s/%s", o->filters, name.p);
    if (file_read_at(AT_FDCWD, path.p, FILTER_BYTES_MAX, &filter) < 0 || filter.n == 0 ||
        filter.n % 8 != 0) {
        if (o->ret_filter)
            memcpy(o->ret_filter, name.p, name.n + 1);
        return;
    }
    base64_encode(sbuf_str(&filter), BASE64_STD, out);
    sbuf_clear(seccomp);
}

static void write_annotations(struct json_writer *w, const struct runtime_container *c,
                              struct str filter)
{
    if (c->annotations_len == 0 && filter.n == 0)
        return;
    json_write_object_in(w, "annotations");
    for (size_t i = 0; i < c->annotations_len; i++) {
        if (str_eqz(c->annotations[i].name, FILTER_ANNOTATION))
            continue; // reserved for the agent
        json_write_key(w, c->annotations[i].name);
        json_write_str(w, c->annotations[i].value);
    }
    if (filter.n > 0) {
        json_write_key(w, STR(FILTER_ANNOTATION));
        json_write_str(w, filter);
    }
    json_write_object_end(w);
}

static int oci_config_write_all(struct json_writer *w, const struct oci_options *o,
                                struct arena *arena, struct err *err)
{
    struct oci_caps caps = {0};
    cleanup_sbuf struct sbuf seccomp = {0}, filter = {0};
    int r = oci_caps_make(&o->container->security, arena, &caps, err);
    if (r < 0)
        return r;
    json_write_object_begin(w);
    json_write_text(w, "ociVersion", STR("1.0.2"));
    r = write_process(w, o, &caps, arena, err);
    if (r < 0)
        return r;
    json_write_object_in(w, "root");
    json_write_text(w, "path", arena_strf(arena, "%s/rootfs", o->folder));
    json_write_flag(w, "readonly", o->container->security.read_only_root);
    json_write_object_end(w);
    r = oci_write_mounts(w, o, arena, err);
    if (r == 0)
        r = oci_make_seccomp(o, &caps, &seccomp, err);
    if (r < 0)
        return r;
    oci_config_use_filter(o, &seccomp, &filter);
    write_annotations(w, o->container, sbuf_str(&filter));
    oci_write_linux(w, o, sbuf_str(&seccomp));
    json_write_object_end(w);
    return 0;
}

// --- Devices -------------------------------------------------------------------------------------

// Paths in the container are walked by the runtime inside its root; ".." has no business there.
static int oci_config_check_edits(const struct cdi_edits *edits, struct err *err)
{
    int r = 0;
    vec_foreach(&edits->device_nodes, n)
        r = r < 0 ? r : oci_path_check(n->path, "the device node", err);
    vec_foreach(&edits->mounts, m)
        r = r < 0 ? r : oci_path_check(m->container_path, "the mount of a device at", err);
    return r;
}

static int apply_edits(const struct cdi_edits *edits, struct sbuf *text, struct err *err)
{
    const struct json_options options = {.max_bytes = SIZE_MAX};
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf result = {0};
    struct json_writer w = {.out = &result};
    int r = oci_config_check_edits(edits, err);
    if (r == 0)
        r = json_parse(sbuf_str(text), &options, &doc, err);
    if (r == 0)
        r = cdi_apply(edits, doc.root, cdi_host_system(), &w, err);
    if (r == 0) {
        sbuf_clear(text);
        sbuf_add(text, sbuf_str(&result));
    }
    return r;
}

int oci_config_write(const struct oci_options *o, struct arena *arena, struct sbuf *out,
                     struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    int r = oci_config_write_all(&w, o, arena, err);
    if (r == 0 && o->edits && !cdi_edits_are_empty(o->edits))
        r = apply_edits(o->edits, &text, err);
    if (r == 0)
        sbuf_add(out, sbuf_str(&text));
    return r;
}

// --- Commands in a container ---------------------------------------------------------------------

int oci_process_write(struct str config, const struct str *command, size_t command_len, bool tty,
                      struct str mark, struct sbuf *out, struct err *err)
{
    const struct json_options options = {.max_bytes = SIZE_MAX};
    cleanup_json_doc struct json_doc doc = {0};
    struct json_writer w = {.out = out};
    int r = json_parse(config, &options, &doc, err);
    const yyjson_val *process = r == 0 ? json_get(doc.root, STR("process")) : NULL;
    if (r < 0)
        return r;
    if (!process || !json_is_object(process) || command_len == 0)
        return err_set(err, ERR_INVALID, "there is no command to run");
    json_write_object_begin(&w);
    json_obj_foreach(process, key, val) {
        json_write_key(&w, json_str(key));
        if (str_eq(json_str(key), STR("terminal"))) {
            json_write_bool(&w, tty);
        } else if (str_eq(json_str(key), STR("args"))) {
            json_write_array_begin(&w);
            for (size_t i = 0; i < command_len; i++)
                json_write_str(&w, command[i]);
            json_write_array_end(&w);
        } else if (str_eq(json_str(key), STR("env")) && json_is_array(val)) {
            json_write_array_begin(&w);
            json_arr_foreach(val, e)
                json_write_value(&w, e);
            json_write_str(&w, mark);
            if (tty)
                json_write_str(&w, STR("TERM=xterm"));
            json_write_array_end(&w);
        } else {
            json_write_value(&w, val);
        }
    }
    json_write_object_end(&w);
    return 0;
}

int oci_signal(struct str name)
{
    int64_t number;
    if (str_to_i64(name, &number) == 0)
        return number > 0 && number < 65 ? (int)number : 0;
    if (str_starts(name, STR("SIG")))
        name = str_from(name, 3);
    for (int i = 1; i < 32; i++)
        if (str_eqz(name, sigabbrev_np(i)))
            return i;
    for (int i = 0; i <= SIGRTMAX - SIGRTMIN; i++) {
        cleanup_sbuf struct sbuf one = {0};
        sbuf_addf(&one, i ? "RTMIN+%d" : "RTMIN", i);
        if (str_eq(name, sbuf_str(&one)))
            return SIGRTMIN + i;
    }
    return 0;
}
