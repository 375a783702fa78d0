// SPDX-License-Identifier: Apache-2.0
//
// Containers for real: made, started, stopped, looked at, run in, limited. Needs root, crun or runc, and a static
// busybox; without them it says so and is skipped.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "os/file.h"
#include "runtime_kit.h"

#include "base/banned.h"

static struct kit_runtime kit;

static int setup(void **state)
{
    (void)state;
    kit_runtime_open(&kit);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_runtime_close(&kit);
    return 0;
}

static void must(int rc)
{
    if (rc < 0)
        fail_msg("%s", kit.err.msg);
}

static void says(const struct sbuf *text, const char *what)
{
    if (!text->p || !strstr(text->p, what))
        fail_msg("it does not say '%s' but '%s'", what, text->p ? text->p : "");
}

static void does_not_say(const struct sbuf *text, const char *what)
{
    if (text->p && strstr(text->p, what))
        fail_msg("it says '%s': '%s'", what, text->p);
}

static bool enforces(const char *what)
{
    struct str version;
    const struct str *lines;
    size_t n;
    kit.runtime->ops->about(kit.runtime, &version, &lines, &n);
    for (size_t i = 0; i < n; i++)
        if (str_contains(lines[i], str_z(what)))
            return false;
    return true;
}

// --- From start to end ---------------------------------------------------------------------------

static void a_container_runs_says_something_and_ends(void **state)
{
    char pod[80], id[80], again[80];
    cleanup_sbuf struct sbuf log = {0};
    (void)state;
    must(kit_pod(&kit, "hello", pod));
    must(kit_pod(&kit, "hello", again)); // the same
    assert_string_equal(pod, again);
    must(kit_shell(&kit, pod, "hello", "echo to out; echo to err >&2; printf cut; exit 7", id));
    must(kit_shell(&kit, pod, "hello", "something else", again));
    assert_string_equal(id, again);
    assert_int_equal(kit_status(&kit, id).state, RUNTIME_CREATED);
    assert_str(kit_status(&kit, id).image, "busybox:1.36");
    must(kit_start(&kit, id));
    struct runtime_container_status s = kit_wait(&kit, id);
    assert_true(kit.exited);
    assert_string_equal(kit.end_id, id);
    assert_int_equal(s.exit_code, 7);
    assert_int_equal(s.signal, 0);
    assert_false(s.oom_killed);
    assert_true(s.started_ns >= s.created_ns && s.finished_ns >= s.started_ns);
    kit_log(&kit, "hello", 0, &log);
    says(&log, "to out\n");
    says(&log, "to err\n");
    says(&log, "cut");
    must(kit_start(&kit, id)); // it has been; nothing happens
    must(kit_stop(&kit, id, 0));
    must(kit_remove_container(&kit, id));
    must(kit_remove_container(&kit, id));
    must(kit_pod_stop(&kit, pod));
    must(kit_pod_stop(&kit, pod));
    must(kit_pod_remove(&kit, pod));
    must(kit_pod_remove(&kit, pod));
    must(kit_stop(&kit, id, 0));
    assert_int_equal(kit_start(&kit, id), -ERR_NOT_FOUND);
}

static void many_lines_and_long_ones_are_kept(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf log = {0};
    (void)state;
    must(kit_pod(&kit, "lines", pod));
    must(kit_shell(
        &kit, pod, "lines",
        "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; printf '%050000d\\n' 7;"
        "echo end",
        id));
    must(kit_start(&kit, id));
    assert_int_equal(kit_wait(&kit, id).exit_code, 0);
    kit_log(&kit, "lines", 0, &log);
    says(&log, "line 0\n");
    says(&log, "line 2999\n");
    says(&log, "end\n");
    // Cut into parts by the log, whole again here.
    says(&log, "000007\nend\n");
    assert_int_equal(strlen(strstr(log.p, "line 2999")), strlen("line 2999") + 1 + 50000 + 1 + 4);
    must(kit_pod_remove(&kit, pod));
}

static void a_log_that_was_moved_away_is_begun_anew(void **state)
{
    char pod[80], id[80], from[128], to[128];
    cleanup_sbuf struct sbuf log = {0}, out = {0};
    int32_t status;
    (void)state;
    must(kit_pod(&kit, "rotate", pod));
    must(kit_shell(&kit, pod, "rotate",
                   "echo before; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo after", id));
    must(kit_start(&kit, id));
    (void)snprintf(from, sizeof(from), "%s/logs/rotate/0.log", kit.dir);
    (void)snprintf(to, sizeof(to), "%s/logs/rotate/0.log.1", kit.dir);
    struct stat st;
    for (int i = 0; i < 2000 && (stat(from, &st) != 0 || st.st_size == 0); i++)
        (void)usleep(5000);
    assert_int_equal(rename(from, to), 0);
    must(kit_exec(&kit, id, "touch /tmp/go", 0, &out, &status));
    assert_int_equal(kit_wait(&kit, id).exit_code, 0);
    kit_log(&kit, "rotate", 0, &log);
    assert_str(sbuf_str(&log), "after\n");
    must(kit_pod_remove(&kit, pod));
}

