// SPDX-License-Identifier: Apache-2.0
//
// Authentication by client certificate and by static token file; tokens of service accounts and
// bootstrap tokens are checked by their own files.
#include "server/auth/auth.h"

#include <stdio.h>

#include <sys/stat.h>

#include "base/vec.h"

#include "base/banned.h"

#define TOKEN_FILE_BYTES_MAX ((size_t)16 * 1024 * 1024)

static const struct str authenticated = STR_INIT("system:authenticated");
static const struct str admin_groups[] = {STR_INIT("system:masters"),
                                          STR_INIT("system:authenticated")};
static const struct str anonymous_groups[] = {STR_INIT("system:unauthenticated")};

const struct registry_user auth_admin = {
    .name = STR_INIT("system:admin"), .groups = admin_groups, .groups_len = 2};
const struct registry_user auth_anonymous = {
    .name = STR_INIT("system:anonymous"), .groups = anonymous_groups, .groups_len = 1};

// --- The token file ------------------------------------------------------------------------------

// auth_next_cell takes one cell of a CSV line, with or without quotes; a doubled quote stands for
// one.
static struct str auth_next_cell(struct str *line, struct arena *arena)
{
    struct str cell;
    if (line->n == 0 || line->p[0] != '"') {
        str_cut(*line, ',', &cell, line);
        return arena_str(arena, str_trim(cell));
    }
    char *out = arena_alloc(arena, line->n, 1);
    size_t n = 0, i = 1;
    for (; i < line->n; i++) {
        if (line->p[i] == '"' && (i + 1 == line->n || line->p[i + 1] != '"'))
            break;
        if (line->p[i] == '"')
            i++;
        out[n++] = line->p[i];
    }
    struct str rest = str_from(*line, i + 1);
    str_cut(rest, ',', &cell, line);
    return str_make(out, n);
}

static int parse_line(struct auth *a, struct str line, size_t number, struct err *err)
{
    struct str token = auth_next_cell(&line, &a->arena), name = auth_next_cell(&line, &a->arena),
               uid = auth_next_cell(&line, &a->arena), groups = auth_next_cell(&line, &a->arena);
    if (token.n == 0 || name.n == 0)
        return err_set(err, ERR_INVALID,
                       "line %zu: a token line has the form token,user,uid,\"group1,group2\"",
                       number);
    struct VEC(struct str) list = {0};
    while (groups.n) {
        struct str group;
        str_cut(groups, ',', &group, &groups);
        group = str_trim(group);
        if (group.n)
            vec_push_arena(&a->arena, &list, group);
    }
    vec_push_arena(&a->arena, &list, authenticated);
    bool fresh = false;
    struct registry_user *user = map_put_new(&a->tokens, token, &fresh);
    if (!fresh)
        return err_set(err, ERR_INVALID, "line %zu: this token stands in the file twice", number);
    *user =
        (struct registry_user){.name = name, .uid = uid, .groups = list.p, .groups_len = list.n};
    return 0;
}

int auth_parse(struct auth *a, struct str text, struct err *err)
{
    for (size_t number = 1; text.n; number++) {
        struct str line;
        str_cut(text, '\n', &line, &text);
        line = str_trim(line);
        if (line.n == 0 || line.p[0] == '#')
            continue;
        int r = parse_line(a, line, number, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int auth_load(struct auth *a, const char *path, struct err *err)
{
    FILE *f = path ? fopen(path, "rbe") : NULL;
    if (!f)
        return !path || errno == ENOENT ? 0 : err_set(err, errno, "cannot read %s: %m", path);
    struct stat st;
    cleanup_sbuf struct sbuf text = {0};
    int r = 0;
    if (fstat(fileno(f), &st) == 0 && (st.st_mode & 077))
        r = err_set(err, ERR_INVALID, "%s can be read by others than its owner: run 'chmod 600 %s'",
                    path, path);
    for (size_t n = 1; r == 0 && n && text.n < TOKEN_FILE_BYTES_MAX;) {
        n = fread(sbuf_space(&text, 65536), 1, 65536, f);
        sbuf_commit(&text, n);
    }
    (void)fclose(f);
    if (r == 0)
        r = auth_parse(a, sbuf_str(&text), err);
    if (r < 0 && err && err->code == ERR_INVALID && err->msg[0] == 'l')
        r = err_wrap(err, "%s", path);
    return r;
}

void auth_done(struct auth *a)
{
    map_done(&a->tokens);
    arena_done(&a->arena);
}

// --- A request -----------------------------------------------------------------------------------

static void user_of_certificate(const struct tls_peer *peer, struct arena *arena,
                                struct registry_user *ret)
{
    struct str *groups = arena_array(arena, struct str, peer->organizations_len + 1);
    for (size_t i = 0; i < peer->organizations_len; i++)
        groups[i] = arena_str(arena, peer->organizations[i]);
    groups[peer->organizations_len] = authenticated;
    *ret = (struct registry_user){.name = arena_str(arena, peer->common_name),
                                  .groups = groups,
                                  .groups_len = peer->organizations_len + 1,
                                  .until = peer->not_after};
}

static bool is_bearer(struct str scheme)
{
    static const char word[] = "bearer";
    if (scheme.n != sizeof(word) - 1)
        return false;
    for (size_t i = 0; i < scheme.n; i++)
        if ((scheme.p[i] | 0x20) != word[i])
            return false;
    return true;
}

enum auth_answer auth_identify(const struct auth *a, const struct http_request *q, int64_t now,
                               struct arena *arena, struct registry_user *ret,
                               struct str *ret_token)
{
    *ret_token = (struct str){0};
    bool expired = q->certificate && q->certificate->not_after <= now;
    if (q->certificate && q->certificate->common_name.n && !expired) {
        user_of_certificate(q->certificate, arena, ret);
        return AUTH_KNOWN;
    }
    struct str header = str_trim(http_find_header(q, STR("authorization"))), scheme, token;
    if (header.n == 0)
        return expired ? AUTH_BAD : AUTH_NOBODY;
    str_cut(header, ' ', &scheme, &token);
    token = str_trim(token);
    if (!is_bearer(scheme) || token.n == 0)
        return AUTH_NOBODY;
    *ret_token = token;
    const struct registry_user *user = map_get(&a->tokens, token);
    if (!user)
        return AUTH_BAD;
    *ret = *user;
    return AUTH_KNOWN;
}
