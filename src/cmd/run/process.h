// SPDX-License-Identifier: Apache-2.0
//
// What a process of ours gives up before it reads the first byte of a stranger. It takes nothing
// that a service manager or a container runtime could not take as well (deploy/): it is for those
// who start the program by hand.
#ifndef CMD_RUN_PROCESS_H
#define CMD_RUN_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

// process_begin is for every verb: names that strangers choose cannot be made to collide in hash
// maps.
void process_begin(void);

// process_confine is for those that need nothing but files and sockets of their own: server,
// scheduler, controllers. No new privileges, of root's capabilities only those to read its files
// and to listen on low ports, no core dumps, files for the owner alone. Call it before the first
// thread is started.
void process_confine(void);

// process_hide is for those that need root and start programs for others, to whom all else would be
// passed on: keys and tokens in memory are not written to core files and not shown to debuggers of
// the same user.
void process_hide(void);

// process_ends_with lets the kernel kill this process when its parent ends. False: the parent is
// another one already.
bool process_ends_with(int64_t parent);

#endif