static void what_cannot_start_says_why(void **state)
{
    char pod[80], id[80];
    const struct str command[] = {STR("/no/such/program")};
    struct runtime_container c = {
        .name = STR("none"), .image = str_z(kit.image), .command = command, .command_len = 1};
    (void)state;
    must(kit_pod(&kit, "why", pod));
    int rc = kit_create(&kit, pod, &c, id);
    if (rc == 0)
        rc = kit_start(&kit, id);
    assert_true(rc < 0);
    if (!strstr(kit.err.msg, "such"))
        fail_msg("%s", kit.err.msg);
    c.name = STR("absent");
    c.image = STR("sha256:0000000000000000000000000000000000000000000000000000000000000000");
    assert_int_equal(kit_create(&kit, pod, &c, id), -ERR_NOT_FOUND);
    c.name = STR("../escape");
    c.image = str_z(kit.image);
    assert_int_equal(kit_create(&kit, pod, &c, id), -ERR_INVALID);
    assert_int_equal(kit_create(&kit, "no-such-pod", &c, id), -ERR_NOT_FOUND);
    must(kit_pod_remove(&kit, pod));
}

// --- Stopping ------------------------------------------------------------------------------------

static void a_stop_waits_for_the_end(void **state)
{
    char pod[80], id[80];
    (void)state;
    must(kit_pod(&kit, "stop", pod));
    must(kit_shell(&kit, pod, "polite",
                   "trap 'exit 3' TERM; touch /tmp/ready; while :; do sleep 0.05; done", id));
    must(kit_start(&kit, id));
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    must(kit_exec(&kit, id, "while [ ! -e /tmp/ready ]; do sleep 0.02; done", 0, &out, &status));
    must(kit_stop(&kit, id, 60 * CLOCK_NS_PER_SEC));
    assert_int_equal(kit_status(&kit, id).exit_code, 3);
    // One that does not listen is killed after its time.
    must(kit_shell(&kit, pod, "deaf", "trap '' TERM; while :; do sleep 1; done", id));
    must(kit_start(&kit, id));
    must(kit_stop(&kit, id, 200 * CLOCK_NS_PER_MS));
    assert_int_equal(kit_status(&kit, id).exit_code, 137);
    assert_int_equal(kit_status(&kit, id).signal, SIGKILL);
    // One that was never started.
    must(kit_shell(&kit, pod, "never", "true", id));
    must(kit_stop(&kit, id, 60 * CLOCK_NS_PER_SEC));
    assert_int_equal(kit_status(&kit, id).state, RUNTIME_EXITED);
    must(kit_pod_remove(&kit, pod));
}

static void a_pod_that_stops_takes_its_containers_along(void **state)
{
    char pod[80], one[80], two[80];
    (void)state;
    must(kit_pod(&kit, "all", pod));
    must(kit_shell(&kit, pod, "one", "sleep 1000", one));
    must(kit_shell(&kit, pod, "two", "sleep 1000", two));
    must(kit_start(&kit, one));
    must(kit_pod_stop(&kit, pod));
    assert_int_equal(kit_wait(&kit, one).exit_code, 137);
    assert_int_equal(kit_wait(&kit, two).state, RUNTIME_EXITED);
    char id[80];
    assert_int_equal(kit_shell(&kit, pod, "late", "true", id), -ERR_NOT_FOUND);
    must(kit_pod_remove(&kit, pod));
}

// --- Commands ------------------------------------------------------------------------------------

struct talk {
    bool done, seen;
    const char *want;
    int code;
    int32_t status;
    struct sbuf out;
};

static void on_talk(void *arg, int stream, struct str bytes)
{
    struct talk *t = arg;
    (void)stream;
    sbuf_add(&t->out, bytes);
    t->seen = t->want && strstr(t->out.p, t->want);
}

static void on_talk_done(void *arg, int code, int32_t status, const struct err *err)
{
    struct talk *t = arg;
    (void)err;
    t->done = true;
    t->code = code;
    t->status = status;
}

static void a_command_runs_in_a_container(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    (void)state;
    must(kit_pod(&kit, "exec", pod));
    must(kit_shell(&kit, pod, "exec", "sleep 1000", id));
    assert_int_equal(kit_exec(&kit, id, "true", 0, &out, &status), -ERR_INTERNAL); // not started
    must(kit_start(&kit, id));
    must(kit_exec(&kit, id, "hostname; echo $FROM; exit 3", 0, &out, &status));
    assert_int_equal(status, 3);
    assert_str(sbuf_str(&out), "exec\nimage\n");
    sbuf_clear(&out);
    // A process that it leaves behind does not hold up its end.
    must(kit_exec(&kit, id, "sleep 1000 & echo left", 0, &out, &status));
    assert_str(sbuf_str(&out), "left\n");
    // A program that is not there.
    struct talk t = {0};
    const struct str absent = STR("/no/such/program");
    const struct runtime_exec_options o = {.container_id = str_z(id),
                                           .command = &absent,
                                           .command_len = 1,
                                           .output = on_talk,
                                           .done = on_talk_done,
                                           .arg = &t};
    (void)kit.runtime->ops->exec(kit.runtime, &o);
    kit_turn(&kit, &t.done);
    assert_int_equal(t.code, -ERR_INTERNAL);
    sbuf_done(&t.out);
    must(kit_pod_remove(&kit, pod));
    assert_int_equal(kit_exec(&kit, id, "true", 0, &out, &status), -ERR_INTERNAL);
}

