// SPDX-License-Identifier: Apache-2.0
//
// What the runtime tells a container's monitor, and what they say to each other.
//
// The file `plan` in the container's folder holds NUL-terminated words: a key, its values, the next key.
//   id ID               runtime PATH        state FOLDER (of crun)     cgroup PATH (or empty: none)
//   hide PATH           a mount that crun must not see
//   lower FOLDER        the image's root file system
//   copy 1              overlays do not work here
//   shared 1            mounts of the container reach the host
//   log PATH            tty 1               stdin 1                    once 1 (its input ends with the first who attaches)
//   bind HOST SUB       the next mount source, to stand at mounts/N in the folder
//
// Other files there: `config.json`; `lock`, locked as long as the monitor lives (the runtime opens and
// locks it, the monitor inherits it as descriptor 3); `sock`; `pid` of the container's first process; `created`,
// `started` (when, in nanoseconds), `exit` (CODE SIGNAL OOM NANOSECONDS), each appearing whole.
//
// The socket carries packets of text. The runtime says "watch" and hears the state at once and at every change,
// or one of "start", "kill N", "resize COLUMNS ROWS", "reopen" and hears "ok" or "error TEXT". States:
// "created", "running NANOSECONDS", "exited CODE SIGNAL OOM NANOSECONDS".
//
// Who says "attach" hears "input" with a descriptor to write the container's input to, or "no input", and from then
// on gets what the container writes, in packets that begin with the byte 1 or 2, until its end; "close" ends the
// input. One that takes nothing holds the container up, as a terminal would, for MONITOR_SLOW_NS at most.
#ifndef NODE_MONITOR_MONITOR_PLAN_H
#define NODE_MONITOR_MONITOR_PLAN_H

#define MONITOR_LOCK_FD    3
#define MONITOR_PACKET_MAX 1024
#define MONITOR_BINDS_MAX  512
#define MONITOR_SLOW_NS    INT64_C(30000000000)

#endif
