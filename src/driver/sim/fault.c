// SPDX-License-Identifier: Apache-2.0
//
// Faults of simulated hardware as a file that people and tests write while the driver runs.
#include "driver/fault.h"

#include <stdlib.h>

#include <sys/stat.h>

#include "codec/json.h"
#include "codec/json_writer.h"
#include "os/file.h"

#include "base/banned.h"

enum { FAULT_BYTES_MAX = 256 * 1024 };

static const char *const kinds[] = {
    "xid",   "lost",           "slow-prepare", "prepare-failure", "unprepare-failure",
    "crash", "attach-failure", "slow-attach"};

const char *fault_kind_name(enum fault_kind kind)
{
    return kinds[kind];
}

bool fault_kind_parse(struct str name, enum fault_kind *ret)
{
    for (size_t i = 0; i < array_len(kinds); i++) {
        if (str_eqz(name, kinds[i])) {
            *ret = (enum fault_kind)i;
            return true;
        }
    }
    return false;
}

// --- Text ----------------------------------------------------------------------------------------

static int fault_read_member(struct fault *f, struct str key, const yyjson_val *v, struct arena *a,
                             struct err *err)
{
    struct str text;
    int r;
    if (str_eq(key, STR("code")))
        return json_to_i64(v, &f->code, err);
    if (str_eq(key, STR("ms")))
        return json_to_i64(v, &f->ms, err);
    if (str_eq(key, STR("step")))
        return json_to_i64(v, &f->step, err);
    r = json_to_str(v, &text, err);
    if (r == 0 && str_eq(key, STR("device")))
        f->device = arena_str(a, text);
    else if (r == 0 && !str_eq(key, STR("kind")))
        r = err_set(err, ERR_INVALID, "a fault has kind, device, code, ms and step, nothing else");
    else if (r == 0 && !fault_kind_parse(text, &f->kind))
        r = err_set(err, ERR_INVALID, "there is no fault \"%.*s\"", STR_ARG(str_upto(text, 64)));
    return r;
}

static int read_fault(const yyjson_val *v, struct arena *a, struct fault *f, struct err *err)
{
    int r = json_want_object(v, err);
    if (r != 0)
        return r;
    json_obj_foreach(v, key, value) {
        r = fault_read_member(f, json_str(key), value, a, err);
        if (r != 0) {
            err_path_field(err, json_str(key).p, json_str(key).n);
            return r;
        }
    }
    if (!json_get(v, STR("kind")))
        return err_set(err, ERR_INVALID, "a fault needs a kind");
    if (f->ms < 0 || f->ms > 3600000 || f->step < 0 || f->code < 0)
        return err_set(err, ERR_INVALID, "code, ms (at most an hour) and step are not negative");
    return 0;
}

// fault_list_parse reads a file's text into arena, strictly.
static int fault_list_parse(struct str text, struct arena *arena, struct faults *ret,
                            struct err *err)
{
    const struct json_options options = {.max_bytes = FAULT_BYTES_MAX};
    cleanup_json_doc struct json_doc doc = {0};
    *ret = (struct faults){0};
    if (str_trim(text).n == 0)
        return 0;
    int r = json_parse(text, &options, &doc, err);
    if (r == 0)
        r = json_want_array(doc.root, err);
    if (r != 0)
        return r;
    if (json_len(doc.root) > FAULTS_MAX)
        return err_set(err, ERR_TOO_MANY, "more than %d faults", FAULTS_MAX);
    json_arr_foreach(doc.root, item) {
        struct fault f = {0};
        r = read_fault(item, arena, &f, err);
        if (r != 0) {
            err_path_index(err, ret->n);
            return r;
        }
        vec_push_arena(arena, ret, f);
    }
    return 0;
}

static void fault_write_number(struct json_writer *w, struct str key, int64_t v)
{
    if (v == 0)
        return;
    json_write_key(w, key);
    json_write_i64(w, v);
}