static void a_command_that_takes_too_long_is_killed_whole(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    (void)state;
    must(kit_pod(&kit, "late", pod));
    must(kit_shell(&kit, pod, "late", "sleep 1000", id));
    must(kit_start(&kit, id));
    // Children in sessions of their own, and grandchildren that were given away.
    int rc = kit_exec(&kit, id,
                      "setsid sleep 2001 & (setsid sh -c 'sleep 2002 & sleep 2003' &); sleep 2004",
                      CLOCK_NS_PER_SEC, &out, &status);
    assert_int_equal(rc, -ERR_TIMEOUT);
    sbuf_clear(&out);
    must(kit_exec(&kit, id, "ps", 0, &out, &status));
    says(&out, "sleep 1000");
    does_not_say(&out, "sleep 200");
    must(kit_pod_remove(&kit, pod));
}

static struct runtime_exec *begin_talk(struct talk *t, const char *id, const char *script, bool tty)
{
    const struct str command[] = {STR("/bin/sh"), STR("-c"), str_z(script)};
    const struct runtime_exec_options o = {
        .container_id = str_z(id),
        .command = command,
        .command_len = 3,
        .stdin = true,
        .tty = tty,
        .output = on_talk,
        .done = on_talk_done,
        .arg = t,
    };
    return kit.runtime->ops->exec(kit.runtime, &o);
}

static void a_command_reads_its_input(void **state)
{
    char pod[80], id[80];
    struct talk t = {0};
    cleanup_sbuf struct sbuf big = {0};
    (void)state;
    must(kit_pod(&kit, "input", pod));
    must(kit_shell(&kit, pod, "input", "sleep 1000", id));
    must(kit_start(&kit, id));
    sbuf_add_repeat(&big, 'a', 300000);
    struct runtime_exec *x = begin_talk(&t, id, "wc -c", false);
    kit.runtime->ops->exec_write(x, sbuf_str(&big));
    kit.runtime->ops->exec_write(x, str_make(NULL, 0));
    kit_turn(&kit, &t.done);
    assert_int_equal(t.code, 0);
    assert_str(sbuf_str(&t.out), "300000\n");
    sbuf_done(&t.out);
    must(kit_pod_remove(&kit, pod));
}

static void a_command_has_a_terminal_that_changes_its_size(void **state)
{
    char pod[80], id[80];
    struct talk t = {.want = "ready"};
    (void)state;
    must(kit_pod(&kit, "tty", pod));
    must(kit_shell(&kit, pod, "tty", "sleep 1000", id));
    must(kit_start(&kit, id));
    struct runtime_exec *x = begin_talk(
        &t, id, "[ -t 0 ] && echo ready; read line; echo got $line; stty size; exit 5", true);
    kit_turn(&kit, &t.seen);
    kit.runtime->ops->exec_resize(x, 101, 33);
    kit.runtime->ops->exec_write(x, STR("hi there\n"));
    kit_turn(&kit, &t.done);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.status, 5);
    says(&t.out, "got hi there");
    says(&t.out, "33 101");
    sbuf_done(&t.out);
    // One that is given up ends too.
    struct talk u = {.want = "go"};
    x = begin_talk(&u, id, "echo go; sleep 1000", true);
    kit_turn(&kit, &u.seen);
    kit.runtime->ops->exec_cancel(x);
    kit_turn(&kit, &u.done);
    sbuf_done(&u.out);
    must(kit_pod_remove(&kit, pod));
}

// --- Attaching -----------------------------------------------------------------------------------

struct attached {
    struct sbuf out;
    const char *wants; // `heard` when it has been said
    bool heard, ended;
    int code;
};

static void on_attached(void *arg, int stream, struct str bytes)
{
    struct attached *a = arg;
    sbuf_addf(&a->out, "%d:%.*s", stream, STR_ARG(bytes));
    a->heard = a->wants && str_contains(sbuf_str(&a->out), str_z(a->wants));
}

static void on_detached(void *arg, int code, int32_t status, const struct err *err)
{
    struct attached *a = arg;
    (void)err;
    assert_int_equal(status, 0);
    a->code = code;
    a->ended = true;
}

static struct runtime_exec *attach_to(const char *id, struct attached *a)
{
    const struct runtime_exec_options o = {.container_id = str_z(id),
                                           .stdin = true,
                                           .output = on_attached,
                                           .done = on_detached,
                                           .arg = a};
    return kit.runtime->ops->attach(kit.runtime, &o);
}

static void hear(struct attached *a, const char *what)
{
    a->wants = what;
    a->heard = str_contains(sbuf_str(&a->out), str_z(what));
    kit_turn(&kit, &a->heard);
}

