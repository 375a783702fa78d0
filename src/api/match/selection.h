// SPDX-License-Identifier: Apache-2.0
//
// The answer of a rule that can meet something it cannot read. Kubernetes treats unreadable
// selectors differently from place to place: some callers fail, others take them for one that
// matches nothing. The rules say which of the three it is; the caller decides.
#ifndef API_MATCH_SELECTION_H
#define API_MATCH_SELECTION_H

// The order is part of the interface: `> 0` is a match, `< 0` cannot be read.
enum selection {
    SELECTION_INVALID = -1,
    SELECTION_NO = 0,
    SELECTION_YES = 1,
};

#endif