void fault_list_write(const struct faults *f, struct sbuf *out)
{
    struct json_writer w = {.out = out, .indent = 2};
    json_write_array_begin(&w);
    vec_foreach(f, one) {
        json_write_object_begin(&w);
        json_write_key(&w, STR("kind"));
        json_write_str(&w, str_z(kinds[one->kind]));
        if (one->device.n) {
            json_write_key(&w, STR("device"));
            json_write_str(&w, one->device);
        }
        fault_write_number(&w, STR("code"), one->code);
        fault_write_number(&w, STR("ms"), one->ms);
        fault_write_number(&w, STR("step"), one->step);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    sbuf_addc(out, '\n');
}

// --- Files ---------------------------------------------------------------------------------------

int fault_list_load(const char *path, struct arena *arena, struct faults *ret, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    *ret = (struct faults){0};
    struct stat st;
    if (stat(path, &st) != 0 && errno == ENOENT)
        return 0;
    int r = file_read(path, FAULT_BYTES_MAX, &text, err);
    if (r == 0)
        r = fault_list_parse(sbuf_str(&text), arena, ret, err);
    return r == 0 ? 0 : err_wrap(err, "%s", path);
}

int fault_list_save(const char *path, const struct faults *f, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    fault_list_write(f, &text);
    const char *slash = strrchr(path, '/');
    cleanup_free char *dir = xstrndup(path, slash ? (size_t)(slash - path) : 0);
    int r = *dir ? file_make_dirs(dir, 0755, err) : 0;
    return r == 0 ? file_replace_atomic(AT_FDCWD, path, sbuf_str(&text), 0644, err) : r;
}

void fault_file_init(struct fault_file *f, const char *path)
{
    *f = (struct fault_file){.path = path, .size = -1};
    pthread_mutex_init(&f->lock, NULL);
}

void fault_file_done(struct fault_file *f)
{
    arena_done(&f->arena);
    pthread_mutex_destroy(&f->lock);
}

// A file that cannot be read leaves the faults as they were.
static void fault_refresh_file(struct fault_file *f)
{
    struct stat st = {.st_size = -1};
    (void)stat(f->path, &st);
    if (st.st_size == f->size && st.st_mtim.tv_sec == f->changed.tv_sec &&
        st.st_mtim.tv_nsec == f->changed.tv_nsec)
        return;
    f->size = st.st_size;
    f->changed = st.st_mtim;
    struct arena arena = {0};
    struct faults faults;
    if (fault_list_load(f->path, &arena, &faults, NULL) != 0) {
        arena_done(&arena);
        return;
    }
    arena_done(&f->arena);
    f->arena = arena;
    f->faults = faults;
}

static bool fault_is_for(const struct fault *f, enum fault_kind kind, struct str device)
{
    return f->kind == kind && (f->device.n == 0 || device.n == 0 || str_eq(f->device, device));
}

bool fault_file_find(struct fault_file *f, enum fault_kind kind, struct str device,
                     struct fault *ret)
{
    bool found = false;
    pthread_mutex_lock(&f->lock);
    fault_refresh_file(f);
    vec_foreach(&f->faults, one) {
        if (!found && fault_is_for(one, kind, device)) {
            *ret = *one;
            ret->device = STR("");
            found = true;
        }
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

void fault_file_drop(struct fault_file *f, enum fault_kind kind, struct str device)
{
    pthread_mutex_lock(&f->lock);
    fault_refresh_file(f);
    struct faults left = {0};
    vec_foreach(&f->faults, one)
        if (!fault_is_for(one, kind, device))
            vec_push(&left, *one);
    struct err err;
    if (left.n != f->faults.n && fault_list_save(f->path, &left, &err) != 0)
        left.n = 0; // it stays: a caller that waits for its end retries
    vec_done(&left);
    fault_refresh_file(f);
    pthread_mutex_unlock(&f->lock);
}