static void start_reader(const char *script, bool once, bool tty, char pod[80], char id[80])
{
    const struct str words[] = {STR("/bin/sh"), STR("-c"), str_z(script)};
    const struct runtime_container c = {.name = STR("reader"),
                                        .image = str_z(kit.image),
                                        .command = words,
                                        .command_len = 3,
                                        .stdin = true,
                                        .stdin_once = once,
                                        .tty = tty};
    must(kit_pod(&kit, "reader", pod));
    must(kit_create(&kit, pod, &c, id));
    must(kit_start(&kit, id));
}

static void one_can_attach_to_a_container_and_leave_it(void **state)
{
    char pod[80], id[80];
    struct attached a = {0}, b = {0};
    const struct runtime_ops *ops = kit.runtime->ops;
    (void)state;
    start_reader("while read x; do echo got $x; echo no >&2; done; echo over", false, false, pod,
                 id);
    struct runtime_exec *x = attach_to(id, &a);
    ops->exec_write(x, STR("one\n"));
    hear(&a, "1:got one");
    hear(&a, "2:no");
    struct runtime_exec *y = attach_to(id, &b);
    ops->exec_write(y, STR("two\n"));
    hear(&b, "1:got two");
    hear(&a, "1:got two"); // everybody who is attached hears it
    ops->exec_cancel(x);
    kit_turn(&kit, &a.ended);
    assert_int_equal(kit_status(&kit, id).state, RUNTIME_RUNNING);
    ops->exec_write(y, (struct str){0}); // the input goes on for the next
    struct attached c = {0};
    struct runtime_exec *z = attach_to(id, &c);
    ops->exec_write(z, STR("three\n"));
    hear(&b, "1:got three");
    hear(&c, "1:got three");
    must(kit_stop(&kit, id, 0));
    kit_turn(&kit, &b.ended);
    kit_turn(&kit, &c.ended);
    sbuf_done(&a.out), sbuf_done(&b.out), sbuf_done(&c.out);
    must(kit_pod_remove(&kit, pod));
}

static void input_that_is_given_once_ends_with_who_gave_it(void **state)
{
    char pod[80], id[80];
    struct attached a = {0};
    cleanup_sbuf struct sbuf text = {0};
    (void)state;
    start_reader("wc -c; echo over", true, false, pod, id);
    struct runtime_exec *x = attach_to(id, &a);
    for (size_t i = 0; i < 100000; i++)
        sbuf_addz(&text, "0123456789");
    kit.runtime->ops->exec_write(x, sbuf_str(&text));
    kit.runtime->ops->exec_write(x, (struct str){0});
    kit_turn(&kit, &a.ended);
    says(&a.out, "1000000");
    says(&a.out, "over");
    assert_int_equal(kit_wait(&kit, id).exit_code, 0);
    sbuf_done(&a.out);
    must(kit_pod_remove(&kit, pod));
    // So it does when they just go.
    struct attached b = {0};
    start_reader("cat; echo over", true, false, pod, id);
    x = attach_to(id, &b);
    kit.runtime->ops->exec_write(x, STR("x\n"));
    hear(&b, "1:x");
    kit.runtime->ops->exec_cancel(x);
    kit_turn(&kit, &b.ended);
    assert_int_equal(kit_wait(&kit, id).exit_code, 0);
    sbuf_done(&b.out);
    must(kit_pod_remove(&kit, pod));
}

static void a_terminal_can_be_attached_to(void **state)
{
    char pod[80], id[80];
    struct attached a = {0};
    (void)state;
    // What is typed and how large the window is go different ways: either may come first.
    start_reader(
        "printf 'name? '; read x; until stty size 2>/dev/null | grep '45 123'; do sleep 0.1; "
        "done; echo hello $x; sleep 1000",
        false, true, pod, id);
    struct runtime_exec *x = attach_to(id, &a);
    kit.runtime->ops->exec_resize(x, 123, 45);
    kit.runtime->ops->exec_write(x, STR("world\r"));
    hear(&a, "hello world");
    says(&a.out, "45 123");
    must(kit_stop(&kit, id, 0));
    kit_turn(&kit, &a.ended);
    sbuf_done(&a.out);
    must(kit_pod_remove(&kit, pod));
}

static void one_who_reads_nothing_does_not_cost_the_log_a_line(void **state)
{
    char pod[80], id[80];
    struct attached a = {0};
    cleanup_sbuf struct sbuf log = {0};
    (void)state;
    start_reader("read x; i=0; while [ $i -lt 20000 ]; do echo line number $i of many; i=$((i+1)); "
                 "done; read y",
                 false, false, pod, id);
    struct runtime_exec *x = attach_to(id, &a);
    kit.runtime->ops->exec_hold(x, true);
    kit.runtime->ops->exec_write(x, STR("go\n"));
    must(kit_stop(&kit, id,
                  2 * CLOCK_NS_PER_SEC)); // in the middle of it, while nobody takes anything
    kit.runtime->ops->exec_hold(x, false);
    kit_turn(&kit, &a.ended);
    kit_log(&kit, "reader", 0, &log);
    assert_true(log.n > 0);
    says(&log, "line number 0 of many");
    sbuf_done(&a.out);
    must(kit_pod_remove(&kit, pod));
}

