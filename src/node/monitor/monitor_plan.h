// SPDX-License-Identifier: Apache-2.0
//
// The plan that the runtime writes for a container's monitor, and the protocol between them.
//
// The file `plan` in the container's directory holds NUL-terminated words: a key, its values, the
// next key.
//   id ID               runtime PATH        state DIR (of crun)        cgroup PATH (or empty: none)
//   hide PATH           a mount that crun must not see
//   lower DIR           the image's root file system
//   users PATH          the pod's user namespace; root and sources are then below
//                       MONITOR_USERS_FOLDER, with the pod's ids
//   copy 1              overlays do not work here
//   shared 1            mounts of the container reach the host
//   log PATH            tty 1               stdin 1         once 1 (input ends with the client)
//   bind HOST SUB       the next mount source, to stand at mounts/N; SUB may be empty
//
// Other files there: `config.json`; `lock`, locked as long as the monitor lives (the runtime opens
// and locks it, the monitor inherits it as descriptor 3); `sock`; `pid` of the container's first
// process; `created`, `started` (when, in nanoseconds), `exit` (CODE SIGNAL OOM NANOSECONDS), each
// appearing whole.
//
// The socket carries packets of text. The runtime sends "watch" and receives the state at once and
// at every change, or one of "start", "kill N", "resize COLUMNS ROWS", "reopen" and receives "ok"
// or "error TEXT". States: "created", "running NANOSECONDS", "exited CODE SIGNAL OOM NANOSECONDS".
//
// A client that sends "attach" receives "input" with a descriptor of the container's input, or "no
// input", and from then on receives the container's output, in packets that begin with the byte 1
// or 2, until its end; "close" ends the input. A client that does not read blocks the container, as
// a terminal would, for MONITOR_SLOW_NS at most.
#ifndef NODE_MONITOR_MONITOR_PLAN_H
#define NODE_MONITOR_MONITOR_PLAN_H

#define MONITOR_LOCK_FD    3
#define MONITOR_PACKET_MAX 1024
#define MONITOR_BINDS_MAX  516 // 512 mounts and the files of the pod
// Users of a pod's namespace must not get into the directories of other containers, but to their
// own root: it stands on a tmpfs here, in the monitor's mount namespace alone.
#define MONITOR_USERS_FOLDER "/run/dray"
#define MONITOR_SLOW_NS      INT64_C(30000000000)

#endif
