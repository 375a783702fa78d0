// SPDX-License-Identifier: Apache-2.0
//
// dray exec: a command in a container, with this terminal if requested. Its exit status is ours.
#include <signal.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include "client/remote_exec.h"
#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/objects/follow.h"
#include "cmd/objects/podref.h"
#include "net/fdread.h"

#include "base/banned.h"

static struct {
    struct cli_texts words, command;
    const char *container;
    bool input, tty;
} args;

static int verb_exec(void);

static const struct cli_option exec_options[] = {
    {"--stdin", "-i", NULL, "pass standard input to the command", .flag = &args.input},
    {"--tty", "-t", NULL, "give the command a terminal", .flag = &args.tty},
    {"--container", "-c", "NAME", "run it in this container; default: the pod's first",
     .text = &args.container},
};
static const struct cli_group exec_group = CLI_GROUP("Options", exec_options);

const struct cli_verb exec_verb = {
    .name = "exec",
    .summary = "run a command in a container",
    .chapter = CLI_OBJECTS,
    .everyday = true,
    .synopsis = "exec POD|KIND/NAME [OPTIONS] -- COMMAND [ARGUMENT…]",
    .text = "Runs a command in a container. The exit status is that of the command, 1 if it could "
            "not be run.",
    .examples = "dray exec trainer -- nvidia-smi\n"
                "dray exec -it trainer -c main -- sh\n"
                "tar c data | dray exec -i trainer -- tar x -C /tmp",
    .groups = {&exec_group, &common_cluster},
    .words = &args.words,
    .behind = &args.command,
    .word_names = "pods",
    .run = verb_exec,
};

struct session {
    struct cluster *c;
    struct remote_exec *exec;
    struct fdread *input;
    struct termios before;
    bool raw;
    int code, exit_status;
    struct err err;
};

// --- The terminal --------------------------------------------------------------------------------

static void make_raw(struct session *s)
{
    struct termios raw;
    if (!args.tty || tcgetattr(STDIN_FILENO, &s->before) < 0)
        return;
    raw = s->before;
    cfmakeraw(&raw);
    s->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void make_cooked(struct session *s)
{
    if (s->raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
    s->raw = false;
}

static void tell_size(void *arg)
{
    struct session *s = arg;
    struct view_term term = view_term_of(STDOUT_FILENO, VIEW_NEVER);
    if (args.tty && term.tty && s->exec)
        remote_exec_resize(s->exec, term.columns, term.rows);
}

// --- The command ---------------------------------------------------------------------------------

static void exec_on_done(void *arg, int code, int exit_status, const struct err *err)
{
    struct session *s = arg;
    s->code = code;
    s->exit_status = exit_status;
    if (code < 0)
        s->err = *err;
    loop_stop(s->c->loop);
}

static void exec_on_output(void *arg, bool error, struct str bytes)
{
    (void)arg;
    FILE *to = error ? stderr : stdout;
    (void)fwrite(bytes.p, 1, bytes.n, to);
    (void)fflush(to);
}

static void exec_on_input(void *arg, struct str bytes)
{
    struct session *s = arg;
    if (!remote_exec_input(s->exec, bytes))
        fdread_hold(s->input, true);
}

static void exec_on_drained(void *arg)
{
    struct session *s = arg;
    if (s->input)
        fdread_hold(s->input, false);
}

static void exec_on_opened(void *arg)
{
    struct session *s = arg;
    struct err err = {0};
    make_raw(s);
    tell_size(s);
    if (args.input && fdread_new(s->c->loop, STDIN_FILENO, exec_on_input, s, &s->input, &err) < 0)
        exec_on_done(s, -err.code, 0, &err);
}

static void exec_add_query(struct sbuf *query, struct str container)
{
    follow_add_query(query, "container", container);
    for (size_t i = 0; i < args.command.n; i++)
        follow_add_query(query, "command", str_z(args.command.p[i]));
    if (args.input)
        follow_add_query(query, "stdin", STR("true"));
    follow_add_query(query, "stdout", STR("true"));
    if (!args.tty)
        follow_add_query(query, "stderr", STR("true"));
    else
        follow_add_query(query, "tty", STR("true"));
}

static int exec_run_session(struct session *s, const struct sbuf *target, struct err *err)
{
    const struct remote_exec_options o = {.target = sbuf_str(target),
                                          .opened = exec_on_opened,
                                          .output = exec_on_output,
                                          .drained = exec_on_drained,
                                          .done = exec_on_done,
                                          .arg = s};
    int r = args.tty ? loop_on_signal(s->c->loop, SIGWINCH, tell_size, s, err) : 0;
    if (r == 0)
        r = remote_exec_new(s->c->client, &o, &s->exec, err);
    if (r < 0)
        return r;
    loop_run(s->c->loop);
    make_cooked(s);
    fdread_free(take_ptr(s->input));
    remote_exec_free(take_ptr(s->exec));
    if (s->code < 0)
        *err = s->err;
    return s->code;
}

static int exec_run_verb(struct session *s, struct err *err)
{
    cleanup_json_doc struct json_doc pod = {0};
    cleanup_sbuf struct sbuf target = {0}, query = {0};
    struct str container = {0};
    if (args.words.n != 1 || args.command.n == 0)
        return err_set(err, ERR_INVALID, "in which pod, and what? POD -- COMMAND");
    if (args.tty && isatty(STDIN_FILENO) != 1) {
        (void)fprintf(stderr, "dray exec: standard input is no terminal; -t is left out\n");
        args.tty = false;
    }
    int r = common_open(s->c, err);
    if (r == 0)
        r = podref_find(s->c, args.words.p[0], &pod, err);
    if (r == 0)
        r = podref_container(pod.root, args.container, &container, err);
    if (r < 0)
        return r;
    podref_add_path(&target, pod.root, "exec");
    exec_add_query(&query, container);
    sbuf_add(&target, sbuf_str(&query));
    return exec_run_session(s, &target, err);
}

static int verb_exec(void)
{
    struct cluster c = {0};
    struct session s = {.c = &c};
    struct err err = {0};
    int r = VERB_OK;
    if (exec_run_verb(&s, &err) < 0)
        r = err.code == ERR_INVALID ? cli_usage_error("exec", err.msg) : common_fail("exec", &err);
    else
        r = s.exit_status;
    cluster_close(&c);
    return r;
}