static void a_container_may_see_the_processes_of_another(void **state)
{
    char pod[80], target[80], id[80];
    cleanup_sbuf struct sbuf log = {0};
    const struct str words[] = {STR("/bin/sh"), STR("-c"), STR("ps; echo me $$")};
    (void)state;
    must(kit_pod(&kit, "seen", pod));
    must(kit_shell(&kit, pod, "target", "exec sleep 54321", target));
    must(kit_start(&kit, target));
    struct runtime_container c = {.name = STR("look"),
                                  .image = str_z(kit.image),
                                  .command = words,
                                  .command_len = 3,
                                  .target = str_z(target)};
    must(kit_create(&kit, pod, &c, id));
    must(kit_start(&kit, id));
    assert_int_equal(kit_wait(&kit, id).exit_code, 0);
    kit_log(&kit, "look", 0, &log);
    says(&log, "sleep 54321");
    does_not_say(&log, "me 1\n");
    assert_int_equal(kit_status(&kit, target).state, RUNTIME_RUNNING);
    // One that has ended, and one that is none.
    must(kit_stop(&kit, target, 0));
    c.attempt = 1;
    assert_int_equal(kit_create(&kit, pod, &c, id), -ERR_NOT_FOUND);
    c.target = STR("../../etc");
    assert_true(kit_create(&kit, pod, &c, id) < 0);
    must(kit_pod_remove(&kit, pod));
}

static void nobody_attaches_to_what_has_ended(void **state)
{
    char pod[80], id[80];
    struct attached a = {0};
    (void)state;
    must(kit_pod(&kit, "ended", pod));
    must(kit_shell(&kit, pod, "e", "true", id));
    must(kit_start(&kit, id));
    (void)kit_wait(&kit, id);
    (void)attach_to(id, &a);
    kit_turn(&kit, &a.ended);
    assert_true(a.code < 0);
    sbuf_done(&a.out);
    must(kit_pod_remove(&kit, pod));
}

static void a_container_with_a_terminal_is_logged(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_container like = {.tty = true, .stdin = true};
    (void)state;
    assert_int_equal(kit_run(&kit, &like, "[ -t 1 ] && echo yes $TERM", &out), 0);
    says(&out, "yes xterm");
}

// --- What a container is -------------------------------------------------------------------------

static void a_container_is_who_it_is_said_to_be(void **state)
{
    cleanup_sbuf struct sbuf out = {0}, two = {0}, three = {0};
    const int64_t groups[] = {77};
    const struct runtime_container alice = {.security = {.user_name = STR("alice")}};
    const struct runtime_container number = {.security = {.has_user = true,
                                                          .user = 4711,
                                                          .has_group = true,
                                                          .group = 12,
                                                          .groups = groups,
                                                          .groups_len = 1}};
    const struct runtime_container strict = {
        .security = {
            .user_name = STR("alice"), .groups = groups, .groups_len = 1, .strict_groups = true}};
    const struct runtime_container root = {.security = {.must_not_be_root = true}};
    char pod[80], id[80];
    (void)state;
    assert_int_equal(kit_run(&kit, &strict, "id", &three), 0);
    says(&three, "uid=1000(alice) gid=1001(users) groups=77,1001(users)");
    assert_int_equal(kit_run(&kit, &alice, "id; echo $HOME", &out), 0);
    says(&out, "uid=1000(alice) gid=1001(users) groups=44(video),1001(users)");
    says(&out, "/home/alice");
    assert_int_equal(kit_run(&kit, &number, "id", &two), 0);
    says(&two, "uid=4711 gid=12 groups=12,77");
    must(kit_pod(&kit, "root", pod));
    struct runtime_container c = root;
    const struct str command[] = {STR("true")};
    c.name = STR("root");
    c.image = str_z(kit.image);
    c.command = command;
    c.command_len = 1;
    assert_int_equal(kit_create(&kit, pod, &c, id), -ERR_FORBIDDEN);
    assert_non_null(strstr(kit.err.msg, "runAsNonRoot"));
    must(kit_pod_remove(&kit, pod));
}

static void environment_and_folder_are_set(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_pair env[] = {
        {STR("A"), STR("1")}, {STR("A"), STR("two words")}, {STR("FROM"), STR("pod")}};
    const struct runtime_container like = {.env = env, .env_len = 3, .working_dir = STR("/tmp")};
    (void)state;
    assert_int_equal(kit_run(&kit, &like,
                             "echo $A-$FROM; pwd; cat /etc/resolv.conf /etc/hosts /etc/hostname",
                             &out),
                     0);
    says(&out, "two words-pod\n/tmp\n");
    says(&out, "nameserver 192.0.2.1");
    says(&out, "127.0.0.1\tlocalhost");
    says(&out, "run-");
}

