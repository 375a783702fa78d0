// SPDX-License-Identifier: Apache-2.0
//
// Identifiers, and descriptions and exit status of pods and containers on disk.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "codec/json.h"
#include "codec/json_writer.h"
#include "node/image/image_blob.h"
#include "node/runtime/crun_int.h"
#include "os/file.h"

#include "base/banned.h"

// --- Names ---------------------------------------------------------------------------------------

static void crun_state_hash_id(struct str text, char out[CRUN_ID_LEN + 1])
{
    cleanup_sbuf struct sbuf hex = {0};
    image_sha256(text, false, &hex);
    memcpy(out, hex.p, CRUN_ID_LEN);
    out[CRUN_ID_LEN] = '\0';
}

void crun_pod_id(const struct crun *c, struct str uid, uint32_t attempt, char out[CRUN_ID_LEN + 1])
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "pod %s %.*s %u", c->paths.root, STR_ARG(uid), attempt);
    crun_state_hash_id(sbuf_str(&text), out);
}

void crun_container_id(const struct crun *c, struct str pod_id, struct str name, uint32_t attempt,
                       char out[CRUN_ID_LEN + 1])
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "container %s %.*s %.*s %u", c->paths.root, STR_ARG(pod_id), STR_ARG(name),
              attempt);
    crun_state_hash_id(sbuf_str(&text), out);
}

bool crun_id_ok(struct str id)
{
    if (id.n != CRUN_ID_LEN)
        return false;
    for (size_t i = 0; i < id.n; i++)
        if (!(id.p[i] >= '0' && id.p[i] <= '9') && !(id.p[i] >= 'a' && id.p[i] <= 'f'))
            return false;
    return true;
}

struct str crun_pod_dir(const struct crun *c, const char *id, struct arena *arena)
{
    return arena_strf(arena, "%s/pods/%s", c->paths.root, id);
}

struct str crun_container_dir(const struct crun *c, const char *id, struct arena *arena)
{
    return arena_strf(arena, "%s/containers/%s", c->paths.root, id);
}

// --- Descriptions --------------------------------------------------------------------------------

// One row a member: of text, or a number.
enum { REQUIRED_ROWS = 8 };

struct row {
    const char *key;
    struct str *text;
    int64_t *number;
};

static int crun_state_write_rows(const char *folder, const struct row *rows, size_t n,
                                 struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    json_write_object_begin(&w);
    for (size_t i = 0; i < n; i++) {
        json_write_key(&w, str_z(rows[i].key));
        if (rows[i].text)
            json_write_str(&w, *rows[i].text);
        else
            json_write_i64(&w, *rows[i].number);
    }
    json_write_object_end(&w);
    cleanup_fd int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : file_replace_atomic(fd, "meta", sbuf_str(&text), 0644, NULL);
    return r < 0 ? err_set(err, -r, "cannot write to %s: %s", folder, strerrordesc_np(-r)) : 0;
}

static int crun_state_read_rows(const char *folder, const struct row *rows, size_t n,
                                struct arena *arena)
{
    cleanup_sbuf struct sbuf text = {0}, path = {0};
    cleanup_json_doc struct json_doc doc = {0};
    sbuf_addf(&path, "%s/meta", folder);
    int r = file_read_at(AT_FDCWD, path.p, CRUN_META_BYTES, &text);
    if (r == 0)
        r = json_parse(sbuf_str(&text), NULL, &doc, NULL);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const yyjson_val *v = json_get(doc.root, str_z(rows[i].key));
        struct str s = STR("");
        if (!v)
            r = i < REQUIRED_ROWS ? -ERR_INVALID : 0; // an older version had fewer
        else if (!rows[i].text)
            r = json_to_i64(v, rows[i].number, NULL);
        else if ((r = json_to_str(v, &s, NULL)) == 0)
            *rows[i].text = arena_str(arena, s);
    }
    return r;
}

// The same rows for both directions: f is crun_state_read_rows or crun_state_write_rows in
// disguise.
#define POD_ROWS(m, n)                                                                           \
    {                                                                                            \
        {"namespace", &(m)->namespace, NULL}, {"name", &(m)->name, NULL},                        \
            {"uid", &(m)->uid, NULL}, {"hostname", &(m)->hostname, NULL},                        \
            {"logDir", &(m)->log_dir, NULL}, {"address", &(m)->address, NULL},                   \
            {"cgroup", &(m)->cgroup, NULL}, {"bootID", &(m)->boot_id, NULL},                     \
            {"attempt", NULL, &(n)[0]}, {"hostNetwork", NULL, &(n)[1]},                          \
            {"hostPID", NULL, &(n)[2]}, {"hostIPC", NULL, &(n)[3]}, {"sharePID", NULL, &(n)[4]}, \
            {"stopped", NULL, &(n)[5]}, {"usersBase", NULL, &(n)[7]},                            \
            {"usersLength", NULL, &(n)[8]}, {"handler", &(m)->handler, NULL},                    \
        {                                                                                        \
            "created", NULL, &(n)[6]                                                             \
        }                                                                                        \
    }

