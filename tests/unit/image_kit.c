// SPDX-License-Identifier: Apache-2.0
#include "image_kit.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>
#include <zlib.h>

#include <sys/stat.h>

#include "node/image/image_int.h"
#include "os/file.h"
#include "unit.h"

#include "base/banned.h"

// --- Tar -----------------------------------------------------------------------------------------

static void put_octal(char *field, size_t n, uint64_t v)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%0*llo", (int)n - 1, (unsigned long long)v);
    assert_int_equal(len, n - 1);
    memcpy(field, text, n);
}

static void put_header(struct kit_tar *t, char type, const char *name, unsigned mode, size_t size,
                       const char *link)
{
    char h[512] = {0};
    (void)snprintf(h, 100, "%s", name);
    put_octal(h + 100, 8, mode);
    put_octal(h + 108, 8, 0);
    put_octal(h + 116, 8, 0);
    put_octal(h + 124, 12, size);
    put_octal(h + 136, 12, 1000000000);
    memset(h + 148, ' ', 8);
    h[156] = type;
    (void)snprintf(h + 157, 100, "%s", link ? link : "");
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(h); i++)
        sum += (unsigned char)h[i];
    (void)snprintf(h + 148, 8, "%06o", sum);
    h[155] = ' ';
    sbuf_add(&t->bytes, str_make(h, sizeof(h)));
}

static void put_data(struct kit_tar *t, struct str data)
{
    sbuf_add(&t->bytes, data);
    sbuf_add_repeat(&t->bytes, '\0', (512 - data.n % 512) % 512);
}

static void pax_record(struct sbuf *out, const char *key, const char *value)
{
    size_t n = strlen(key) + strlen(value) + 3, digits = 1;
    while (true) {
        char text[16];
        size_t now = (size_t)snprintf(text, sizeof(text), "%zu", n + digits);
        if (now == digits)
            break;
        digits = now;
    }
    sbuf_addf(out, "%zu %s=%s\n", n + digits, key, value);
}

void kit_tar_add(struct kit_tar *t, char type, const char *name, unsigned mode, struct str data,
                 const char *link)
{
    cleanup_sbuf struct sbuf pax = {0};
    if (strlen(name) > 99)
        pax_record(&pax, "path", name);
    if (link && strlen(link) > 99)
        pax_record(&pax, "linkpath", link);
    if (pax.n) {
        put_header(t, 'x', "pax", 0644, pax.n, NULL);
        put_data(t, sbuf_str(&pax));
    }
    put_header(t, type, name, mode, data.n, link);
    put_data(t, data);
}

void kit_tar_end(struct kit_tar *t)
{
    sbuf_add_repeat(&t->bytes, '\0', 1024);
}

// --- Blobs ---------------------------------------------------------------------------------------

void kit_gzip(struct str in, struct sbuf *out)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, in.n);
    z.next_in = (Bytef *)(uintptr_t)in.p;
    z.avail_in = (uInt)in.n;
    z.next_out = (Bytef *)sbuf_space(out, room);
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    sbuf_commit(out, room - z.avail_out);
    (void)deflateEnd(&z);
}

void kit_digest(struct str bytes, char out[80])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    assert_int_equal(EVP_Digest(bytes.n ? bytes.p : "", bytes.n, md, &len, EVP_sha256(), NULL), 1);
    (void)snprintf(out, 80, "sha256:");
    for (unsigned i = 0; i < len; i++)
        (void)snprintf(out + 7 + 2 * (size_t)i, 3, "%02x", md[i]);
}

void kit_each_image(struct image_store *s, void (*fn)(void *arg, const struct image_info *info),
                    void *arg)
{
    DIR *d = fdopendir(openat(s->fd, "unpacked", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const struct dirent *e; d && (e = file_next_entry(d));) {
        cleanup_arena struct arena arena = {0};
        struct image_info info;
        struct str id = arena_strf(&arena, "sha256:%s", e->d_name);
        if (image_load_unused(s, id, &arena, &info, NULL) == 0)
            fn(arg, &info);
    }
    if (d)
        (void)closedir(d);
}

void kit_write(const char *path, struct str bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        fail_msg("cannot write %s", path);
    assert_int_equal(fwrite(bytes.n ? bytes.p : "", 1, bytes.n, f), bytes.n);
    assert_int_equal(fclose(f), 0);
}

void kit_remove(const char *path)
{
    cleanup_sbuf struct sbuf command = {0};
    sbuf_addf(&command, "rm -rf '%s'", path);
    assert_int_equal(system(command.p), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
}

static void put_blob(const char *folder, struct str bytes, char digest[80])
{
    cleanup_sbuf struct sbuf path = {0};
    kit_digest(bytes, digest);
    sbuf_addf(&path, "%s/blobs/sha256/%s", folder, digest + 7);
    kit_write(path.p, bytes);
}

static void make_folders(const char *folder)
{
    static const char *const parts[] = {"", "/blobs", "/blobs/sha256"};
    for (size_t i = 0; i < array_len(parts); i++) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "%s%s", folder, parts[i]);
        (void)mkdir(path.p, 0755);
    }
}