static void a_container_sees_little_of_the_host(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    (void)state;
    assert_int_equal(
        kit_run(&kit, NULL,
                "echo pid $$; ps | wc -l; ls /dev; grep -E 'Seccomp:|CapEff|NoNewPrivs' "
                "/proc/self/status; head -c1 /proc/kcore | wc -c; "
                "echo 1 > /proc/sys/kernel/hostname 2>/dev/null || echo ro-proc; "
                "mount -t tmpfs x /tmp 2>/dev/null || echo no-mount; "
                "mknod /tmp/d b 253 0 && head -c1 /tmp/d 2>&1; touch /sys/x 2>/dev/null || echo "
                "ro-sys; "
                "ls /sys/firmware | wc -l",
                &out),
        0);
    says(&out, "pid 1\n");
    says(&out, "CapEff:\t00000000a80425fb"); // containerd's default ones
    if (enforces("system calls are not restricted"))
        says(&out, "Seccomp:\t2");
    says(&out, "ro-proc");
    says(&out, "no-mount");
    says(&out, "ro-sys");
    if (enforces("device access"))
        says(&out, "/tmp/d: Operation not permitted");
    does_not_say(&out, "vda");
}

static void capabilities_are_added_and_dropped(void **state)
{
    cleanup_sbuf struct sbuf none = {0}, admin = {0}, all = {0};
    const struct str every[] = {STR("ALL")}, net[] = {STR("NET_ADMIN")};
    const struct runtime_container no_caps = {
        .security = {.drop_caps = every, .drop_caps_len = 1, .no_new_privileges = true}};
    const struct runtime_container net_admin = {
        .security = {.drop_caps = every, .drop_caps_len = 1, .add_caps = net, .add_caps_len = 1}};
    const struct runtime_container privileged = {.security = {.privileged = true}};
    const char *script = "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; ls /dev | wc -l";
    (void)state;
    assert_int_equal(kit_run(&kit, &no_caps, script, &none), 0);
    says(&none, "CapEff:\t0000000000000000");
    says(&none, "NoNewPrivs:\t1");
    assert_int_equal(kit_run(&kit, &net_admin, script, &admin), 0);
    says(&admin, "CapEff:\t0000000000001000");
    assert_int_equal(kit_run(&kit, &privileged,
                             "mount -t tmpfs x /tmp && echo may mount; "
                             "grep Seccomp: /proc/self/status",
                             &all),
                     0);
    says(&all, "may mount");
    says(&all, "Seccomp:\t0");
}

static void the_root_can_be_read_only(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_container like = {.security = {.read_only_root = true}};
    (void)state;
    assert_int_equal(kit_run(&kit, &like,
                             "touch /x 2>/dev/null || echo no; touch /dev/shm/x && echo yes", &out),
                     0);
    assert_str(sbuf_str(&out), "no\nyes\n");
}

static void containers_do_not_see_each_others_changes(void **state)
{
    cleanup_sbuf struct sbuf one = {0}, two = {0};
    (void)state;
    assert_int_equal(kit_run(&kit, NULL, "echo mine > /mine; rm /etc/group; ls /mine", &one), 0);
    assert_int_equal(kit_run(&kit, NULL, "ls / /etc", &two), 0);
    does_not_say(&two, "mine");
    says(&two, "group");
}

// --- Limits --------------------------------------------------------------------------------------

static void memory_is_limited(void **state)
{
    char pod[80], id[80];
    const struct str command[] = {STR("/bin/sh"), STR("-c"),
                                  STR("x=a; while :; do x=$x$x$x$x; done")};
    const struct runtime_container c = {.name = STR("oom"),
                                        .image = str_z(kit.image),
                                        .command = command,
                                        .command_len = 3,
                                        .limits = {.memory_bytes = (int64_t)16 << 20}};
    (void)state;
    if (!enforces("memory limits")) {
        printf("no memory controller: not tried\n");
        return;
    }
    must(kit_pod(&kit, "oom", pod));
    must(kit_create(&kit, pod, &c, id));
    must(kit_start(&kit, id));
    struct runtime_container_status s = kit_wait(&kit, id);
    assert_int_equal(s.exit_code, 137);
    assert_true(s.oom_killed);
    must(kit_pod_remove(&kit, pod));
}

static void processes_are_limited(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    const struct runtime_container like = {.limits = {.pids = 5}};
    (void)state;
    if (!enforces("limits on processes"))
        return;
    (void)kit_run(&kit, &like, "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; echo unlimited",
                  &out);
    does_not_say(&out, "unlimited");
}

static void processor_time_is_limited(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf out = {0}, path = {0};
    const struct str command[] = {STR("sleep"), STR("1000")};
    const struct runtime_container c = {
        .name = STR("cpu"),
        .image = str_z(kit.image),
        .command = command,
        .command_len = 2,
        .limits = {.cpu_quota_us = 20000, .cpu_period_us = 100000, .cpu_shares = 300}};
    (void)state;
    if (!enforces("CPU limits") || access("/sys/fs/cgroup/cpu", F_OK) != 0)
        return;
    must(kit_pod(&kit, "cpu", pod));
    must(kit_create(&kit, pod, &c, id));
    sbuf_addf(&path, "/sys/fs/cgroup/cpu/%s/burstable/podcpu/%s/cpu.cfs_quota_us", kit.cgroup_top,
              id);
    must(file_read_at(AT_FDCWD, path.p, 64, &out));
    assert_str(sbuf_str(&out), "20000\n");
    must(kit_pod_remove(&kit, pod));
    // The groups go with the pod.
    sbuf_clear(&path);
    sbuf_addf(&path, "/sys/fs/cgroup/cpu/%s/burstable/podcpu", kit.cgroup_top);
    assert_int_not_equal(access(path.p, F_OK), 0);
}

