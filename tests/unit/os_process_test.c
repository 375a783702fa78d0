// SPDX-License-Identifier: Apache-2.0
//
// Programs: output and its bounds, exit status, the time limit, descriptors, signals.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/wait.h>

#include "base/clock.h"
#include "os/process.h"
#include "unit.h"

#include "base/banned.h"

static int shell(const char *script, struct process p, struct sbuf *out, struct err *err)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    p.argv = argv;
    return process_run(&p, out, err);
}

static void output_and_status(void **state)
{
    (void)state;
    struct sbuf out = {0};
    const struct process both = {.err = PROCESS_OUTPUT};
    assert_int_equal(shell("echo one; echo two >&2; exit 7", both, &out, NULL), 7);
    assert_str(sbuf_str(&out), "one\ntwo\n");
    sbuf_clear(&out);
    assert_int_equal(shell("echo one; echo two >&2", (struct process){0}, &out, NULL), 0);
    assert_str(sbuf_str(&out), "one\n");
    sbuf_done(&out);
    assert_int_equal(shell("kill -TERM $$", (struct process){0}, NULL, NULL), 128 + SIGTERM);
    assert_int_equal(shell("cat", (struct process){0}, NULL, NULL), 0); // its input is empty
}

static void a_missing_program_is_told(void **state)
{
    (void)state;
    struct err err = {0};
    const struct process p = {.argv = (const char *const[]){"/no/such/program", NULL}};
    assert_int_equal(process_run(&p, NULL, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "/no/such/program"));
    struct sbuf path = {0};
    assert_false(process_find("no-such-program", &path));
    assert_true(process_find("sh", &path));
    assert_true(str_ends(sbuf_str(&path), STR("/sh")));
    sbuf_done(&path);
}

static void output_has_a_bound(void **state)
{
    (void)state;
    struct sbuf out = {0};
    struct err err = {0};
    const char *many = "head -c 300000 /dev/zero; exit 3";
    assert_int_equal(shell(many, (struct process){0}, &out, NULL), 3);
    assert_int_equal(out.n, PROCESS_OUTPUT_MAX);
    sbuf_clear(&out);
    assert_int_equal(shell(many, (struct process){.output_max = 1000}, &out, NULL), 3);
    assert_int_equal(out.n, 1000);
    const struct process whole = {.output_max = 1000, .output_whole = true};
    assert_int_equal(shell("head -c 1000 /dev/zero", whole, NULL, NULL), 0);
    assert_int_equal(shell("cat /dev/zero", whole, NULL, &err), -ERR_TOO_LARGE); // killed
    sbuf_done(&out);
}

static void time_has_a_limit(void **state)
{
    (void)state;
    struct err err = {0};
    const struct process p = {.timeout_ns = 100 * CLOCK_NS_PER_MS};
    int64_t begun = clock_mono_ns(clock_system());
    assert_int_equal(shell("exec sleep 60", p, NULL, &err), -ERR_TIMEOUT);
    assert_true(clock_mono_ns(clock_system()) - begun < 30 * CLOCK_NS_PER_SEC);
    assert_non_null(strstr(err.msg, "100 ms"));
}

static void descriptors_and_environment(void **state)
{
    (void)state;
    int ends[2], more[2];
    struct sbuf out = {0};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(more, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "in", 2), 2);
    assert_int_equal(write(more[1], "three", 5), 5);
    (void)close(ends[1]);
    (void)close(more[1]);
    const struct process p = {.in = ends[0],
                              .pass_fd = more[0],
                              .env = (const char *const[]){"PATH=/usr/bin:/bin", "A=b", NULL}};
    assert_int_equal(shell("cat; cat <&3; echo -n $A$HOME", p, &out, NULL), 0);
    assert_str(sbuf_str(&out), "inthreeb");
    (void)close(ends[0]);
    (void)close(more[0]);
    sbuf_done(&out);
}

static void signals_are_not_inherited(void **state)
{
    (void)state;
    const char *script = "kill -HUP $$; exit 0";
    (void)signal(SIGHUP, SIG_IGN);
    assert_int_equal(shell(script, (struct process){0}, NULL, NULL), 128 + SIGHUP);
    assert_int_equal(shell(script, (struct process){.keep_signals = true}, NULL, NULL), 0);
    (void)signal(SIGHUP, SIG_DFL);
}

static void one_that_is_only_started(void **state)
{
    (void)state;
    const struct process p = {.argv = (const char *const[]){"other name", "-c", "exit 5", NULL},
                              .path = "/bin/sh",
                              .new_session = true};
    pid_t pid = 0;
    int status = 0;
    assert_int_equal(process_start(&p, &pid, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 5);
}

RUN_TESTS(TEST_CASE(output_and_status), TEST_CASE(a_missing_program_is_told),
          TEST_CASE(output_has_a_bound), TEST_CASE(time_has_a_limit),
          TEST_CASE(descriptors_and_environment), TEST_CASE(signals_are_not_inherited),
          TEST_CASE(one_that_is_only_started))
