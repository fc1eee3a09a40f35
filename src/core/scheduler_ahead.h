// Asking for memory ahead of its use. Private.
//
// At ten thousand groups a request costs what it waits for lines that are in no near cache. Whom a
// parent will pick next is known as soon as its heaps are in order again, long before its next
// turn. So memory is asked for in two stages: the lines of the likely next children when a parent
// has served one, and what those point to, the request and the buckets, when the turn of the
// parent itself is next. A wrong guess costs a few instructions; no decision depends on any.
//
// Always inline: gcc takes a function that does nothing but prefetch for one without effect, and
// drops the call.
#pragma once

#include "core/node.h"

namespace weir::core {

// Lines `from` up to `to` of a node.
[[gnu::always_inline]] inline void PrefetchLines(const Node* node, size_t from, size_t to) {
  const auto* bytes = reinterpret_cast<const char*>(node);
#pragma GCC unroll 8
  for (size_t line = from; line < to; ++line) __builtin_prefetch(bytes + line * kLineBytes, 1);
}

// The first stage: whom a parent of leaves will pick next, by reservation or by weight, and who
// becomes due.
[[gnu::always_inline]] inline void PrefetchNextOf(const ChildHeaps& heaps) {
  for (int d = 0; d < 2; ++d) {
    if (!heaps.due[d].empty()) PrefetchLines(heaps.due[d].top(), 0, kLinesOfRead);
    if (!heaps.weighted[d].empty()) {
      PrefetchLines(heaps.weighted[d].top(), 0, kLinesOfRead);
    } else if (!heaps.leftover[d].empty()) {
      PrefetchLines(heaps.leftover[d].top(), 0, kLinesOfRead);
    }
    // Waking touches what the keys are computed from.
    if (!heaps.waiting[d].empty()) PrefetchLines(heaps.waiting[d].top(), 0, 3);
  }
}

inline const Node* LikelyNext(const ChildHeaps& heaps) {
  for (const auto* kind : {heaps.due, heaps.weighted, heaps.leftover}) {
    for (int d = 0; d < 2; ++d) {
      if (!kind[d].empty()) return kind[d].top();
    }
  }
  return nullptr;
}

// The second stage: what the next dispatch below `node` will find behind the lines of the first.
[[gnu::always_inline]] inline void PrefetchBehindNext(const Node* node) {
  while (!node->leaf) {
    node = LikelyNext(*node->heaps);
    if (node == nullptr) return;
  }
  const Request* request = node->reads.head != nullptr ? node->reads.head : node->writes.head;
  if (request == nullptr) return;
  __builtin_prefetch(request, 1);
  __builtin_prefetch(reinterpret_cast<const char*>(request) + kLineBytes, 1);
  __builtin_prefetch(node->buckets, 1);
}

}  // namespace weir::core