// --- Pods ----------------------------------------------------------------------------------------

static void containers_of_a_pod_share_its_namespaces(void **state)
{
    char pod[80], one[80], two[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    (void)state;
    must(kit_pod(&kit, "shared", pod));
    must(kit_shell(&kit, pod, "one", "echo shm > /dev/shm/x; echo hi | nc -l -p 8080; sleep 1000",
                   one));
    must(kit_shell(&kit, pod, "two", "sleep 1000", two));
    must(kit_start(&kit, one));
    must(kit_start(&kit, two));
    must(kit_exec(
        &kit, two,
        "while ! nc 127.0.0.1 8080 </dev/null 2>/dev/null; do sleep 0.05; done; cat /dev/shm/x; ps",
        0, &out, &status));
    says(&out, "hi\nshm\n");
    does_not_say(&out, "nc -l"); // their processes are their own
    must(kit_pod_remove(&kit, pod));
}

static void processes_can_be_shared(void **state)
{
    char pod[80], one[80], two[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    const struct runtime_pod p = {.namespace = STR("default"),
                                  .name = STR("pids"),
                                  .uid = STR("pids"),
                                  .hostname = STR("pids"),
                                  .share_pid = true};
    (void)state;
    must(kit_pod_run(&kit, &p, pod));
    must(kit_shell(&kit, pod, "one", "sleep 3001", one));
    must(kit_shell(&kit, pod, "two", "sleep 3002", two));
    must(kit_start(&kit, one));
    must(kit_start(&kit, two));
    must(kit_exec(&kit, one, "ps", 0, &out, &status));
    says(&out, "sleep 3001");
    says(&out, "sleep 3002");
    says(&out, "pause");
    must(kit_stop(&kit, one, 0));
    assert_int_equal(kit_status(&kit, two).state, RUNTIME_RUNNING);
    must(kit_pod_remove(&kit, pod));
}

struct found {
    bool done;
    char address[64];
};

static void find_address(void *arg, const struct runtime_list *all)
{
    struct found *f = arg;
    f->done = true;
    for (size_t i = 0; i < all->pods_len; i++)
        (void)snprintf(f->address, sizeof(f->address), "%.*s", STR_ARG(all->pods[i].address));
}

static bool host_reaches(const char *address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, address, &to.sin_addr), 1);
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int rc = connect(fd, (struct sockaddr *)&to, sizeof(to));
        (void)close(fd);
        if (rc == 0)
            return true;
        (void)usleep(20000);
    }
    return false;
}

static void pods_have_addresses(void **state)
{
    char pod[80], id[80], script[320];
    struct found f = {0};
    cleanup_sbuf struct sbuf out = {0};
    (void)state;
    if (!enforces("no network but loopback"))
        return;
    must(kit_pod(&kit, "net", pod));
    must(kit_shell(&kit, pod, "net", "while :; do echo page | nc -l -p 8080; done", id));
    must(kit_start(&kit, id));
    kit.runtime->ops->list(kit.runtime, find_address, &f);
    kit_turn(&kit, &f.done);
    assert_true(strncmp(f.address, "10.197.", 7) == 0);
    (void)snprintf(
        script, sizeof(script),
        "i=0; while [ $i -lt 200 ] && ! nc -w 2 %s 8080 </dev/null | grep page; do sleep 0.05; "
        "i=$((i+1)); done",
        f.address);
    // From another pod.
    assert_int_equal(kit_run(&kit, NULL, script, &out), 0);
    says(&out, "page");
    assert_true(host_reaches(f.address, 8080));
    const char *netns = kit.runtime->ops->pod_netns(kit.runtime, str_z(pod));
    assert_non_null(netns);
    assert_int_equal(access(netns, F_OK), 0);
    must(kit_pod_remove(&kit, pod));
}

static void sysctls_are_the_pods_own(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    const struct runtime_pair good[] = {{STR("net.ipv4.ip_unprivileged_port_start"), STR("77")}};
    const struct runtime_pair bad[] = {{STR("kernel.panic"), STR("1")}};
    struct runtime_pod p = {.namespace = STR("default"),
                            .name = STR("sysctl"),
                            .uid = STR("sysctl"),
                            .hostname = STR("sysctl"),
                            .sysctls = bad,
                            .sysctls_len = 1};
    (void)state;
    assert_int_equal(kit_pod_run(&kit, &p, pod), -ERR_INVALID);
    p.sysctls = good;
    must(kit_pod_run(&kit, &p, pod));
    must(kit_shell(&kit, pod, "s", "sleep 1000", id));
    must(kit_start(&kit, id));
    must(kit_exec(&kit, id, "cat /proc/sys/net/ipv4/ip_unprivileged_port_start", 0, &out, &status));
    assert_str(sbuf_str(&out), "77\n");
    must(kit_pod_remove(&kit, pod));
}