// The index, with one more manifest.
static void add_to_index(const char *folder, const char *digest, size_t size, const char *name)
{
    cleanup_sbuf struct sbuf path = {0}, old = {0}, text = {0};
    sbuf_addf(&path, "%s/index.json", folder);
    sbuf_addz(&text, "{\"schemaVersion\":2,\"manifests\":[");
    if (access(path.p, F_OK) == 0) {
        read_file(path.p, &old);
        struct str all = sbuf_str(&old);
        ptrdiff_t from = str_find_char(all, '['), to = str_rfind_char(all, ']');
        sbuf_add(&text, str_make(all.p + from + 1, (size_t)(to - from - 1)));
        sbuf_addz(&text, ",");
    }
    sbuf_addf(&text,
              "{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"%s\","
              "\"size\":%zu",
              digest, size);
    if (name)
        sbuf_addf(&text, ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"%s\"}", name);
    sbuf_addz(&text, "}]}");
    kit_write(path.p, sbuf_str(&text));
}

void kit_layout(const char *folder, const struct kit_image *image)
{
    cleanup_sbuf struct sbuf path = {0}, config = {0}, layers = {0}, manifest = {0};
    char digest[80], config_digest[80];
    make_folders(folder);
    sbuf_addf(&path, "%s/oci-layout", folder);
    kit_write(path.p, STR("{\"imageLayoutVersion\":\"1.0.0\"}"));
    sbuf_addf(&config,
              "{\"architecture\":\"any\",\"os\":\"linux\",\"config\":%s,\"rootfs\":{"
              "\"type\":\"layers\",\"diff_ids\":[",
              image->config ? image->config : "{}");
    for (size_t i = 0; i < image->layers_len; i++) {
        cleanup_sbuf struct sbuf packed = {0};
        struct str blob = image->layers[i];
        kit_digest(blob, digest);
        sbuf_addf(&config, "%s\"%s\"", i ? "," : "", digest);
        if (image->gzip) {
            kit_gzip(blob, &packed);
            blob = sbuf_str(&packed);
        }
        put_blob(folder, blob, digest);
        sbuf_addf(&layers,
                  "%s{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar%s\",\"digest\":"
                  "\"%s\",\"size\":%zu}",
                  i ? "," : "", image->gzip ? "+gzip" : "", digest, blob.n);
    }
    sbuf_addz(&config, "]}}");
    put_blob(folder, sbuf_str(&config), config_digest);
    sbuf_addf(&manifest,
              "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
              "\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":"
              "\"%s\",\"size\":%zu},\"layers\":[%.*s]}",
              config_digest, config.n, STR_ARG(sbuf_str(&layers)));
    put_blob(folder, sbuf_str(&manifest), digest);
    add_to_index(folder, digest, manifest.n, image->name);
}

bool kit_busybox(const char *folder, const char *name, const char *config)
{
    return kit_busybox_over(folder, name, config, NULL);
}

bool kit_busybox_over(const char *folder, const char *name, const char *config,
                      const struct kit_tar *over)
{
    static const char *const links[] = {"sh",   "cat",   "echo", "ls",    "sleep", "id",
                                        "env",  "mount", "ps",   "true",  "false", "hostname",
                                        "head", "dd",    "tail", "touch", "mkdir", "ln",
                                        "wget", "nc",    "stty", "grep",  "kill",  "setsid",
                                        "rm",   "ip",    "stat", "chown", "mknod", "readlink",
                                        "sync", "test",  "wc",   "od",    "httpd", "ping"};
    if (access("/bin/busybox", R_OK) != 0)
        return false;
    struct kit_tar t = {0};
    cleanup_sbuf struct sbuf program = {0};
    read_file("/bin/busybox", &program);
    kit_tar_add(&t, '5', "./", 0755, STR(""), NULL);
    kit_tar_add(&t, '5', "bin/", 0755, STR(""), NULL);
    kit_tar_add(&t, '0', "bin/busybox", 0755, sbuf_str(&program), NULL);
    for (size_t i = 0; i < array_len(links); i++) {
        char link[64];
        (void)snprintf(link, sizeof(link), "bin/%s", links[i]);
        kit_tar_add(&t, '2', link, 0777, STR(""), "busybox");
    }
    kit_tar_add(&t, '5', "etc/", 0755, STR(""), NULL);
    kit_tar_add(&t, '0', "etc/passwd", 0644,
                STR("root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1001:Alice:/home/alice:/bin/sh\n"),
                NULL);
    kit_tar_add(&t, '0', "etc/group", 0644, STR("root:x:0:\nusers:x:1001:\nvideo:x:44:alice\n"),
                NULL);
    kit_tar_add(&t, '5', "tmp/", 01777, STR(""), NULL);
    kit_tar_add(&t, '5', "root/", 0700, STR(""), NULL);
    kit_tar_end(&t);
    const struct str layers[] = {sbuf_str(&t.bytes), over ? sbuf_str(&over->bytes) : STR("")};
    const struct kit_image image = {
        .layers = layers, .layers_len = over ? 2 : 1, .gzip = true, .config = config, .name = name};
    kit_layout(folder, &image);
    sbuf_done(&t.bytes);
    return true;
}