int crun_pod_write(const struct crun *c, const char *id, const struct crun_pod_meta *said,
                   struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct crun_pod_meta m = *said;
    int64_t n[] = {m.attempt, m.host_network, m.host_pid,   m.host_ipc,    m.share_pid,
                   m.stopped, m.created_ns,   m.users.base, m.users.length};
    const struct row rows[] = POD_ROWS(&m, n);
    return crun_state_write_rows(crun_pod_dir(c, id, &arena).p, rows, array_len(rows), err);
}

int crun_pod_read(const char *folder, struct arena *arena, struct crun_pod_meta *ret)
{
    struct crun_pod_meta m = {0};
    int64_t n[9] = {0};
    const struct row rows[] = POD_ROWS(&m, n);
    int r = crun_state_read_rows(folder, rows, array_len(rows), arena);
    m.attempt = (uint32_t)n[0];
    m.host_network = n[1];
    m.host_pid = n[2];
    m.host_ipc = n[3];
    m.share_pid = n[4];
    m.stopped = n[5];
    m.created_ns = n[6];
    m.users = (struct runtime_users){(uint32_t)n[7], (uint32_t)n[8]};
    if (r == 0)
        *ret = m;
    return r;
}

#define CONTAINER_ROWS(m, n)                                                                   \
    {                                                                                          \
        {"pod", &(m)->pod, NULL}, {"podUID", &(m)->pod_uid, NULL}, {"name", &(m)->name, NULL}, \
            {"image", &(m)->image, NULL}, {"imageID", &(m)->image_id, NULL},                   \
            {"log", &(m)->log, NULL}, {"cgroup", &(m)->cgroup, NULL},                          \
            {"bootID", &(m)->boot_id, NULL}, {"attempt", NULL, &(n)[0]},                       \
            {"stopSignal", NULL, &(n)[1]},                                                     \
        {                                                                                      \
            "created", NULL, &(n)[2]                                                           \
        }                                                                                      \
    }

int crun_container_write(const struct crun *c, const char *id,
                         const struct crun_container_meta *said, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct crun_container_meta m = *said;
    int64_t n[] = {m.attempt, m.stop_signal, m.created_ns};
    const struct row rows[] = CONTAINER_ROWS(&m, n);
    return crun_state_write_rows(crun_container_dir(c, id, &arena).p, rows, array_len(rows), err);
}

int crun_container_read(const char *folder, struct arena *arena, struct crun_container_meta *ret)
{
    struct crun_container_meta m = {0};
    int64_t n[3] = {0};
    const struct row rows[] = CONTAINER_ROWS(&m, n);
    int r = crun_state_read_rows(folder, rows, array_len(rows), arena);
    m.attempt = (uint32_t)n[0];
    m.stop_signal = (int)n[1];
    m.created_ns = n[2];
    if (r == 0)
        *ret = m;
    return r;
}

// --- Exit status ---------------------------------------------------------------------------------

static bool crun_state_read_words(const char *folder, const char *name, struct sbuf *out)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", folder, name);
    return file_read_at(AT_FDCWD, path.p, 4096, out) == 0;
}

bool crun_has_file(const char *dir, const char *name)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", dir, name);
    return access(path.p, F_OK) == 0;
}

bool crun_container_read_end(const char *folder, struct runtime_container_status *ret)
{
    cleanup_sbuf struct sbuf text = {0};
    int64_t numbers[4];
    if (!crun_state_read_words(folder, "exit", &text))
        return false;
    struct str rest = str_trim(sbuf_str(&text)), word;
    for (size_t i = 0; i < 4; i++) {
        (void)str_cut(rest, ' ', &word, &rest);
        if (str_to_i64(word, &numbers[i]) != 0)
            return false;
    }
    ret->state = RUNTIME_EXITED;
    ret->exit_code = (int32_t)numbers[0];
    ret->signal = (int32_t)numbers[1];
    ret->oom_killed = numbers[2] != 0;
    ret->finished_ns = numbers[3];
    return true;
}

int64_t crun_container_read_time(const char *folder, const char *name)
{
    cleanup_sbuf struct sbuf text = {0};
    int64_t ns;
    if (!crun_state_read_words(folder, name, &text) ||
        str_to_i64(str_trim(sbuf_str(&text)), &ns) != 0)
        return 0;
    return ns;
}
