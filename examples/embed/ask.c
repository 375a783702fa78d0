// SPDX-License-Identifier: Apache-2.0
//
// libdray from the outside: are these objects valid, which devices match an expression, and which
// would the claims get? Built against the installed files alone:
//
//     cc ask.c $(pkg-config --cflags --libs dray) -o ask
//     ./ask cluster.yaml claims.yaml "device.driver == 'gpu.example.com'"
#include <dray/alloc.h>
#include <dray/cel.h>
#include <dray/validate.h>
#include <stdio.h>
#include <stdlib.h>

// read_file returns the text of a file, NUL-terminated, and its length.
static char *read_file(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    size_t n = 0, size = 1 << 16;
    char *text = malloc(size);
    while (f && text && (n += fread(text + n, 1, size - n - 1, f)) == size - 1)
        text = realloc(text, size *= 2);
    if (!f || !text) {
        fprintf(stderr, "ask: cannot read %s\n", path);
        exit(2);
    }
    fclose(f);
    text[n] = '\0';
    *ret_len = n;
    return text;
}

static int fail(const char *what, const struct dray_error *err)
{
    fprintf(stderr, "ask: %s: %s%s%s\n", what, err->field, err->field[0] ? ": " : "", err->message);
    return 2;
}

static void print_problem(void *path, const struct dray_problem *p)
{
    printf("%s:%zu: %s %s: %s: %s\n", (const char *)path, p->line, p->kind, p->name, p->field,
           p->message);
}

static int validate(char *path, const char *text, size_t len)
{
    struct dray_validator *validator;
    struct dray_error err;
    if (dray_validator_new(NULL, &validator, &err) < 0)
        return fail("validator", &err);
    int r = dray_validate(validator, text, len, print_problem, path, &err);
    dray_validator_free(validator);
    return r < 0 ? fail(path, &err) : r;
}

static int match(const char *expression, const char *text, size_t len)
{
    struct dray_cel *program;
    struct dray_devices *devices;
    struct dray_error err;
    const struct dray_cel_options options = {.any_type = true};
    if (dray_cel_compile(expression, &options, &program, &err) < 0)
        return fail("expression", &err);
    if (dray_devices_read(text, len, &devices, &err) < 0) {
        dray_cel_free(program);
        return fail("devices", &err);
    }
    for (size_t i = 0; i < dray_devices_len(devices); i++) {
        struct dray_cel_result result;
        dray_cel_eval(program, devices, i, &result);
        printf("%s: %s\n", dray_devices_name(devices, i), result.text);
        dray_cel_result_done(&result);
    }
    dray_devices_free(devices);
    dray_cel_free(program);
    return 0;
}

static int allocate(const char *text, size_t len, const char *claims, size_t claims_len)
{
    struct dray_cluster *cluster;
    struct dray_answer answer;
    struct dray_error err;
    if (dray_cluster_read(text, len, NULL, &cluster, &err) < 0)
        return fail("cluster", &err);
    int r = dray_allocate(cluster, NULL, claims, claims_len, &answer, &err);
    dray_cluster_free(cluster);
    if (r < 0)
        return fail("claims", &err);
    r = answer.verdict == DRAY_ALLOCATED ? 0 : 1;
    printf(r == 0 ? "node %s: %s\n" : "no node%s: %s\n", answer.node, answer.text);
    dray_answer_done(&answer);
    return r;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: ask CLUSTER.yaml CLAIMS.yaml [EXPRESSION]\n");
        return 2;
    }
    size_t cluster_len, claims_len;
    char *cluster = read_file(argv[1], &cluster_len), *claims = read_file(argv[2], &claims_len);
    int r = validate(argv[2], claims, claims_len);
    if (r == 0 && argc > 3)
        r = match(argv[3], cluster, cluster_len);
    if (r == 0)
        r = allocate(cluster, cluster_len, claims, claims_len);
    free(cluster);
    free(claims);
    return r;
}