static void the_host_network_is_the_hosts(void **state)
{
    char pod[80], id[80];
    cleanup_sbuf struct sbuf out = {0};
    int32_t status;
    const struct runtime_pod p = {
        .namespace = STR("default"), .name = STR("host"), .uid = STR("host"), .host_network = true};
    (void)state;
    must(kit_pod_run(&kit, &p, pod));
    assert_null(kit.runtime->ops->pod_netns(kit.runtime, str_z(pod)));
    must(kit_shell(&kit, pod, "h", "sleep 1000", id));
    must(kit_start(&kit, id));
    must(kit_exec(&kit, id, "readlink /proc/self/ns/net", 0, &out, &status));
    char mine[64] = {0};
    ssize_t n = readlink("/proc/self/ns/net", mine, sizeof(mine) - 1);
    assert_true(n > 0);
    says(&out, mine);
    must(kit_pod_remove(&kit, pod));
}

// --- Which runtime ---------------------------------------------------------------------------------

static int open_with(const char *program, struct sbuf *version, struct err *err)
{
    struct runtime *r;
    struct loop *loop;
    cleanup_sbuf struct sbuf root = {0};
    const struct str *missing;
    struct str said;
    size_t n;
    sbuf_addf(&root, "%s/named", kit.dir);
    assert_int_equal(loop_new(&loop, err), 0);
    const struct runtime_crun_options o = {
        .loop = loop,
        .root = root.p,
        .monitor = getenv("DRAY_MONITOR"), // NOLINT(concurrency-mt-unsafe): a test
        .runtime = program,
        .image_dir = root.p,
        .subnet = ""};
    int code = runtime_crun_new(&o, &r, err);
    if (code == 0) {
        r->ops->about(r, &said, &missing, &n);
        sbuf_add(version, said);
        r->ops->free(r);
    }
    loop_free(loop);
    return code;
}

static void a_runtime_is_found_by_its_name(void **state)
{
    static const char *const names[] = {"crun", "runc"};
    (void)state;
    for (size_t i = 0; i < array_len(names); i++) {
        cleanup_sbuf struct sbuf version = {0};
        struct err err = {0};
        int code = open_with(names[i], &version, &err);
        if (code < 0) { // not on this machine: then it says so
            assert_int_equal(code, -ERR_UNSUPPORTED);
            assert_non_null(strstr(err.msg, "is not on PATH"));
        } else {
            says(&version, names[i]);
        }
    }
}

static void a_runtime_that_is_none_is_refused(void **state)
{
    static const struct {
        const char *program, *why;
    } rows[] = {{"no-such-runtime", "the runtime 'no-such-runtime' is not on PATH"},
                {"/no/such/crun", "the runtime '/no/such/crun' is not a program"},
                {"/etc/passwd", "is not a program"},
                {"/usr/bin", "is not a program"},
                {"/bin/true", "is neither crun nor runc"}};
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf version = {0};
        struct err err = {0};
        assert_int_equal(open_with(rows[i].program, &version, &err), -ERR_UNSUPPORTED);
        if (!strstr(err.msg, rows[i].why))
            fail_msg("%s: %s", rows[i].program, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(a_container_runs_says_something_and_ends),
        TEST_CASE(many_lines_and_long_ones_are_kept),
        TEST_CASE(a_log_that_was_moved_away_is_begun_anew),
        TEST_CASE(what_cannot_start_says_why),
        TEST_CASE(a_stop_waits_for_the_end),
        TEST_CASE(a_pod_that_stops_takes_its_containers_along),
        TEST_CASE(a_command_runs_in_a_container),
        TEST_CASE(a_command_that_takes_too_long_is_killed_whole),
        TEST_CASE(a_command_reads_its_input),
        TEST_CASE(a_command_has_a_terminal_that_changes_its_size),
        TEST_CASE(one_can_attach_to_a_container_and_leave_it),
        TEST_CASE(input_that_is_given_once_ends_with_who_gave_it),
        TEST_CASE(a_terminal_can_be_attached_to),
        TEST_CASE(one_who_reads_nothing_does_not_cost_the_log_a_line),
        TEST_CASE(nobody_attaches_to_what_has_ended),
        TEST_CASE(a_container_may_see_the_processes_of_another),
        TEST_CASE(a_container_with_a_terminal_is_logged),
        TEST_CASE(a_container_is_who_it_is_said_to_be),
        TEST_CASE(environment_and_folder_are_set),
        TEST_CASE(a_container_sees_little_of_the_host),
        TEST_CASE(capabilities_are_added_and_dropped),
        TEST_CASE(the_root_can_be_read_only),
        TEST_CASE(containers_do_not_see_each_others_changes),
        TEST_CASE(memory_is_limited),
        TEST_CASE(processes_are_limited),
        TEST_CASE(processor_time_is_limited),
        TEST_CASE(containers_of_a_pod_share_its_namespaces),
        TEST_CASE(processes_can_be_shared),
        TEST_CASE(pods_have_addresses),
        TEST_CASE(sysctls_are_the_pods_own),
        TEST_CASE(the_host_network_is_the_hosts),
        TEST_CASE(a_runtime_is_found_by_its_name),
        TEST_CASE(a_runtime_that_is_none_is_refused),
    };
    const char *why = kit_runtime_possible();
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
