// SPDX-License-Identifier: Apache-2.0
#include "cdi/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "codec/json.h"
#include "codec/yaml.h"

#include "base/banned.h"

#define SPEC_MODE   0644
#define FOLDER_MODE 0755

static bool is_json_name(struct str name)
{
    return str_ends(name, STR(".json"));
}

int cdi_store_path(struct sbuf *out, const char *dir, struct str name, struct err *err)
{
    bool has_end = is_json_name(name) || str_ends(name, STR(".yaml"));
    if (name.n == 0 || name.p[0] == '.' || str_find_char(name, '/') >= 0 ||
        str_find_char(name, '\0') >= 0)
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" cannot name a spec file: it must have something in it, no slash, "
                       "and not begin with a dot",
                       STR_ARG(str_upto(name, 200)));
    if (name.n + (has_end ? 0 : 5) > NAME_MAX)
        return err_set(err, ERR_INVALID, "the name of a spec file may have %d bytes at most",
                       NAME_MAX);
    sbuf_addf(out, "%s/%.*s%s", dir, STR_ARG(name), has_end ? "" : ".yaml");
    return 0;
}

static int make_folders(const char *dir, struct err *err)
{
    cleanup_free char *path = xstrndup(dir, strlen(dir));
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        (void)mkdir(path, FOLDER_MODE); // what matters is whether the last one succeeds
        *at = '/';
    }
    if (mkdir(path, FOLDER_MODE) != 0 && errno != EEXIST)
        return err_set(err, errno, "cannot make the folder %s: %s", dir, strerrordesc_np(errno));
    return 0;
}

static int write_all(int fd, struct str bytes)
{
    while (bytes.n > 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes = str_from(bytes, (size_t)n);
    }
    return 0;
}

// Fills a new file and gives it its name. Synced first: a power cut must not leave an empty spec
// under a good name.
static int fill(int fd, struct str bytes, const char *temporary, const char *path)
{
    int rc = write_all(fd, bytes);
    if (rc == 0 && (fchmod(fd, SPEC_MODE) != 0 || fsync(fd) != 0))
        rc = -errno;
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && rename(temporary, path) != 0)
        rc = -errno;
    return rc;
}

int cdi_store_replace(const char *path, struct str bytes, struct err *err)
{
    // Neither the dot nor the end is those of a spec, so no reader takes it for one.
    const char *slash = strrchr(path, '/');
    cleanup_sbuf struct sbuf temporary = {0};
    sbuf_addf(&temporary, "%.*s.spec-XXXXXX.tmp", slash ? (int)(slash + 1 - path) : 0, path);
    int fd = mkostemps(temporary.p, 4, O_CLOEXEC);
    if (fd < 0)
        return err_set(err, errno, "cannot make a file beside %s: %s", path,
                       strerrordesc_np(errno));
    int rc = fill(fd, bytes, temporary.p, path);
    if (rc == 0)
        return 0;
    (void)unlink(temporary.p);
    return err_set(err, -rc, "cannot write %s: %s", path, strerrordesc_np(-rc));
}

// A spec as the bytes of its file.
static int encode(const struct cdi_spec *spec, bool json, struct sbuf *out, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = json ? out : &text};
    cdi_write_spec(&w, spec);
    if (json) {
        sbuf_addc(out, '\n');
        return 0;
    }
    cleanup_json_doc struct json_doc doc = {0};
    int rc = json_parse(sbuf_str(&text), NULL, &doc, err);
    if (rc != 0)
        return rc;
    sbuf_addz(out, "---\n");
    yaml_write(doc.root, false, out);
    return 0;
}

int cdi_store_write(const char *dir, struct str name, const struct cdi_spec *spec, struct err *err)
{
    struct cdi_spec whole = *spec;
    if (whole.version.n == 0)
        whole.version = str_z(cdi_spec_min_version(spec));
    cleanup_sbuf struct sbuf path = {0}, bytes = {0};
    int rc = cdi_spec_check(&whole, err);
    if (rc == 0)
        rc = cdi_store_path(&path, dir, name, err);
    if (rc == 0)
        rc = encode(&whole, is_json_name(sbuf_str(&path)), &bytes, err);
    if (rc == 0 && bytes.n > CDI_SPEC_BYTES_MAX)
        rc = err_set(err, ERR_TOO_LARGE, "a CDI spec may have %zu bytes at most",
                     CDI_SPEC_BYTES_MAX);
    if (rc == 0)
        rc = make_folders(dir, err);
    return rc == 0 ? cdi_store_replace(path.p, sbuf_str(&bytes), err) : rc;
}

int cdi_store_remove(const char *dir, struct str name, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    int rc = cdi_store_path(&path, dir, name, err);
    if (rc != 0)
        return rc;
    if (unlink(path.p) != 0 && errno != ENOENT)
        return err_set(err, errno, "cannot remove %s: %s", path.p, strerrordesc_np(errno));
    return 0;
}
