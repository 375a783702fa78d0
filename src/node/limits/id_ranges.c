// SPDX-License-Identifier: Apache-2.0
//
// Finds the range of a pod among those that the files of other pods have taken.
#include "node/limits/id_ranges.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "codec/json.h"
#include "codec/json_writer.h"
#include "os/file.h"

#include "base/banned.h"

#define PODS_DEFAULT   110
#define FILE_BYTES_MAX 4096
#define SUBIDS_MAX     ((size_t)1 << 20)

// --- Ranges of the machine -----------------------------------------------------------------------

// The entry "kubelet:FIRST:COUNT" of a file; false: there is none.
static bool id_ranges_find_entry(const char *path, uint64_t *first, uint64_t *count)
{
    cleanup_sbuf struct sbuf text = {0};
    struct str rest, line, name, from, many;
    if (file_read(path, SUBIDS_MAX, &text, NULL) < 0)
        return false;
    for (rest = sbuf_str(&text); rest.n > 0;) {
        (void)str_cut(rest, '\n', &line, &rest);
        if (str_cut(line, ':', &name, &line) && str_eqz(name, "kubelet") &&
            str_cut(line, ':', &from, &many) && str_to_u64(from, first) == 0 &&
            str_to_u64(str_trim(many), count) == 0)
            return true;
    }
    return false;
}

int id_ranges_read(const char *subuid, const char *subgid, uint32_t pods_max, struct id_ranges *ret,
                   struct err *err)
{
    uint64_t first = ID_RANGE_LENGTH, count, other = 0, other_count = 0;
    count = (uint64_t)(pods_max ? pods_max : PODS_DEFAULT) * ID_RANGE_LENGTH;
    if (id_ranges_find_entry(subuid, &first, &count)) {
        if (!id_ranges_find_entry(subgid, &other, &other_count) || other != first ||
            other_count != count)
            return err_set(err, ERR_INVALID,
                           "%s and %s differ for user kubelet; give it the same ids in both",
                           subuid, subgid);
        if (first < ID_RANGE_LENGTH || first % ID_RANGE_LENGTH || count % ID_RANGE_LENGTH ||
            count == 0)
            return err_set(err, ERR_INVALID,
                           "%s: the ids of user kubelet must begin at a multiple of 65536 above 0 "
                           "and be a multiple of 65536 many",
                           subuid);
    }
    if (count > UINT32_MAX - first)
        return err_set(err, ERR_INVALID, "%s: the ids of user kubelet go too far", subuid);
    *ret = (struct id_ranges){(uint32_t)first, (uint32_t)(count / ID_RANGE_LENGTH)};
    return 0;
}

// --- Ranges of pods ------------------------------------------------------------------------------

// The range in a pod's file. Returns 0, -ENOENT, or another code for a file that says nothing good.
static int id_ranges_read_pod(int pods, const char *uid, uint32_t *ret)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    cleanup_json_doc struct json_doc doc = {0};
    int64_t base = 0;
    sbuf_addf(&path, "%s/userns", uid);
    int r = file_read_at(pods, path.p, FILE_BYTES_MAX, &text);
    if (r == 0 && text.n == 0)
        return -ENOENT; // only a loss of power leaves an empty one, and no namespace
    if (r == 0)
        r = json_parse(sbuf_str(&text), NULL, &doc, NULL);
    if (r < 0)
        return r;
    const yyjson_val *all = json_get(doc.root, STR("uidMappings"));
    const yyjson_val *host = NULL;
    if (all && json_is_array(all))
        json_arr_foreach(all, one)
            host = host ? host : json_get(one, STR("hostId"));
    if (!host || json_to_i64(host, &base, NULL) < 0 || base < ID_RANGE_LENGTH ||
        base > UINT32_MAX - ID_RANGE_LENGTH || base % ID_RANGE_LENGTH)
        return -ERR_INVALID;
    *ret = (uint32_t)base;
    return 0;
}

static int id_ranges_write_pod(int pods, const char *uid, uint32_t base, struct err *err)
{
    static const char *const keys[] = {"uidMappings", "gidMappings"};
    cleanup_sbuf struct sbuf text = {0}, path = {0};
    struct json_writer w = {.out = &text};
    json_write_object_begin(&w);
    for (size_t i = 0; i < array_len(keys); i++) {
        json_write_array_in(&w, keys[i]);
        json_write_object_begin(&w);
        json_write_number(&w, "hostId", base);
        json_write_number(&w, "containerId", 0);
        json_write_number(&w, "length", ID_RANGE_LENGTH);
        json_write_object_end(&w);
        json_write_array_end(&w);
    }
    json_write_object_end(&w);
    sbuf_addf(&path, "%s/userns", uid);
    // Not synced: a namespace does not outlive the machine, and the loop must not wait for a disk
    // that a pod keeps busy.
    return file_replace_atomic(pods, path.p, sbuf_str(&text), 0600, err);
}

// Marks what other pods have. A file that cannot be read may stand for any range.
static int id_ranges_mark(const struct id_ranges *r, int pods, DIR *d, bool *taken, struct err *err)
{
    const struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours
    while ((e = readdir(d))) {
        uint32_t base = 0;
        int code = e->d_name[0] == '.' ? -ENOENT : id_ranges_read_pod(pods, e->d_name, &base);
        if (code < 0 && code != -ENOENT && code != -ENOTDIR)
            return err_set(err, ERR_INVALID,
                           "%s/userns cannot be read; delete the pod with this uid", e->d_name);
        if (code < 0 || base < r->first)
            continue;
        uint32_t place = (base - r->first) / ID_RANGE_LENGTH;
        if (place < r->count)
            taken[place] = true;
    }
    return 0;
}

int id_ranges_assign(const struct id_ranges *ranges, const char *pods, const char *uid,
                     uint32_t *ret, struct err *err)
{
    static const struct id_ranges usual = {ID_RANGE_LENGTH, PODS_DEFAULT};
    const struct id_ranges *r = ranges ? ranges : &usual;
    DIR *d = opendir(pods);
    if (!d)
        return err_set(err, errno, "cannot read %s: %s", pods, strerrordesc_np(errno));
    int code = id_ranges_read_pod(dirfd(d), uid, ret);
    if (code == -ENOENT) {
        cleanup_free bool *taken = xcalloc(r->count, sizeof(bool));
        uint32_t place = 0;
        code = id_ranges_mark(r, dirfd(d), d, taken, err);
        while (place < r->count && taken[place])
            place++;
        *ret = r->first + place * ID_RANGE_LENGTH;
        if (code == 0 && place == r->count)
            code = err_set(err, ENOSPC,
                           "all %u ranges of ids for user namespaces are taken; give user kubelet "
                           "more in /etc/subuid and /etc/subgid",
                           r->count);
        if (code == 0)
            code = id_ranges_write_pod(dirfd(d), uid, *ret, err);
    } else if (code < 0) {
        code = err_set(err, ERR_INVALID, "%s/%s/userns cannot be read; delete the pod", pods, uid);
    }
    (void)closedir(d);
    return code;
}
